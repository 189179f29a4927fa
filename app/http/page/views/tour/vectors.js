/**
 * Matrices and vectors of the model's numbers.
 */

/** @import { NpyArray } from "../../npz.js" */

/** A matrix of numbers. */
export class Matrix {
  /**
   * @param {number} rows
   * @param {number} columns
   * @param {ArrayLike<number>} data In row order.
   */
  constructor(rows, columns, data) {
    this.rows = rows;
    this.columns = columns;
    this.data = data;
  }

  /**
   * The last two axes of an array.
   *
   * @param {NpyArray} array Of numbers.
   * @param {number[]} [indices] Positions on the axes before them.
   */
  static of({ shape, data }, indices = []) {
    const [rows = 0, columns = 0] = shape.slice(-2);
    const matrix = indices.reduce((offset, index, axis) => offset * shape[axis] + index, 0);
    const start = matrix * rows * columns;
    const numbers = /** @type {Float32Array} */ (data);
    return new Matrix(rows, columns, numbers.slice(start, start + rows * columns));
  }

  /**
   * A matrix whose cells are computed.
   *
   * @param {number} rows
   * @param {number} columns
   * @param {(row: number, column: number) => number} cell
   */
  static from(rows, columns, cell) {
    const cells = Array.from({ length: rows * columns }, (_, index) =>
      cell(Math.floor(index / columns), index % columns),
    );
    return new Matrix(rows, columns, cells);
  }

  /**
   * One cell.
   *
   * @param {number} row
   * @param {number} column
   */
  at(row, column) {
    return this.data[row * this.columns + column];
  }

  /**
   * One row.
   *
   * @param {number} row
   * @returns {number[]}
   */
  row(row) {
    return Array.from({ length: this.columns }, (_, column) => this.at(row, column));
  }

  /**
   * The sum of two matrices of one shape.
   *
   * @param {Matrix} other
   */
  plus(other) {
    return Matrix.from(this.rows, this.columns, (row, column) => this.at(row, column) + other.at(row, column));
  }

  /** The largest absolute value. */
  get limit() {
    return Array.from(this.data).reduce((largest, value) => Math.max(largest, Math.abs(value)), 0);
  }
}

/**
 * The sum of numbers.
 *
 * @param {number[]} values
 */
export function sum(values) {
  return values.reduce((total, value) => total + value, 0);
}

/**
 * The dot product.
 *
 * @param {number[]} one
 * @param {number[]} other
 */
export function dot(one, other) {
  return sum(one.map((value, index) => value * other[index]));
}

/**
 * Mean and variance, as layer normalisation computes them.
 *
 * @param {number[]} values
 */
export function moments(values) {
  const mean = sum(values) / values.length;
  return { mean, variance: sum(values.map((value) => (value - mean) ** 2)) / values.length };
}
