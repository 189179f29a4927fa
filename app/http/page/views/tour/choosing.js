/** The choice of a head, which several chapters share. */

import { h } from "../../element.js";
import { choice, numbered } from "./controls.js";
import { KINDS } from "./lesson.js";
import { t } from "../../texts.js";

/** @import { Focus } from "./chapter.js" */
/** @import { Kind } from "../../types.js" */
/** @import { Lesson } from "./lesson.js" */

/**
 * Lists of the kinds, the layers and optionally the heads.
 *
 * @param {Lesson} lesson
 * @param {Focus} focus Is set to the choice.
 * @param {{ kinds?: Kind[], heads?: boolean }} parts
 * @param {() => void} changed
 * @returns {HTMLElement}
 */
export function headChoice(lesson, focus, { kinds = lesson.kinds, heads = true }, changed) {
  focus.head = existing(lesson, focus, kinds);
  const { kind, layer, head } = focus.head;
  const size = lesson.size(kind);
  const names = kinds.map((name) => /** @type {[string, string]} */ ([name, KINDS[name]]));
  const row = h(
    "div",
    { class: "row choices" },
    choice(t("main.attention"), names, kind, (chosen) => {
      focus.head = { ...focus.head, kind: /** @type {Kind} */ (chosen) };
      const renewed = headChoice(lesson, focus, { kinds, heads }, changed);
      row.replaceWith(renewed);
      renewed.querySelector("select")?.focus();
      changed();
    }),
    numbered(t("head-grid.layer"), size.layers, layer, (chosen) => {
      focus.head = { ...focus.head, layer: chosen };
      changed();
    }),
    heads &&
      numbered(t("tour.choosing.head"), size.heads, head, (chosen) => {
        focus.head = { ...focus.head, head: chosen };
        changed();
      }),
  );
  return row;
}

/**
 * The chosen head, or the nearest one that exists.
 *
 * @param {Lesson} lesson
 * @param {Focus} focus
 * @param {Kind[]} kinds
 */
function existing(lesson, { head: { kind: chosenKind, layer, head } }, kinds) {
  const kind = kinds.includes(chosenKind) ? chosenKind : kinds[0];
  const { layers, heads } = lesson.size(kind);
  return { kind, layer: Math.min(layer, layers - 1), head: Math.min(head, heads - 1) };
}
