/** The chapter about subwords and markers. */

import { h } from "../../element.js";
import { languageName } from "../../languages.js";
import { Words } from "../words.js";
import { inTheCode, heading, note, paragraph, table, token } from "./prose.js";
import { stage } from "./stage.js";
import { t } from "../../texts.js";

/** @import { Chapter } from "./chapter.js" */

const WORD_START = "▁";
/** How families of models mark the language of a sentence. */
const LANGUAGE_MARKERS = [/^<2(.+)>$/, /^>>(.+)<<$/, /^__(.+)__$/, /^([a-z]{3}_[A-Z][a-z]{3})$/];
/** @type {Record<string, string>} */
const MARKERS = {
  "<s>": t("tour.subwords.start"),
  "</s>": t("tour.subwords.end"),
  "<pad>": t("tour.subwords.padding"),
  "<unk>": t("tour.subwords.unknown"),
};

/** @type {Chapter} */
export const subwords = {
  name: "subwords",
  title: t("tour.subwords.fromTextToSubwords"),
  text: ({ architecture }) => [
    paragraph(t("tour.subwords.tokenizer", { vocabulary: Number(architecture.source_vocab_size) })),
    paragraph(t("tour.subwords.markers")),
    paragraph(t("tour.subwords.ids")),
    inTheCode("model/text/tokenizer.py"),
  ],
  live: (lesson) =>
    stage(async () => {
      const { source, target } = await lesson.tokens();
      const numWords = new Words(lesson.sentence, String(lesson.fields.source)).length;
      return [
        heading(t("tour.subwords.yourSentence")),
        tokenList(t("tour.subwords.sourceTokens"), source),
        note(
          t("tour.subwords.counts", {
            numWords,
            words: numWords === 1 ? t("tour.subwords.word") : t("tour.subwords.words"),
            tokens: source.length,
          }),
        ),
        table(
          t("tour.subwords.typesOfTokens"),
          [t("tour.masks.position"), t("beam-tree.token"), t("tour.subwords.meaning")],
          source.map((piece, position) => [position, token(piece), meaning(piece)]),
        ),
        heading(t("glossary-choice.itsTranslation")),
        tokenList(t("tour.subwords.targetTokens"), target),
        note(t("tour.subwords.writing")),
      ];
    }).element,
};

/**
 * @param {string} name
 * @param {string[]} tokens
 */
function tokenList(name, tokens) {
  return h("ol", { class: "tokens", "aria-label": name }, ...tokens.map((piece) => h("li", {}, token(piece))));
}

/** @param {string} piece */
function meaning(piece) {
  if (piece in MARKERS) return MARKERS[piece];
  const language = LANGUAGE_MARKERS.map((pattern) => pattern.exec(piece)?.[1]).find(Boolean);
  if (language) return t("tour.subwords.language", { language: languageName(language) });
  if (/^<.+>$/.test(piece)) return t("tour.subwords.aMarker");
  if (piece === WORD_START) return t("tour.subwords.aSpace");
  if (piece.startsWith(WORD_START)) return t("tour.subwords.beginsAWord");
  return /^\p{P}+$/u.test(piece) ? t("tour.subwords.punctuation") : t("tour.subwords.continuesAWord");
}
