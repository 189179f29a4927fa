/**
 * Numbers as pixels and as backgrounds, in the colours of the page's theme.
 */

import { colourOf, css, isDark } from "./colours.js";

const NUM_COLOURS = 256;

/** The colours from the lowest number to the highest, for one theme. */
export class Palette {
  /** @param {boolean} dark */
  constructor(dark = isDark()) {
    this.dark = dark;
    const bytes = new Uint8ClampedArray(NUM_COLOURS * 4);
    for (let index = 0; index < NUM_COLOURS; index += 1) {
      bytes.set([...colourOf(index / (NUM_COLOURS - 1), dark), 255], index * 4);
    }
    this.pixels = new Uint32Array(bytes.buffer);
  }

  /**
   * Draws one pixel for each number; the style sheet gives the picture its size.
   *
   * @param {HTMLCanvasElement} canvas
   * @param {[number, number]} size Rows and columns.
   * @param {ArrayLike<number>} numbers Row by row.
   * @param {[number, number]} range The numbers that have the first and the last colour.
   */
  draw(canvas, [rows, columns], numbers, [lowest, highest]) {
    canvas.width = columns;
    canvas.height = rows;
    const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d", { alpha: false }));
    const image = context.createImageData(columns, rows);
    const pixels = new Uint32Array(image.data.buffer);
    const scale = (NUM_COLOURS - 1) / (highest - lowest || 1);
    for (let index = 0; index < pixels.length; index += 1) {
      const position = Math.round((numbers[index] - lowest) * scale);
      pixels[index] = this.pixels[Math.min(Math.max(position, 0), NUM_COLOURS - 1)];
    }
    context.putImageData(image, 0, 0);
  }

  /**
   * Draws all colours from the first to the last, one pixel for each.
   *
   * @param {HTMLCanvasElement} canvas
   */
  drawScale(canvas) {
    const numbers = Float32Array.from({ length: NUM_COLOURS }, (_, index) => index / (NUM_COLOURS - 1));
    this.draw(canvas, [1, NUM_COLOURS], numbers, [0, 1]);
  }

  /**
   * Gives an element the colour of a weight as its background, and a text colour that is readable on it.
   *
   * @param {HTMLElement} element
   * @param {number} weight
   * @param {number} highest The weight that has the last colour.
   */
  shade(element, weight, highest) {
    const colour = colourOf(weight / highest, this.dark);
    element.style.background = css(colour);
    element.style.color = textOn(colour);
  }
}

/**
 * Black or white, whichever is easier to read on a colour: at least 4.5 to 1.
 *
 * @param {import("./colours.js").Colour} colour
 */
function textOn(colour) {
  const [red, green, blue] = colour.map((value) => {
    const share = value / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  const luminance = 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  // The luminance at which black and white have the same contrast (WCAG 2.2, contrast ratio).
  return luminance > 0.179 ? "#000" : "#fff";
}
