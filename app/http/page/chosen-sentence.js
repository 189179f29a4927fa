/**
 * Example sentences, and the sentence that the explorer and the tour show.
 */

import { languageTag } from "./languages.js";

/** @import { Choices } from "./types.js" */

/** Everyday sentences in languages that models often translate. @type {Record<string, string[]>} */
const EXAMPLES = {
  ar: ["اشتريت كتابا جديدا."],
  cs: ["Koupil jsem si novou knihu."],
  da: ["Jeg købte en ny bog."],
  de: ["Ich habe ein neues Buch gekauft.", "Wo ist der Bahnhof?"],
  el: ["Αγόρασα ένα καινούργιο βιβλίο."],
  en: [
    "I bought a new book.",
    "Where is the station?",
    "We are going to the cinema tonight. Do you want to come with us?",
  ],
  es: ["Compré un libro nuevo."],
  fi: ["Ostin uuden kirjan."],
  fr: ["J'ai acheté un nouveau livre."],
  hi: ["मैंने एक नई किताब खरीदी।"],
  hu: ["Vettem egy új könyvet."],
  id: ["Saya membeli buku baru."],
  it: ["Ho comprato un libro nuovo."],
  ja: ["新しい本を買いました。"],
  ko: ["나는 새 책을 샀다."],
  nl: ["Ik heb een nieuw boek gekocht."],
  pl: ["Kupiłem nową książkę."],
  pt: ["Comprei um livro novo."],
  ro: ["Am cumpărat o carte nouă."],
  ru: ["Я купил новую книгу."],
  sv: ["Jag köpte en ny bok."],
  tr: ["Yeni bir kitap aldım."],
  uk: ["Я купив нову книгу."],
  vi: ["Tôi đã mua một cuốn sách mới."],
  zh: ["我买了一本新书。"],
};

/** A word for other languages, such as those of a toy model. */
const ANY_LANGUAGE = "example";

/**
 * Example sentences in a language, if any.
 *
 * @param {string} code
 */
export function examplesIn(code) {
  return EXAMPLES[languageTag(code).replace(/-.*/, "")] ?? [];
}

/**
 * The chosen sentence, else the first of the text, else an example.
 *
 * @param {Choices} choices
 * @param {string} source The language of an example.
 * @returns {{ sentence: string, isExample: boolean }}
 */
export function sentenceOf({ sentence, text }, source) {
  const own = sentence.trim() || firstSentence(text);
  if (own) return { sentence: own, isExample: false };
  return { sentence: examplesIn(source)[0] ?? ANY_LANGUAGE, isExample: true };
}

/**
 * The sentences of a text, as the browser divides it.
 *
 * @param {string} text
 */
export function sentencesOf(text) {
  const parts = [...new Intl.Segmenter(undefined, { granularity: "sentence" }).segment(text)];
  return parts.map(({ segment }) => segment.trim()).filter(Boolean);
}

/**
 * The first sentence of a text.
 *
 * @param {string} text
 */
export function firstSentence(text) {
  const [first] = new Intl.Segmenter(undefined, { granularity: "sentence" }).segment(text.trim());
  return first?.segment.trim() ?? "";
}
