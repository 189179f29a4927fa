/**
 * The weights of one map as a table, for people who cannot see colours or want the numbers.
 */

import { fill, h } from "../element.js";
import { exact, rowOf } from "./attention-weights.js";
import { t } from "../texts.js";

/** @import { HeadMap } from "./attention-weights.js" */

/** Pixels around the visible area in which rows are filled. */
const AHEAD = 150;

/** A table behind a summary. Only rows that are scrolled to have their numbers: 100 tokens would make 10,000 cells. */
export class WeightTable {
  /** @type {HeadMap | null} */
  #map = null;
  #name = "";
  /** @type {Set<Element>} */
  #visible = new Set();
  #caption = h("caption");
  #head = h("thead");
  #body = h("tbody");
  #frame = h(
    "div",
    { class: "weight-table", tabindex: 0, role: "region", "aria-label": t("weight-table.weightsAsATable") },
    h("table", {}, this.#caption, this.#head, this.#body),
  );
  #observer = new IntersectionObserver((entries) => this.#scrolled(entries), {
    root: this.#frame,
    rootMargin: `${AHEAD}px`,
  });

  constructor() {
    const summary = h("summary", {}, t("weight-table.weightsAsATable"));
    this.element = h("details", { ontoggle: () => this.#update() }, summary, this.#frame);
  }

  /**
   * Shows a map.
   *
   * @param {HeadMap} map
   * @param {string} name What it shows.
   */
  show(map, name) {
    const hasSameTokens = map.rows === this.#map?.rows && map.columns === this.#map.columns;
    this.#map = map;
    this.#name = name;
    if (!hasSameTokens) fill(this.#body);
    this.#update();
  }

  #update() {
    if (!this.#map || !this.element.open) return;
    if (!this.#body.rows.length) this.#build(this.#map);
    fill(this.#caption, t("weight-table.caption", { name: this.#name }));
    for (const row of this.#body.rows) this.#fillRow(row);
  }

  /** @param {HeadMap} map */
  #build(map) {
    this.#observer.disconnect();
    this.#visible.clear();
    const tokens = [...map.columns, t("weight-table.sum")].map((token) => h("th", { scope: "col" }, token));
    fill(this.#head, h("tr", {}, h("td"), ...tokens));
    fill(this.#body, ...map.rows.map((token) => h("tr", {}, h("th", { scope: "row" }, token))));
    for (const row of this.#body.rows) this.#observer.observe(row);
  }

  /** @param {IntersectionObserverEntry[]} entries */
  #scrolled(entries) {
    for (const { target, isIntersecting } of entries) {
      if (isIntersecting) this.#visible.add(target);
      else this.#visible.delete(target);
      this.#fillRow(/** @type {HTMLTableRowElement} */ (target));
    }
  }

  /** @param {HTMLTableRowElement} row */
  #fillRow(row) {
    if (!this.#map) return;
    const weights = this.#visible.has(row) ? rowOf(this.#map, row.sectionRowIndex) : new Float32Array();
    const sum = weights.reduce((total, weight) => total + weight, 0);
    const numbers = weights.length ? [...weights, sum] : [];
    while (row.cells.length > numbers.length + 1) row.lastElementChild?.remove();
    while (row.cells.length < numbers.length + 1) row.append(h("td"));
    numbers.forEach((number, column) => {
      row.cells[column + 1].textContent = exact(number);
    });
  }
}
