/**
 * The parts that all chapters are written with.
 */

import { h } from "../../element.js";
import { t } from "../../texts.js";

/** @import { Child } from "../../element.js" */

/**
 * A paragraph; text between backticks is set as code.
 *
 * @param {string} text
 */
export function paragraph(text) {
  return h("p", {}, ...withCode(text));
}

/** @param {string} text */
function withCode(text) {
  return text.split("`").map((part, index) => (index % 2 ? h("code", {}, part) : part));
}

/**
 * A formula on a line of its own.
 *
 * @param {string} text
 */
export function formula(text) {
  return h("p", { class: "formula mono" }, text);
}

/**
 * Where the code does what a chapter says.
 *
 * @param {...string} files
 */
export function inTheCode(...files) {
  return h(
    "p",
    { class: "muted pointer" },
    t("tour.prose.inTheCode"),
    ...withCode(files.map((file) => `\`${file}\``).join(", ")),
  );
}

/**
 * A heading within a chapter.
 *
 * @param {string} text
 */
export function heading(text) {
  return h("h3", {}, text);
}

/**
 * A note below something that is shown.
 *
 * @param {string} text
 */
export function note(text) {
  return h("p", { class: "muted note" }, ...withCode(text));
}

/**
 * A table whose first column has the names of the rows.
 *
 * @param {string} name What it is about, for a caption.
 * @param {string[]} columns Names, of the first column as well.
 * @param {Child[][]} rows
 */
export function table(name, columns, rows) {
  const kinds = columns.map((_, column) => (rows.some((row) => isNumber(row[column])) ? "number" : null));
  return h(
    "div",
    { class: "scroll", role: "region", "aria-label": name, tabindex: 0 },
    h(
      "table",
      {},
      h("caption", {}, name),
      h(
        "thead",
        {},
        h("tr", {}, ...columns.map((column, index) => h("th", { scope: "col", class: kinds[index] }, column))),
      ),
      h(
        "tbody",
        {},
        ...rows.map(([first, ...cells]) =>
          h(
            "tr",
            {},
            h("th", { scope: "row" }, first),
            ...cells.map((cell) => h("td", { class: isNumber(cell) && "number" }, cell)),
          ),
        ),
      ),
    ),
  );
}

/** @param {Child} cell */
function isNumber(cell) {
  return /^[−\d…]/.test(String(cell));
}

/**
 * A bar with its number.
 *
 * @param {number} share 0 to 1.
 * @param {string} text
 */
export function bar(share, text) {
  const fill = h("span", { class: "fill" });
  fill.style.setProperty("--share", String(Math.min(Math.max(share, 0), 1)));
  return h("span", { class: "bar" }, h("span", { class: "track", "aria-hidden": "true" }, fill), h("span", {}, text));
}

/**
 * A token, so that its whitespace and its borders are seen.
 *
 * @param {string} text
 */
export function token(text) {
  return h("span", { class: "token mono", dir: "auto" }, text);
}
