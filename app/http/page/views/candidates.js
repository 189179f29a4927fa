/** The candidates of a beam search at the first step after a prefix. */

/** @import { Translation } from "../types.js" */

/**
 * @typedef {object} Choice One token.
 * @property {string} text The token as it continues the sentence, with a space before it where it begins a word.
 * @property {number} probability Of the token, given the tokens before it.
 * @property {string} continuation The continuation of the best translation that begins with it; empty if the search found none.
 * @property {boolean} isEnd Whether the sentence ends here.
 */

/** @typedef {{ first: number, text: string, steps: number }} Path  From the first step's candidate. */

/**
 * The candidates of the first step, the most probable first.
 *
 * @param {Translation} translation With `search`.
 * @returns {Choice[]}
 */
export function choicesOf({ search = [] }) {
  /** @type {Map<number, Path>} By the candidate that it ends with. */
  const paths = new Map();
  /** @type {Map<number, { text: string, score: number }>} The best that ended, by the first step's candidate. */
  const best = new Map();
  for (const { id, parent, text, log_prob, finished } of search.flatMap(({ hypotheses }) => hypotheses)) {
    const before = paths.get(parent) ?? { first: id, text: "", steps: 0 };
    const path = { first: before.first, text: before.text + text, steps: before.steps + 1 };
    paths.set(id, path);
    // The mean: sums favour short sentences.
    const score = log_prob / path.steps;
    if (finished && score > (best.get(path.first)?.score ?? Number.NEGATIVE_INFINITY)) {
      best.set(path.first, { text: path.text, score });
    }
  }
  return (
    (search[0]?.hypotheses ?? [])
      // Skip tokens that are only the space before a word.
      .filter(({ text, finished }) => finished || text.trim())
      .map(({ id, text, log_prob, finished }) => ({
        text,
        probability: Math.exp(log_prob),
        continuation: best.get(id)?.text.slice(text.length) ?? "",
        isEnd: finished,
      }))
      .sort((a, b) => b.probability - a.probability)
  );
}

/**
 * A beginning of a translation with one more token.
 *
 * @param {string} before The beginning, without trailing whitespace.
 * @param {string} text
 */
export function extended(before, text) {
  return (before + text).trim();
}
