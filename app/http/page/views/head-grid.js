/**
 * All heads of one kind of attention as small maps: a row for each layer, the mean of its heads first.
 */

import { fill, h } from "../element.js";
import { gridMove } from "../grid-keys.js";
import { choiceName } from "./attention-weights.js";
import { t } from "../texts.js";

/** @import { Kind } from "../types.js" */
/** @import { AttentionWeights, Choice } from "./attention-weights.js" */
/** @import { Palette } from "../palette.js" */

/** @typedef {{ choice: Choice, element: HTMLElement, canvas: HTMLCanvasElement }} Cell */

/** Maximum tokens that a small map shows individually; of more, several share a pixel. */
const FEW = 40;

/** A grid of maps, one of which is chosen. */
export class HeadGrid {
  /** @type {Cell[][]} By layer and column. */
  #cells = [];
  #chosen;

  /** @param {(choice: Choice) => void} chosen Called when the user chooses a map. */
  constructor(chosen) {
    this.#chosen = chosen;
    this.element = h("div", { class: "head-grid", role: "grid", onkeydown: this.#move });
  }

  /**
   * Shows the heads of a kind.
   *
   * @param {AttentionWeights} weights
   * @param {Kind} kind
   */
  show(weights, kind) {
    const layers = Array.from({ length: weights.numLayers(kind) }, (_, layer) => layer);
    const heads = [null, ...Array.from({ length: weights.numHeads(kind) }, (_, head) => head)];
    this.#cells = layers.map((layer) => heads.map((head) => this.#cell({ kind, layer, head })));
    this.element.style.setProperty("--heads", String(heads.length));
    this.element.setAttribute("aria-label", t("head-grid.label", { kind }));
    fill(
      this.element,
      h(
        "div",
        { role: "row" },
        h("span", { role: "columnheader" }, h("span", { class: "unseen" }, t("head-grid.layer"))),
        ...heads.map((head) =>
          h("span", { role: "columnheader" }, head === null ? t("head-grid.mean") : t("head-grid.head", { head })),
        ),
      ),
      ...this.#cells.map((cells, layer) =>
        h(
          "div",
          { role: "row" },
          h("span", { role: "rowheader" }, t("head-grid.layer2", { layer })),
          ...cells.map((cell) => cell.element),
        ),
      ),
    );
  }

  /** @param {Choice} choice @returns {Cell} */
  #cell(choice) {
    const canvas = h("canvas", { "aria-hidden": "true" });
    const element = h(
      "div",
      { role: "gridcell", tabindex: -1, "aria-label": choiceName(choice), onclick: () => this.#chosen(choice) },
      canvas,
    );
    return { choice, element, canvas };
  }

  /**
   * Draws all maps in one pass.
   *
   * @param {AttentionWeights} weights
   * @param {Palette} palette
   * @param {boolean} stretched Whether the last colour is the largest weight of each map, instead of 1.
   */
  draw(weights, palette, stretched) {
    for (const { choice, canvas } of this.#cells.flat()) {
      const map = weights.map(choice);
      palette.draw(canvas, [map.rows.length, map.columns.length], map.weights, [0, stretched ? map.largest : 1]);
      canvas.classList.toggle("few", map.columns.length <= FEW && map.rows.length <= FEW);
    }
  }

  /** Marks the chosen map. @param {Choice} chosen */
  mark(chosen) {
    for (const { choice, element } of this.#cells.flat()) {
      const isChosen = choice.layer === chosen.layer && choice.head === chosen.head;
      element.setAttribute("aria-selected", String(isChosen));
      element.tabIndex = isChosen ? 0 : -1;
    }
  }

  /** @param {KeyboardEvent} event */
  #move = (event) => {
    const layer = this.#cells.findIndex((cells) => cells.some(({ element }) => element === event.target));
    const cells = this.#cells[layer];
    if (!cells) return;
    const column = cells.findIndex(({ element }) => element === event.target);
    const place = gridMove(event.key, [layer, column], [this.#cells.length, cells.length]);
    const target = place && this.#cells[place[0]]?.[place[1]];
    if (!target) return;
    event.preventDefault();
    this.#chosen(target.choice);
    target.element.focus();
  };
}
