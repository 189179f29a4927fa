/** The chapter about subwords and markers. */

import { h } from "../../element.js";
import { languageName } from "../../languages.js";
import { Words } from "../words.js";
import { inTheCode, heading, note, paragraph, table, token } from "./prose.js";
import { stage } from "./stage.js";

/** @import { Chapter } from "./chapter.js" */

const WORD_START = "▁";
/** How families of models mark the language of a sentence. */
const LANGUAGE_MARKERS = [/^<2(.+)>$/, /^>>(.+)<<$/, /^__(.+)__$/, /^([a-z]{3}_[A-Z][a-z]{3})$/];
/** @type {Record<string, string>} */
const MARKERS = {
  "<s>": "a marker: the start of the sentence",
  "</s>": "a marker: the end of the sentence",
  "<pad>": "a marker: padding",
  "<unk>": "a marker: a character that the vocabulary does not have",
};

/** @type {Chapter} */
export const subwords = {
  name: "subwords",
  title: "From text to subwords",
  text: ({ architecture }) => [
    paragraph(
      "A Transformer does not read letters or words. The tokenizer cuts a sentence into tokens from a fixed vocabulary" +
        ` (here ${architecture.source_vocab_size} of them). A frequent word is one token; a rare one is cut into` +
        " subwords. So every word can be written, and the vocabulary stays small.",
    ),
    paragraph(
      "The sign `▁` stands for the space before a word. Markers such as `</s>` are tokens, too: they tell the model what" +
        " the text does not contain, for example the end of the sentence and the target language.",
    ),
    paragraph(
      "Each token is a number: a row of the embedding table. Change the sentence above to see this: a long or unusual word" +
        " is split into more pieces.",
    ),
    inTheCode("model/text/tokenizer.py"),
  ],
  live: (lesson) =>
    stage(async () => {
      const { source, target } = await lesson.tokens();
      const numWords = new Words(lesson.sentence, String(lesson.fields.source)).length;
      return [
        heading("Your sentence"),
        tokenList("Source tokens", source),
        note(`${numWords} ${numWords === 1 ? "word" : "words"}, ${source.length} tokens with the markers.`),
        table(
          "Types of tokens",
          ["Position", "Token", "Meaning"],
          source.map((piece, position) => [position, token(piece), meaning(piece)]),
        ),
        heading("Its translation"),
        tokenList("Target tokens", target),
        note("The model writes these tokens one after the other. It stops when it writes the end marker."),
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
  if (language) return `a marker: the language ${languageName(language)}`;
  if (/^<.+>$/.test(piece)) return "a marker";
  if (piece === WORD_START) return "a space";
  if (piece.startsWith(WORD_START)) return "begins a word";
  return /^\p{P}+$/u.test(piece) ? "punctuation" : "continues a word";
}
