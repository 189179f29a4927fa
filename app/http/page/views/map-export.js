/**
 * A map as a file: an SVG picture made of rectangles and texts, and the same picture as PNG.
 */

import { colourOf, css } from "../colours.js";
import { svg } from "../element.js";
import { t } from "../texts.js";

/** @import { HeadMap } from "./attention-weights.js" */

const CELL = 24;
const FONT_SIZE = 12;
const MARGIN = 12;
const TITLE = 28;
const LEGEND = 44;
const NUM_LEGEND_STEPS = 50;
/** A character of the widest common letters, so that no label is cut. */
const CHARACTER = 8.5;
const MAX_WORDS = 5;
const MAX_NAME = 60;

/** Maximum pixels of a picture: some browsers refuse canvases of more than 16 million. */
const MAX_PIXELS = 16e6;

/**
 * The picture of a map, with labels, title and legend.
 *
 * @param {HeadMap} map
 * @param {{ title: string, dark: boolean, highest: number }} look `highest` is the weight that has the last colour.
 * @returns {SVGSVGElement}
 */
export function mapPicture(map, { title, dark, highest }) {
  const left = MARGIN + labelLength(map.rows) + 6;
  const top = MARGIN + TITLE + labelLength(map.columns) + 6;
  const mapWidth = map.columns.length * CELL;
  const width = Math.max(left + mapWidth + MARGIN, MARGIN * 2 + title.length * CHARACTER, 260);
  const bottom = top + map.rows.length * CELL;
  const height = bottom + LEGEND + MARGIN;
  const ink = dark ? "#e8ebf0" : "#1b1f27";
  return svg(
    "svg",
    {
      xmlns: "http://www.w3.org/2000/svg",
      width,
      height,
      viewBox: `0 0 ${width} ${height}`,
      "font-family": "system-ui, 'Noto Sans', 'Liberation Sans', sans-serif",
      "font-size": FONT_SIZE,
      fill: ink,
    },
    svg("title", {}, title),
    svg("rect", { width, height, fill: dark ? "#1b2029" : "#ffffff" }),
    svg("text", { x: MARGIN, y: MARGIN + 14, "font-size": 15, "font-weight": 600 }, title),
    ...map.rows.map((token, row) =>
      svg("text", { x: left - 6, y: top + (row + 0.5) * CELL + 4, "text-anchor": "end" }, token),
    ),
    ...map.columns.map((token, column) =>
      svg("text", { transform: `translate(${left + (column + 0.5) * CELL + 4} ${top - 6}) rotate(-90)` }, token),
    ),
    svg("g", { "shape-rendering": "crispEdges" }, ...cells(map, { left, top, dark, highest })),
    svg("rect", {
      x: left,
      y: top,
      width: mapWidth,
      height: bottom - top,
      fill: "none",
      stroke: ink,
      "stroke-width": 0.5,
    }),
    legend({ x: left, y: bottom + 14, dark, highest }),
  );
}

/** @param {string[]} tokens */
function labelLength(tokens) {
  return Math.max(...tokens.map((token) => token.length)) * CHARACTER;
}

/**
 * @param {HeadMap} map
 * @param {{ left: number, top: number, dark: boolean, highest: number }} look
 */
function cells(map, { left, top, dark, highest }) {
  return Array.from(map.weights, (weight, index) => {
    const column = index % map.columns.length;
    const row = (index - column) / map.columns.length;
    const attributes = { x: left + column * CELL, y: top + row * CELL, width: CELL, height: CELL };
    return svg("rect", { ...attributes, fill: css(colourOf(weight / highest, dark)) });
  });
}

/** @param {{ x: number, y: number, dark: boolean, highest: number }} look */
function legend({ x, y, dark, highest }) {
  const steps = Array.from({ length: NUM_LEGEND_STEPS }, (_, step) =>
    svg("rect", { x: step * 3, width: 3, height: 10, fill: css(colourOf(step / (NUM_LEGEND_STEPS - 1), dark)) }),
  );
  const end = NUM_LEGEND_STEPS * 3;
  return svg(
    "g",
    { transform: `translate(${x} ${y})` },
    ...steps,
    svg("text", { y: 25 }, "0"),
    svg("text", { x: end, y: 25, "text-anchor": "end" }, String(Number(highest.toFixed(3)))),
  );
}

/**
 * A picture as an SVG file.
 *
 * @param {SVGSVGElement} picture
 */
export function svgFile(picture) {
  return new Blob([new XMLSerializer().serializeToString(picture)], { type: "image/svg+xml" });
}

/**
 * A picture as a PNG file, in twice its size where that is not too large.
 *
 * @param {SVGSVGElement} picture
 * @returns {Promise<Blob>}
 */
export async function pngFile(picture) {
  const { width, height } = picture.viewBox.baseVal;
  const scale = Math.min(2, Math.sqrt(MAX_PIXELS / (width * height)));
  const address = URL.createObjectURL(svgFile(picture));
  try {
    const image = new Image();
    image.src = address;
    await image.decode();
    const canvas = document.createElement("canvas");
    canvas.width = Math.floor(width * scale);
    canvas.height = Math.floor(height * scale);
    canvas.getContext("2d")?.drawImage(image, 0, 0, canvas.width, canvas.height);
    return await new Promise((resolve, reject) => {
      canvas.toBlob((blob) => (blob ? resolve(blob) : reject(new Error(t("map-export.thePictureCannotBeDrawn")))));
    });
  } finally {
    URL.revokeObjectURL(address);
  }
}

/**
 * A name of a file: the first words of a sentence, and what the file holds.
 *
 * @param {string} sentence
 * @param {string} content
 * @param {string} extension
 */
export function fileName(sentence, content, extension) {
  const words = sentence.match(/[\p{L}\p{M}\p{N}]+/gu) ?? [];
  const parts = [words.slice(0, MAX_WORDS).join("-").slice(0, MAX_NAME), content.replace(/[^a-z0-9]+/gi, "-")];
  return `${parts.filter(Boolean).join("-").toLowerCase()}.${extension}`;
}
