/** The sentences of a text and of its translation, and the replacement of a sentence's translation. */

import { Characters } from "../characters.js";

/** @import { Span, Translation } from "../types.js" */

/** @typedef {{ source: Span, translation: string }} TranslatedSentence  As the events of a streamed answer have it. */
/** @typedef {{ source: Span, target: Span }} SentencePair  Both in characters. */
/** @typedef {{ source?: Span, target: Span | null }} Placed  Data about a position of the text. */

/**
 * The positions of sentences in the text and in its translation.
 *
 * @param {string} text
 * @param {string} translation
 * @param {TranslatedSentence[] | undefined} sentences In order; undefined: the text is one sentence.
 * @returns {SentencePair[]} Empty if the translation does not contain them.
 */
export function pairSentences(text, translation, sentences) {
  if (!sentences) return [{ source: [0, count(text)], target: [0, count(translation)] }];
  /** @type {SentencePair[]} */
  const pairs = [];
  let unit = 0;
  let character = 0;
  for (const sentence of sentences) {
    const position = translation.indexOf(sentence.translation, unit);
    if (position < 0) return [];
    const start = character + count(translation.slice(unit, position));
    character = start + count(sentence.translation);
    unit = position + sentence.translation.length;
    pairs.push({ source: sentence.source, target: [start, character] });
  }
  return pairs;
}

/**
 * The translation of a text after one of its sentences was translated again: its words, links and terms come from
 * the answer, those of the other sentences stay. With several sentences the score of the whole text is then unknown, and
 * the confidence is that of the answer.
 *
 * @param {Translation} whole
 * @param {SentencePair[]} pairs
 * @param {number} index The sentence.
 * @param {Translation} answer Its new translation.
 * @returns {{ translation: Translation, pairs: SentencePair[] }}
 */
export function replaceSentence(whole, pairs, index, answer) {
  const { source, target } = /** @type {SentencePair} */ (pairs[index]);
  const characters = new Characters(whole.text);
  const [head, tail] = [characters.slice(0, target[0]), characters.slice(target[1])];
  const end = target[0] + count(answer.text);
  const growth = end - target[1];
  /** @type {<Item extends Placed>(old: Item[], made: Item[]) => Item[]} */
  const joined = (old, made) => [
    ...old
      .filter((item) => (item.source ? !overlap(item.source, source) : !overlap(item.target, target)))
      .map((item) => (item.target && item.target[0] >= target[1] ? moved(item, 0, growth) : item)),
    ...made.map((item) => moved(item, source[0], target[0])),
  ];

  const isWhole = pairs.length === 1;
  const spans = joined(whole.integrity?.spans ?? [], answer.integrity?.spans ?? []);
  const numbers = joined(whole.integrity?.numbers ?? [], answer.integrity?.numbers ?? []);
  const terms = joined(whole.glossary ?? [], answer.glossary ?? []);
  const { integrity: _spans, glossary: _terms, confidence, ...rest } = whole;
  /** @type {Translation} */
  const translation = {
    ...rest,
    text: head + answer.text + tail,
    score: isWhole ? answer.score : null,
    finish_reason: isWhole ? answer.finish_reason : whole.finish_reason,
    alternatives: isWhole ? answer.alternatives.map((item) => ({ ...item, text: head + item.text + tail })) : [],
    alignment: joined(whole.alignment ?? [], answer.alignment ?? []),
    ...((spans.length || numbers.length) && {
      integrity: { status: spans.some(({ restored }) => restored) ? "restored" : "intact", spans, numbers },
    }),
    ...(terms.length && { glossary: terms }),
    ...(whole.memory && { memory: whole.memory.filter((use) => !overlap(use.source, source)) }),
    ...(answer.confidence && {
      confidence: {
        score: answer.confidence.score,
        words: joined(confidence?.words ?? [], answer.confidence.words),
        uncovered: answer.confidence.uncovered && [
          ...(confidence?.uncovered ?? []).filter((span) => !overlap(span, source)),
          ...answer.confidence.uncovered.map((span) => shifted(span, source[0])),
        ],
      },
    }),
  };
  return { translation, pairs: pairs.map((pair, other) => movedPair(pair, other - index, end, growth)) };
}

/**
 * @param {SentencePair} pair
 * @param {number} distance How many sentences behind the one that is replaced.
 * @param {number} end Where that one ends now.
 * @param {number} growth How many characters longer it is.
 * @returns {SentencePair}
 */
function movedPair({ source, target }, distance, end, growth) {
  if (distance === 0) return { source, target: [target[0], end] };
  return { source, target: distance < 0 ? target : shifted(target, growth) };
}

/**
 * @param {Span | null} one
 * @param {Span} other
 */
function overlap(one, other) {
  return one !== null && one[0] < other[1] && other[0] < one[1];
}

/**
 * @template {Placed} Item
 * @param {Item} item
 * @param {number} bySource
 * @param {number} byTarget
 * @returns {Item}
 */
function moved(item, bySource, byTarget) {
  return {
    ...item,
    ...(item.source && { source: shifted(item.source, bySource) }),
    ...(item.target && { target: shifted(item.target, byTarget) }),
  };
}

/**
 * @param {Span} span
 * @param {number} by
 * @returns {Span}
 */
function shifted([start, end], by) {
  return [start + by, end + by];
}

/** The number of characters of a text. @param {string} text */
function count(text) {
  return new Characters(text).length;
}
