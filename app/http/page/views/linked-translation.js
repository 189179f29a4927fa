/** A translation and what is known of its words. */

import { percent } from "../numbers.js";
import { linkWords } from "./links.js";
import { pairSentences } from "./sentences.js";
import { levelOf } from "./levels.js";
import { Words } from "./words.js";

/** @import { Alternative, Translation } from "../types.js" */
/** @import { Link } from "./links.js" */
/** @import { SentencePair, TranslatedSentence } from "./sentences.js" */

/** @typedef {{ sentence: number, before: string, rest: string }} Place  A place in a sentence's translation. */

/** It does not change: another choice makes another one. */
export class LinkedTranslation {
  /**
   * @param {object} parts
   * @param {Translation} parts.translation
   * @param {string} parts.sourceText
   * @param {SentencePair[]} parts.pairs Empty where they are not known.
   * @param {Alternative[]} parts.hypotheses What the search found, best first.
   * @param {boolean} parts.isSteered Whether it is another one than the model's own.
   */
  constructor({ translation, sourceText, pairs, hypotheses, isSteered }) {
    this.translation = translation;
    this.pairs = pairs;
    this.hypotheses = hypotheses;
    this.isSteered = isSteered;
    this.source = new Words(sourceText, translation.source);
    this.target = new Words(translation.text, translation.target);
    const { words = [], uncovered } = translation.confidence ?? {};
    const spans = translation.integrity?.spans ?? [];
    /** @type {Set<number>} Words of the translation that the model was not asked for. */
    this.protected = new Set(spans.flatMap(({ target }) => this.target.within(target)));
    const copied = spans.map(({ source: from, target }) => ({ source: from, target, weight: 1 }));
    this.links = linkWords(this.source, this.target, [...(translation.alignment ?? []), ...copied]);
    /** @type {Map<number, number>} By word of the translation. */
    this.probabilities = new Map(
      words.flatMap((one) => this.target.within(one.target).map((word) => [word, one.probability])),
    );
    for (const word of this.protected) this.probabilities.delete(word);
    /** @type {Set<number>} Words of the source that may have been left out. */
    this.uncovered = new Set((uncovered ?? []).flatMap((span) => this.source.within(span)));
  }

  /**
   * The model's own translation of a text.
   *
   * @param {Translation} translation
   * @param {string} sourceText
   * @param {TranslatedSentence[] | undefined} sentences
   */
  static own(translation, sourceText, sentences) {
    return new LinkedTranslation({
      translation,
      sourceText,
      pairs: pairSentences(sourceText, translation.text, sentences),
      hypotheses: hypothesesOf(translation),
      isSteered: false,
    });
  }

  /**
   * How unsure the model is of a word of the translation; undefined where it is sure.
   *
   * @param {number} word
   */
  levelOf(word) {
    return levelOf(this.probabilities.get(word) ?? 1);
  }

  /**
   * What there is to say of a word of the translation.
   *
   * @param {number} word
   */
  aboutTarget(word) {
    if (this.protected.has(word)) return "Protected: it stays as it is.";
    const probability = this.probabilities.get(word);
    const level = this.levelOf(word);
    const sure = probability === undefined ? "" : `${percent(probability)} sure${level ? `, ${level.label}` : ""}. `;
    const links = this.links.ofTarget.get(word);
    return `${sure}${links ? `From ${named(links, this.source)}.` : "No counterpart in the text."}`;
  }

  /**
   * What there is to say of a word of the source.
   *
   * @param {number} word
   */
  aboutSource(word) {
    const left = this.uncovered.has(word) ? "Perhaps left out of the translation. " : "";
    const links = this.links.ofSource.get(word);
    return `${left}${links ? `Becomes ${named(links, this.target)}.` : "No counterpart in the translation."}`;
  }

  /**
   * Where a word of the translation stands; undefined if its sentence is not known.
   *
   * @param {number} word
   * @returns {Place | undefined}
   */
  placeOf(word) {
    const { text, characters } = this.target;
    const [unit] = this.target.span(word);
    const sentence = this.pairs.findIndex(({ target }) => unit < (characters.units[target[1]] ?? 0));
    const start = characters.units[this.pairs[sentence]?.target[0] ?? 0] ?? 0;
    if (sentence < 0 || unit < start) return undefined;
    const before = text.slice(start, unit).trimEnd();
    return { sentence, before: before.trimStart(), rest: text.slice(start + before.length) };
  }
}

/**
 * What a search found, best first. It finds some texts more than once, from different tokens.
 *
 * @param {Translation} translation
 * @returns {Alternative[]}
 */
export function hypothesesOf({ text, score, finish_reason, alternatives }) {
  const found = [{ text, score, finish_reason }, ...alternatives];
  return found.filter((one, index) => found.findIndex((other) => other.text === one.text) === index);
}

/** Counterparts that are named; all are lit. */
const MAX_NAMED = 4;

/**
 * @param {Link[]} links
 * @param {Words} words
 */
function named(links, words) {
  const names = links.slice(0, MAX_NAMED).map(({ word, weight }) => `“${words.string(word)}” (${percent(weight)})`);
  return names.join(", ") + (links.length > MAX_NAMED ? ", …" : "");
}
