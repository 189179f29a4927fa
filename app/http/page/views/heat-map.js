/**
 * An enlarged map: tokens on both axes, and the weight at the pointer or at a position that the arrow keys move.
 */

import { fill, h } from "../element.js";
import { gridMove } from "../grid-keys.js";
import { exact } from "./attention-weights.js";
import { t } from "../texts.js";

/** @import { HeadMap } from "./attention-weights.js" */
/** @import { Palette } from "../palette.js" */

const SMALLEST_CELL_PX = 15;
const LARGEST_CELL_PX = 44;

/** A labelled map. */
export class HeatMap {
  /** @type {HeadMap | null} */
  #map = null;
  /** @type {[number, number] | null} */
  #position = null;
  #announce;
  #canvas = h("canvas", { "aria-hidden": "true" });
  #rowBand = h("div", { class: "heat-band", hidden: true });
  #columnBand = h("div", { class: "heat-band", hidden: true });
  #stepBand = h("div", { class: "heat-step", hidden: true });
  #rows = h("div", { class: "heat-rows", "aria-hidden": "true" });
  #columns = h("div", { class: "heat-columns", "aria-hidden": "true" });
  #readout = h("p", { class: "heat-readout" });
  #cells = h(
    "div",
    {
      class: "heat-cells",
      role: "application",
      tabindex: 0,
      "aria-roledescription": t("heat-map.heatMap"),
      onkeydown: (/** @type {KeyboardEvent} */ event) => this.#move(event),
      onpointermove: (/** @type {PointerEvent} */ event) => this.#point(event),
      onpointerdown: (/** @type {PointerEvent} */ event) => this.#point(event),
      onpointerleave: (/** @type {PointerEvent} */ event) => event.pointerType === "mouse" && this.#clear(),
    },
    this.#canvas,
    this.#stepBand,
    this.#rowBand,
    this.#columnBand,
  );
  #frame = h("div", { class: "heat-map" }, h("div", { class: "heat-corner" }), this.#columns, this.#rows, this.#cells);

  /** @param {(message: string) => void} announce Announces to screen readers. */
  constructor(announce) {
    this.#announce = announce;
    this.element = h("div", { class: "heat" }, this.#readout, this.#frame);
    new ResizeObserver(() => this.#fit()).observe(this.element);
  }

  /**
   * Shows a map.
   *
   * @param {HeadMap} map
   * @param {string} name Its name.
   */
  show(map, name) {
    const hasSameTokens = map.rows === this.#map?.rows && map.columns === this.#map.columns;
    this.#map = map;
    if (!hasSameTokens) {
      fill(this.#rows, ...map.rows.map(label));
      fill(this.#columns, ...map.columns.map(label));
      this.#position = null;
      this.#fit();
    }
    const [rows, columns] = [map.rows.length, map.columns.length];
    this.#cells.setAttribute("aria-label", t("heat-map.label", { name, rows, columns }));
    if (this.#position) this.#place(...this.#position);
    else this.#clear();
  }

  /**
   * Draws the map that is shown.
   *
   * @param {Palette} palette
   * @param {number} highest The weight that has the last colour.
   */
  draw(palette, highest) {
    const map = this.#map;
    if (map) palette.draw(this.#canvas, [map.rows.length, map.columns.length], map.weights, [0, highest]);
  }

  /** Frames the row of a decoding step. @param {number | null} row Null: none. */
  markStep(row) {
    this.#stepBand.hidden = row === null;
    if (row !== null) this.#stepBand.style.setProperty("--row", String(row));
  }

  /** Sizes the cells: as large as the space allows, but with readable labels; otherwise the map scrolls. */
  #fit() {
    if (!this.#map) return;
    const room = this.element.clientWidth - this.#rows.offsetWidth - 2;
    const cell = Math.floor(room / this.#map.columns.length);
    const style = this.#frame.style;
    style.setProperty("--cell", `${Math.min(Math.max(cell, SMALLEST_CELL_PX), LARGEST_CELL_PX)}px`);
    style.setProperty("--num-rows", String(this.#map.rows.length));
    style.setProperty("--num-columns", String(this.#map.columns.length));
  }

  /** @param {PointerEvent} event */
  #point(event) {
    if (!this.#map) return;
    const box = this.#canvas.getBoundingClientRect();
    const row = Math.floor(((event.clientY - box.top) / box.height) * this.#map.rows.length);
    const column = Math.floor(((event.clientX - box.left) / box.width) * this.#map.columns.length);
    if (this.#map.rows[row] !== undefined && this.#map.columns[column] !== undefined) this.#place(row, column);
  }

  /** @param {KeyboardEvent} event */
  #move(event) {
    if (!this.#map) return;
    const size = /** @type {[number, number]} */ ([this.#map.rows.length, this.#map.columns.length]);
    const place = gridMove(event.key, this.#position ?? [0, 0], size);
    if (!place && event.key !== "Escape") return;
    event.preventDefault();
    if (!place) {
      this.#clear();
      return;
    }
    // The first key shows the first weight.
    this.#place(...(this.#position ? place : /** @type {[number, number]} */ ([0, 0])));
    this.#announce(this.#readout.textContent ?? "");
    this.#rows.children[this.#position?.[0] ?? 0]?.scrollIntoView({ block: "nearest", inline: "nearest" });
    this.#columns.children[this.#position?.[1] ?? 0]?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }

  /**
   * @param {number} row
   * @param {number} column
   */
  #place(row, column) {
    const map = /** @type {HeadMap} */ (this.#map);
    this.#unmark();
    this.#position = [row, column];
    this.#rows.children[row]?.classList.add("here");
    this.#columns.children[column]?.classList.add("here");
    this.#rowBand.hidden = this.#columnBand.hidden = false;
    this.#rowBand.style.setProperty("--row", String(row));
    this.#columnBand.style.setProperty("--column", String(column));
    const weight = map.weights[row * map.columns.length + column] ?? 0;
    fill(
      this.#readout,
      h("b", {}, map.rows[row]),
      t("heat-map.attendsTo"),
      h("b", {}, map.columns[column]),
      ": ",
      h("output", { class: "mono" }, exact(weight)),
    );
  }

  #unmark() {
    const [row, column] = this.#position ?? [-1, -1];
    this.#rows.children[row]?.classList.remove("here");
    this.#columns.children[column]?.classList.remove("here");
  }

  #clear() {
    this.#unmark();
    this.#position = null;
    this.#rowBand.hidden = this.#columnBand.hidden = true;
    fill(this.#readout, h("span", { class: "muted" }, t("heat-map.hint")));
  }
}

/** @param {string} token */
function label(token) {
  return h("span", { title: token, dir: "auto" }, token);
}
