/**
 * The words of a text that users point at, without the punctuation at their ends. In scripts without spaces, the
 * browser's dictionaries separate them.
 */

import { Characters } from "../characters.js";
import { languageTag } from "../languages.js";

/** @import { Span } from "../types.js" */

const WITHOUT_SPACES =
  /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}\p{Script=Myanmar}]/u;

/** The words of a text, by index. */
export class Words {
  /**
   * @param {string} text
   * @param {string} language Its code.
   */
  constructor(text, language) {
    this.text = text;
    this.characters = new Characters(text);
    /** @type {Span[]} Where the words are, in UTF-16 units. */
    this.units = [];
    for (const match of text.matchAll(/\S+/gu)) {
      if (WITHOUT_SPACES.test(match[0])) this.units.push(...segmented(match[0], match.index, language));
      else this.units.push(...trimmed(match[0], match.index));
    }
  }

  /** The number of words. */
  get length() {
    return this.units.length;
  }

  /**
   * The units of a word.
   *
   * @param {number} word
   * @returns {Span}
   */
  span(word) {
    return this.units[word] ?? [0, 0];
  }

  /** @param {number} word */
  string(word) {
    return this.text.slice(...this.span(word));
  }

  /**
   * The words that have characters of a span.
   *
   * @param {Span} span In characters, as the service counts them.
   */
  within([start, end]) {
    const { units } = this.characters;
    return this.#between(units[start] ?? this.text.length, units[end] ?? this.text.length);
  }

  /**
   * The word at or next to a caret, or -1.
   *
   * @param {number} unit
   */
  at(unit) {
    const word = this.#firstEndingBehind(unit - 1);
    return word < this.length && this.span(word)[0] <= unit ? word : -1;
  }

  /**
   * @param {number} start
   * @param {number} end
   */
  #between(start, end) {
    /** @type {number[]} */
    const words = [];
    for (let word = this.#firstEndingBehind(start); word < this.length && this.span(word)[0] < end; word++) {
      words.push(word);
    }
    return words;
  }

  /** @param {number} unit */
  #firstEndingBehind(unit) {
    let low = 0;
    let high = this.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.span(middle)[1] > unit) high = middle;
      else low = middle + 1;
    }
    return low;
  }
}

/**
 * @param {string} piece A piece between whitespace.
 * @param {number} start
 * @returns {Span[]} One word, or none if it is all punctuation.
 */
function trimmed(piece, start) {
  const from = start + (/^\p{P}+/u.exec(piece)?.[0].length ?? 0);
  const to = start + piece.length - (/\p{P}+$/u.exec(piece)?.[0].length ?? 0);
  return from < to ? [[from, to]] : [];
}

/**
 * @param {string} piece
 * @param {number} start
 * @param {string} language
 * @returns {Span[]}
 */
function segmented(piece, start, language) {
  return [...segmenter(language).segment(piece)]
    .filter(({ isWordLike }) => isWordLike)
    .map(({ segment, index }) => [start + index, start + index + segment.length]);
}

/** @param {string} language */
function segmenter(language) {
  try {
    return new Intl.Segmenter(languageTag(language), { granularity: "word" });
  } catch {
    return new Intl.Segmenter(undefined, { granularity: "word" });
  }
}
