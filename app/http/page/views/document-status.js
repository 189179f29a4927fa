/**
 * The status of a document in words.
 */

import { languageName } from "../languages.js";
import { t } from "../texts.js";

/** @import { Document } from "../types.js" */

/**
 * The status of a document.
 *
 * @param {Document} document
 * @param {string} target The language it is translated into.
 */
export function statusOf(document, target) {
  const { done, total } = document.sentences;
  const { status, seconds_left: seconds, untranslated, memory } = document;
  const progress = total === null ? "" : t("document-entry.ofSentences", { done, total });
  switch (status) {
    case "queued":
      return t("document-entry.queued");
    case "running":
      return [
        progress || t("document-entry.reading"),
        seconds !== null && t("document-entry.left", { time: timeLeft(seconds) }),
      ]
        .filter(Boolean)
        .join(", ");
    case "done":
      if (!total) return t("document-entry.nothing");
      if (isUnchanged(document)) return t("document-entry.already", { language: languageName(target) });
      return [
        untranslated ? t("document-entry.translatedExcept", { untranslated, total }) : t("document-entry.translated"),
        memory?.exact && t("document-entry.exact", { count: memory.exact }),
        memory?.steered && t("document-entry.steered", { count: memory.steered }),
      ]
        .filter(Boolean)
        .join(", ");
    case "failed":
      return [t("document-entry.failed"), progress].filter(Boolean).join(t("document-entry.after"));
    case "cancelled":
      return [t("document-entry.cancelled"), progress].filter(Boolean).join(t("document-entry.after"));
  }
}

/**
 * Whether a document has text of which nothing was translated, because it is in the target language.
 *
 * @param {Document} document
 */
export function isUnchanged({ status, sentences: { done, total } }) {
  return status === "done" && done === 0 && Boolean(total);
}

/** @param {number} seconds */
function timeLeft(seconds) {
  return seconds < 90
    ? t("document-entry.aboutS", { seconds: Math.ceil(seconds) })
    : t("document-entry.aboutMin", { minutes: Math.round(seconds / 60) });
}
