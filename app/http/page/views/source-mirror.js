/**
 * Marks words in a text area. As a text area contains only text, an element behind it repeats the text with the same line
 * breaks, gives the position of each word, and has a box for each mark.
 */

import { fill, h } from "../element.js";
import { shade } from "./levels.js";

/** @import { Words } from "./words.js" */

/** @typedef {{ word: number, strength?: number }} Mark  `strength` is 0 to 1. */

const COPIED = /** @type {const} */ ([
  "font",
  "letterSpacing",
  "wordSpacing",
  "textIndent",
  "textAlign",
  "textTransform",
  "direction",
  "tabSize",
  "paddingTop",
  "paddingRight",
  "paddingBottom",
  "paddingLeft",
]);

/** The element behind the text area. */
export class SourceMirror {
  #source;
  #text = document.createTextNode("");
  #content = h("div", { class: "mirrored" }, this.#text);
  #element = h("div", { class: "source-mirror", "aria-hidden": "true" }, this.#content);
  /** @type {Words | undefined} */
  #words;
  /** @type {Map<string, { marks: Mark[], boxes: HTMLElement }>} By kind. */
  #marks = new Map();

  /** @param {HTMLTextAreaElement} source A text area in a positioned element. */
  constructor(source) {
    this.#source = source;
    source.before(this.#element);
    source.addEventListener("scroll", () => this.#scroll(), { passive: true });
    new ResizeObserver(() => {
      if (this.#words) this.#layOut();
    }).observe(source);
  }

  /**
   * Repeats the text of the text area.
   *
   * @param {Words} words
   */
  show(words) {
    this.clear();
    this.#words = words;
    // A line break at the end makes one more line in a text area, but not in an element.
    this.#text.data = `${words.text}\u200b`;
    this.#layOut();
  }

  /** Removes all marks, because the text is changing. */
  clear() {
    if (!this.#words) return;
    this.#words = undefined;
    this.#text.data = "";
    for (const { boxes } of this.#marks.values()) boxes.remove();
    this.#marks.clear();
  }

  /**
   * Marks words, replacing the marks of this kind.
   *
   * @param {string} kind The class of the marks.
   * @param {Mark[]} marks
   */
  mark(kind, marks) {
    if (!this.#words) return;
    const boxes = this.#marks.get(kind)?.boxes ?? h("div");
    if (!boxes.isConnected) this.#content.append(boxes);
    this.#marks.set(kind, { marks, boxes });
    this.#draw(kind, marks, boxes);
  }

  /**
   * The word at a point of the window, or -1.
   *
   * @param {number} x
   * @param {number} y
   */
  wordAt(x, y) {
    const caret = document.caretPositionFromPoint?.(x, y);
    if (!this.#words || caret?.offsetNode !== this.#source) return -1;
    const word = this.#words.at(caret.offset);
    // The nearest caret may be far from the point, except between two lines.
    const isOver = this.#rectangles(word).some(
      ({ left, right, top, bottom, height }) =>
        left <= x && x <= right && top - height / 2 <= y && y <= bottom + height / 2,
    );
    return isOver ? word : -1;
  }

  /**
   * The rectangle of a word in the window.
   *
   * @param {number} word
   */
  rectangle(word) {
    return this.#rectangles(word)[0];
  }

  /** @param {number} word */
  #rectangles(word) {
    if (!this.#words || word < 0) return [];
    const range = new Range();
    const [start, end] = this.#words.span(word);
    range.setStart(this.#text, start);
    range.setEnd(this.#text, end);
    return [...range.getClientRects()];
  }

  #layOut() {
    const style = getComputedStyle(this.#source);
    for (const name of COPIED) this.#content.style[name] = style[name];
    this.#element.style.left = `${this.#source.offsetLeft + this.#source.clientLeft}px`;
    this.#element.style.top = `${this.#source.offsetTop + this.#source.clientTop}px`;
    // Without a scroll bar, if there is one.
    this.#element.style.width = `${this.#source.clientWidth}px`;
    this.#element.style.height = `${this.#source.clientHeight}px`;
    this.#scroll();
    for (const [kind, { marks, boxes }] of this.#marks) this.#draw(kind, marks, boxes);
  }

  #scroll() {
    this.#element.scrollTop = this.#source.scrollTop;
  }

  /**
   * @param {string} kind
   * @param {Mark[]} marks
   * @param {HTMLElement} boxes
   */
  #draw(kind, marks, boxes) {
    const { left, top } = this.#content.getBoundingClientRect();
    const drawn = marks.flatMap(({ word, strength = 1 }) =>
      this.#rectangles(word).map((rectangle) => {
        const box = h("span", { class: `mark ${kind}`, "data-word": word });
        box.style.left = `${rectangle.left - left}px`;
        box.style.top = `${rectangle.top - top}px`;
        box.style.width = `${rectangle.width}px`;
        box.style.height = `${rectangle.height}px`;
        box.style.setProperty("--shade", shade(strength));
        return box;
      }),
    );
    fill(boxes, ...drawn);
  }
}
