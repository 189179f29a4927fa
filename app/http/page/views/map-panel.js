/**
 * The chosen map: enlarged, with its colour scale, as a table, and as files.
 */

import { download, fill, h } from "../element.js";
import { HeatMap } from "./heat-map.js";
import { fileName, mapPicture, pngFile, svgFile } from "./map-export.js";
import { WeightTable } from "./weight-table.js";
import { t } from "../texts.js";

/** @import { HeadMap } from "./attention-weights.js" */
/** @import { Palette } from "../palette.js" */

/**
 * The content of a panel.
 *
 * @typedef {object} Shown
 * @property {HeadMap} map
 * @property {string} name What the map is.
 * @property {string} sentence The source, for names of files.
 * @property {Blob} file The archive with the weights.
 */

/** A map and its actions. */
export class MapPanel {
  /** @type {Shown | null} */
  #shown = null;
  /** @type {Palette | null} */
  #palette = null;
  #highest = 1;
  #title = h("h2", { id: "map-title" });
  #map;
  #table = new WeightTable();
  #scale = h("canvas", { class: "scale", "aria-hidden": "true" });
  #end = h("span");

  /** @param {(message: string) => void} announce Announces to screen readers. */
  constructor(announce) {
    this.#map = new HeatMap(announce);
    this.element = h(
      "section",
      { class: "card map-panel", "aria-labelledby": "map-title" },
      this.#title,
      h("p", { class: "muted" }, t("map-panel.about")),
      h("div", { class: "row scale-legend mono" }, "0", this.#scale, this.#end),
      this.#map.element,
      this.#table.element,
      h(
        "div",
        { class: "row" },
        h("span", { class: "muted" }, t("document-entry.download")),
        h("button", { type: "button", onclick: () => this.#downloadPng() }, "PNG"),
        h("button", { type: "button", onclick: () => this.#downloadSvg() }, "SVG"),
        h(
          "button",
          { type: "button", title: t("map-panel.allWeightsForNumPy"), onclick: () => this.#downloadArrays() },
          "npz",
        ),
      ),
    );
  }

  /** @param {Shown} shown */
  show(shown) {
    this.#shown = shown;
    fill(this.#title, shown.name);
    this.#map.show(shown.map, shown.name);
    this.#table.show(shown.map, shown.name);
  }

  /**
   * Draws the map that is shown.
   *
   * @param {Palette} palette
   * @param {boolean} stretched Whether the last colour is the map's largest weight, instead of 1.
   */
  draw(palette, stretched) {
    if (!this.#shown) return;
    this.#palette = palette;
    this.#highest = stretched ? this.#shown.map.largest : 1;
    this.#map.draw(palette, this.#highest);
    palette.drawScale(this.#scale);
    fill(this.#end, String(Number(this.#highest.toFixed(3))));
  }

  /** Frames the row of a decoding step. @param {number | null} step Null: none. */
  markStep(step) {
    this.#map.markStep(step);
  }

  #picture() {
    if (!this.#shown || !this.#palette) return null;
    const { map, name } = this.#shown;
    return mapPicture(map, { title: name, dark: this.#palette.dark, highest: this.#highest });
  }

  /**
   * @param {string} content
   * @param {string} extension
   */
  #fileName(content, extension) {
    return fileName(this.#shown?.sentence ?? "", content, extension);
  }

  async #downloadPng() {
    const picture = this.#picture();
    if (picture) download(await pngFile(picture), this.#fileName(this.#shown?.name ?? "", "png"));
  }

  #downloadSvg() {
    const picture = this.#picture();
    if (picture) download(svgFile(picture), this.#fileName(this.#shown?.name ?? "", "svg"));
  }

  #downloadArrays() {
    if (this.#shown) download(this.#shown.file, this.#fileName("attention", "npz"));
  }
}
