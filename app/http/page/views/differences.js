/** The differences of two texts, by words. */

/** @typedef {{ text: string, kind: "same" | "new" | "gone" }} Piece  `gone`: only the other text has it. */

/** Maximum number of comparisons of words; beyond it, everything between the first and the last difference is new. */
const MAX_COMPARISONS = 1_000_000;

/**
 * A text in pieces.
 *
 * @param {string} text
 * @param {string} other
 * @returns {Piece[]}
 */
export function differences(text, other) {
  const [words, otherWords] = [pieces(text), pieces(other)];
  let start = 0;
  while (start < words.length && words[start] === otherWords[start]) start++;
  let end = 0;
  while (end < Math.min(words.length, otherWords.length) - start && words.at(-1 - end) === otherWords.at(-1 - end))
    end++;
  return merged([
    ...words.slice(0, start).map(piece("same")),
    ...changes(words.slice(start, words.length - end), otherWords.slice(start, otherWords.length - end)),
    ...words.slice(words.length - end).map(piece("same")),
  ]);
}

/** Words with the whitespace behind them. @param {string} text */
function pieces(text) {
  return text.match(/^\s+|\S+\s*/gu) ?? [];
}

/** @param {Piece["kind"]} kind */
function piece(kind) {
  return (/** @type {string} */ text) => ({ text, kind });
}

/**
 * By the longest common subsequence.
 *
 * @param {string[]} words
 * @param {string[]} otherWords
 * @returns {Piece[]}
 */
function changes(words, otherWords) {
  const width = otherWords.length + 1;
  if (words.length * otherWords.length > MAX_COMPARISONS) {
    return [...otherWords.map(piece("gone")), ...words.map(piece("new"))];
  }
  /** Length of the longest common subsequence of the texts from a word of each on. */
  const lengths = new Uint16Array((words.length + 1) * width);
  const length = (/** @type {number} */ row, /** @type {number} */ column) => lengths[row * width + column] ?? 0;
  for (let row = words.length - 1; row >= 0; row--) {
    for (let column = otherWords.length - 1; column >= 0; column--) {
      lengths[row * width + column] =
        words[row] === otherWords[column]
          ? length(row + 1, column + 1) + 1
          : Math.max(length(row + 1, column), length(row, column + 1));
    }
  }
  /** @type {Piece[]} */
  const differing = [];
  let [row, column] = [0, 0];
  while (row < words.length || column < otherWords.length) {
    const [word, other] = [words[row], otherWords[column]];
    if (word !== undefined && word === other) {
      differing.push({ text: word, kind: "same" });
      row++;
      column++;
    } else if (other !== undefined && (word === undefined || length(row, column + 1) >= length(row + 1, column))) {
      differing.push({ text: other, kind: "gone" });
      column++;
    } else if (word !== undefined) {
      differing.push({ text: word, kind: "new" });
      row++;
    }
  }
  return differing;
}

/**
 * Merges neighbours of the same kind.
 *
 * @param {Piece[]} parts
 */
function merged(parts) {
  /** @type {Piece[]} */
  const runs = [];
  for (const { text, kind } of parts) {
    const last = runs.at(-1);
    if (last?.kind === kind) last.text += text;
    else runs.push({ text, kind });
  }
  return runs;
}
