/**
 * The keys that move through rows and columns.
 */

/** The change of row and column that a key makes. @type {Record<string, [number, number]>} */
const MOVES = {
  ArrowUp: [-1, 0],
  ArrowDown: [1, 0],
  ArrowLeft: [0, -1],
  ArrowRight: [0, 1],
  Home: [0, -Infinity],
  End: [0, Infinity],
  PageUp: [-Infinity, 0],
  PageDown: [Infinity, 0],
};

/**
 * Where a key moves to, inside the grid; null if it moves nothing.
 *
 * @param {string} key
 * @param {[number, number]} place Row and column.
 * @param {[number, number]} size Rows and columns.
 * @returns {[number, number] | null}
 */
export function gridMove(key, [row, column], [rows, columns]) {
  const move = MOVES[key];
  return move ? [within(row + move[0], rows), within(column + move[1], columns)] : null;
}

/**
 * The nearest index that exists.
 *
 * @param {number} index
 * @param {number} count
 */
export function within(index, count) {
  return Math.min(Math.max(index, 0), count - 1);
}
