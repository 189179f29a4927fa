/**
 * The weights of one map as a table, for whoever cannot see colours or wants the numbers.
 */

import { fill, h } from "../element.js";
import { exact, rowOf } from "./attention-weights.js";

/** @import { HeadMap } from "./attention-weights.js" */

/** A table behind a button. It is filled while it is open only: 100 tokens make 10,000 cells. */
export class WeightTable {
  /** @type {HeadMap | null} */
  #map = null;
  /** @type {HeadMap | null} The map whose tokens the table has. */
  #built = null;
  /** @type {HTMLTableCellElement[][]} */
  #cells = [];
  #caption = h("caption");
  #head = h("thead");
  #body = h("tbody");
  #name = "";

  constructor() {
    const frame = h(
      "div",
      { class: "weight-table", tabindex: 0, role: "region", "aria-label": "Weights as a table" },
      h("table", {}, this.#caption, this.#head, this.#body),
    );
    this.element = h("details", { ontoggle: () => this.#update() }, h("summary", {}, "The numbers as a table"), frame);
  }

  /**
   * Shows a map.
   *
   * @param {HeadMap} map
   * @param {string} name What it shows.
   */
  show(map, name) {
    this.#map = map;
    this.#name = name;
    this.#update();
  }

  #update() {
    const map = this.#map;
    if (!map || !this.element.open) return;
    if (map.rows !== this.#built?.rows || map.columns !== this.#built.columns) this.#build(map);
    fill(this.#caption, `${this.#name}: a row for each token that attends`);
    this.#cells.forEach((cells, row) => {
      const weights = rowOf(map, row);
      weights.forEach((weight, column) => {
        cells[column].textContent = exact(weight);
      });
      cells[weights.length].textContent = exact(weights.reduce((sum, weight) => sum + weight, 0));
    });
  }

  /** @param {HeadMap} map */
  #build(map) {
    this.#built = map;
    this.#cells = map.rows.map(() => Array.from({ length: map.columns.length + 1 }, () => h("td")));
    const tokens = [...map.columns, "Sum"].map((token) => h("th", { scope: "col" }, token));
    fill(this.#head, h("tr", {}, h("td"), ...tokens));
    fill(
      this.#body,
      ...this.#cells.map((cells, row) => h("tr", {}, h("th", { scope: "row" }, map.rows[row]), ...cells)),
    );
  }
}
