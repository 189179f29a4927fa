/**
 * The markers of inline elements in a sentence: {1} and {/1} around words, {2} at a position.
 */

import { h } from "../element.js";
import { t } from "../texts.js";

/** @import { Sentence } from "../types.js" */

const MARKER = /(\{\/?(\d{1,6})\})/;

/**
 * The parts of a text, by turns text and marker. Other numbers in braces are text.
 *
 * @param {string} text
 * @param {Sentence["markers"]} markers Those of the sentence.
 */
function partsOf(text, markers = {}) {
  const pieces = text.split(MARKER);
  /** @type {{ text: string, number?: string }[]} */
  const parts = [];
  for (let index = 0; index < pieces.length; index += 3) {
    parts.push({ text: pieces[index] ?? "" });
    const [marker, number] = [pieces[index + 1], pieces[index + 2]];
    if (marker === undefined || number === undefined) continue;
    parts.push(Object.hasOwn(markers, number) ? { text: marker, number } : { text: marker });
  }
  return parts;
}

/**
 * A sentence for readers, with its markers set apart.
 *
 * @param {string} text
 * @param {Sentence["markers"]} markers
 */
export function shownWithMarkers(text, markers) {
  return partsOf(text, markers).map((part) => {
    if (part.number === undefined) return part.text;
    const shown = markers?.[part.number];
    return h("span", { class: "marker", dir: "ltr" }, part.text, shown && h("code", { dir: "auto" }, shown));
  });
}

/**
 * The markers of a text, in order.
 *
 * @param {string} text
 * @param {Sentence["markers"]} markers
 */
function markersIn(text, markers) {
  return partsOf(text, markers).flatMap((part) => (part.number === undefined ? [] : [part.text]));
}

/**
 * The markers that a translation lacks.
 *
 * @param {string} text The translation.
 * @param {Sentence} sentence
 */
export function missingMarkers(text, { machine_translation: machine, translation, markers }) {
  const present = new Set(markersIn(text, markers));
  return markersIn(machine ?? translation, markers).filter((marker) => !present.has(marker));
}

/**
 * Why a translation cannot be saved, as far as the page can tell; empty if it can. The service checks more.
 *
 * @param {string} text The translation.
 * @param {Sentence} sentence
 */
export function flawOf(text, sentence) {
  if (!text.trim()) return t("edit.blank");
  const missing = missingMarkers(text, sentence);
  if (missing.length) return t("edit.missing", { markers: missing.join(" ") });
  const present = markersIn(text, sentence.markers);
  const twice = present.find((marker, index) => present.indexOf(marker) < index);
  return twice ? t("edit.twice", { marker: twice }) : "";
}
