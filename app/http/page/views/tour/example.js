/**
 * Which sentence the tour is about.
 */

/** @import { Choices } from "../../types.js" */

/** An everyday sentence in languages that models often translate. @type {Record<string, string>} */
const EXAMPLES = {
  ar: "اشتريت كتابا جديدا.",
  cs: "Koupil jsem si novou knihu.",
  da: "Jeg købte en ny bog.",
  de: "Ich habe ein neues Buch gekauft.",
  el: "Αγόρασα ένα καινούργιο βιβλίο.",
  en: "I bought a new book.",
  es: "Compré un libro nuevo.",
  fi: "Ostin uuden kirjan.",
  fr: "J'ai acheté un nouveau livre.",
  hi: "मैंने एक नई किताब खरीदी।",
  hu: "Vettem egy új könyvet.",
  id: "Saya membeli buku baru.",
  it: "Ho comprato un libro nuovo.",
  ja: "新しい本を買いました。",
  ko: "나는 새 책을 샀다.",
  nl: "Ik heb een nieuw boek gekocht.",
  pl: "Kupiłem nową książkę.",
  pt: "Comprei um livro novo.",
  ro: "Am cumpărat o carte nouă.",
  ru: "Я купил новую книгу.",
  sv: "Jag köpte en ny bok.",
  tr: "Yeni bir kitap aldım.",
  uk: "Я купив нову книгу.",
  vi: "Tôi đã mua một cuốn sách mới.",
  zh: "我买了一本新书。",
};

/** A word for languages that are not here, such as those of a toy model. */
const ANY_LANGUAGE = "example";

/**
 * The sentence that was chosen for looking inside, else the first of the text, else an example.
 *
 * @param {Choices} choices
 * @param {string} source The language of an example.
 * @returns {{ sentence: string, isExample: boolean }}
 */
export function sentenceOf({ sentence, text }, source) {
  const own = sentence.trim() || firstSentence(text);
  if (own) return { sentence: own, isExample: false };
  return { sentence: EXAMPLES[source.split(/[-_]/)[0]] ?? ANY_LANGUAGE, isExample: true };
}

/** @param {string} text */
function firstSentence(text) {
  for (const { segment } of new Intl.Segmenter(undefined, { granularity: "sentence" }).segment(text)) {
    if (segment.trim()) return segment.trim();
  }
  return "";
}
