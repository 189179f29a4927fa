/** How a text differs from another, by words. */

/** @typedef {{ text: string, kind: "same" | "new" | "gone" }} Piece  `gone`: only the other text has it. */

/** Comparisons of words that the browser may spend; above, all between the first and the last difference is new. */
const MAX_COMPARISONS = 1_000_000;

/**
 * A text in pieces.
 *
 * @param {string} text
 * @param {string} other
 * @returns {Piece[]}
 */
export function differences(text, other) {
  const [mine, theirs] = [pieces(text), pieces(other)];
  let start = 0;
  while (start < mine.length && mine[start] === theirs[start]) start++;
  let end = 0;
  while (end < Math.min(mine.length, theirs.length) - start && mine.at(-1 - end) === theirs.at(-1 - end)) end++;
  return joined([
    ...mine.slice(0, start).map(piece("same")),
    ...changes(mine.slice(start, mine.length - end), theirs.slice(start, theirs.length - end)),
    ...mine.slice(mine.length - end).map(piece("same")),
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
 * @param {string[]} mine
 * @param {string[]} theirs
 * @returns {Piece[]}
 */
function changes(mine, theirs) {
  const width = theirs.length + 1;
  if (mine.length * theirs.length > MAX_COMPARISONS) {
    return [...theirs.map(piece("gone")), ...mine.map(piece("new"))];
  }
  /** Length of the longest common subsequence of what stands from a word of each text on. */
  const lengths = new Uint16Array((mine.length + 1) * width);
  const length = (/** @type {number} */ row, /** @type {number} */ column) => lengths[row * width + column] ?? 0;
  for (let row = mine.length - 1; row >= 0; row--) {
    for (let column = theirs.length - 1; column >= 0; column--) {
      lengths[row * width + column] =
        mine[row] === theirs[column]
          ? length(row + 1, column + 1) + 1
          : Math.max(length(row + 1, column), length(row, column + 1));
    }
  }
  /** @type {Piece[]} */
  const found = [];
  let [row, column] = [0, 0];
  while (row < mine.length || column < theirs.length) {
    const [word, other] = [mine[row], theirs[column]];
    if (word !== undefined && word === other) {
      found.push({ text: word, kind: "same" });
      row++;
      column++;
    } else if (other !== undefined && (word === undefined || length(row, column + 1) >= length(row + 1, column))) {
      found.push({ text: other, kind: "gone" });
      column++;
    } else if (word !== undefined) {
      found.push({ text: word, kind: "new" });
      row++;
    }
  }
  return found;
}

/**
 * Neighbours of one kind as one piece.
 *
 * @param {Piece[]} found
 */
function joined(found) {
  /** @type {Piece[]} */
  const runs = [];
  for (const { text, kind } of found) {
    const last = runs.at(-1);
    if (last?.kind === kind) last.text += text;
    else runs.push({ text, kind });
  }
  return runs;
}
