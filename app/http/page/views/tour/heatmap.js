/**
 * Matrices as pictures: a row for each token, a colour for each number. The exact number of the cell at the
 * pointer, or of the cell that the arrow keys select, is shown.
 */

import { fill, h } from "../../element.js";
import { gridMove, within } from "../../grid-keys.js";
import { decimal } from "../../numbers.js";
import { Palette } from "../../palette.js";
import { Matrix } from "./vectors.js";
import { t } from "../../texts.js";

const LEGEND_STEPS = 64;
/** With more rows the rows are thin and have no labels. */
const MAX_LABELS = 30;

/** @type {WeakMap<Element, () => void>} How each picture is painted. */
const PAINTERS = new WeakMap();

/**
 * Repaints the pictures after a change of the theme.
 *
 * @param {Element} root Where they are.
 */
export function repaint(root) {
  for (const canvas of root.querySelectorAll("canvas")) PAINTERS.get(canvas)?.();
}

/**
 * A canvas with a cell for each number.
 *
 * @param {Matrix} matrix
 * @param {string} name What it shows.
 * @param {number} limit The number with the last colour of the scale. 0 has the first one, or, if there are negative
 *   numbers, the middle one.
 */
export function picture(matrix, name, limit) {
  return painted(matrix, limit, isSigned(matrix), { role: "img", "aria-label": name });
}

/**
 * @param {Matrix} matrix
 * @param {number} limit
 * @param {boolean} signed
 * @param {import("../../element.js").Properties} properties
 */
function painted(matrix, limit, signed, properties) {
  const canvas = h("canvas", properties);

  const paint = () =>
    new Palette().draw(canvas, [matrix.rows, matrix.columns], matrix.data, [signed ? -limit : 0, limit]);

  PAINTERS.set(canvas, paint);
  paint();
  return canvas;
}

/**
 * A labelled picture of a matrix.
 *
 * @param {string} name What it shows.
 * @param {Matrix} matrix
 * @param {string[]} rows Names of the rows.
 * @param {{ limit?: number, columns?: string[] }} [options] `limit`: the number with the last colour. `columns`: names
 *   of the columns; without them they are numbered.
 */
export function heatMap(name, matrix, rows, { limit = matrix.limit, columns } = {}) {
  const canvas = picture(matrix, name, limit);
  const value = h("output", { class: "mono" });
  let row = 0;
  let column = 0;

  function tell() {
    const where = columns ? columns[column] : t("tour.head.column2", { column });
    fill(value, `${rows[row]}, ${where}: ${decimal(matrix.at(row, column))}`);
  }

  /** @param {PointerEvent} event */
  function point(event) {
    const box = canvas.getBoundingClientRect();
    row = within(Math.floor(((event.clientY - box.top) / box.height) * matrix.rows), matrix.rows);
    column = within(Math.floor(((event.clientX - box.left) / box.width) * matrix.columns), matrix.columns);
    tell();
  }

  /** @param {KeyboardEvent} event */
  function step(event) {
    const place = gridMove(event.key, [row, column], [matrix.rows, matrix.columns]);
    if (!place) return;
    event.preventDefault();
    [row, column] = place;
    tell();
  }

  canvas.tabIndex = 0;
  canvas.addEventListener("pointermove", point);
  canvas.addEventListener("pointerdown", point);
  canvas.addEventListener("keydown", step);
  canvas.addEventListener("focus", tell);
  canvas.style.setProperty("--rows", String(matrix.rows));
  return h(
    "figure",
    { class: `heat${columns ? " square" : ""}${rows.length > MAX_LABELS ? " dense" : ""}` },
    h("figcaption", {}, h("span", {}, name), legend(limit, isSigned(matrix)), value),
    h("ol", { class: "labels mono", "aria-hidden": "true" }, ...rows.map((label) => h("li", {}, label))),
    canvas,
  );
}

/**
 * The scale of colours.
 *
 * @param {number} limit
 * @param {boolean} signed
 */
function legend(limit, signed) {
  const scale = Matrix.from(1, LEGEND_STEPS, (_, step) => {
    const share = step / (LEGEND_STEPS - 1);
    return limit * (signed ? 2 * share - 1 : share);
  });
  return h(
    "span",
    { class: "legend muted" },
    signed ? decimal(-limit, 2) : "0",
    painted(scale, limit, signed, { "aria-hidden": "true" }),
    decimal(limit, 2),
  );
}

/** @param {Matrix} matrix */
function isSigned(matrix) {
  return Array.from(matrix.data).some((value) => value < 0);
}
