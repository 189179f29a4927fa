/**
 * The translation as words that the pointer or the arrow keys select; together they are one stop of the Tab key. Only the
 * selected word is a button, so that screen readers read the rest as text.
 */

import { fill, h } from "../element.js";
import { shade } from "./levels.js";

/** @import { Link } from "./links.js" */
/** @import { Words } from "./words.js" */
/** @import { LinkedTranslation } from "./linked-translation.js" */

/** @typedef {LinkedTranslation["sentences"]} Sentences */

/** Number of words that become elements together, shortly before they are visible: long texts must not block the page. */
const CHUNK_WORDS = 200;

/** The translation's words. */
export class TargetWords {
  element = h("div", { class: "target-words" });
  /** @type {Words | undefined} */
  #words;
  /** @type {(word: number) => string} */
  #classOf = () => "";
  /** @type {Sentences} */
  #sentences = { ofWord: new Map(), levels: [] };
  /** @type {(HTMLElement | undefined)[]} By word; the elements created so far. */
  #elements = [];
  /** @type {HTMLElement[]} */
  #chunks = [];
  /** @type {HTMLElement[]} */
  #lit = [];
  #current = 0;
  #onOpen;
  #describedBy;
  #observer = new IntersectionObserver(
    (entries) => {
      for (const { isIntersecting, target } of entries) {
        if (isIntersecting) this.#build(this.#chunks.indexOf(/** @type {HTMLElement} */ (target)));
      }
    },
    { rootMargin: "400px" },
  );

  /**
   * @param {object} options
   * @param {(word: number) => void} options.onLook Called with the selected word, or -1 for none.
   * @param {(word: number) => void} options.onOpen Called when a word is clicked, or Enter is pressed on it.
   * @param {string} options.describedBy Id of the element that describes the selected word.
   */
  constructor({ onLook, onOpen, describedBy }) {
    this.#onOpen = onOpen;
    this.#describedBy = describedBy;
    const { element } = this;
    element.addEventListener("pointerover", (event) => {
      if (event.pointerType === "mouse") onLook(numberOf(event.target));
    });
    element.addEventListener("pointerleave", () => onLook(this.hasFocus ? this.#current : -1));
    element.addEventListener("focusin", (event) => onLook(numberOf(event.target)));
    element.addEventListener("focusout", () => onLook(-1));
    element.addEventListener("click", (event) => this.#click(event));
    element.addEventListener("keydown", (event) => this.#press(event));
  }

  /** Whether a word has the focus. */
  get hasFocus() {
    return this.element.contains(document.activeElement) && document.activeElement !== this.element;
  }

  /**
   * Shows a partial text, without words.
   *
   * @param {string} text
   */
  showPartial(text) {
    const node = this.element.firstChild;
    this.#forget();
    // The text grows sentence by sentence; the existing part is not laid out again.
    if (node instanceof Text && !node.nextSibling && text.startsWith(node.data)) {
      node.appendData(text.slice(node.length));
    } else fill(this.element, text);
  }

  /**
   * Shows a text with words.
   *
   * @param {Words} words
   * @param {(word: number) => string} classOf Further classes of a word's element.
   * @param {Sentences} sentences If there are any, their unsure words are marked only while one is looked at.
   */
  show(words, classOf, sentences) {
    this.#forget();
    this.#sentences = sentences;
    this.element.classList.toggle("in-sentences", sentences.levels.length > 0);
    this.#words = words;
    this.#classOf = classOf;
    this.#chunks = [];
    for (let first = 0; first < Math.max(words.length, 1); first += CHUNK_WORDS) {
      this.#chunks.push(h("span", {}, words.text.slice(...this.#chunkUnits(this.#chunks.length))));
    }
    fill(this.element, ...this.#chunks);
    this.#build(0);
    for (const chunk of this.#chunks.slice(1)) this.#observer.observe(chunk);
    this.#makeStop(0);
  }

  /**
   * Highlights words.
   *
   * @param {Link[]} links
   */
  light(links) {
    for (const element of this.#lit) element.classList.remove("lit");
    this.#lit = links.flatMap(({ word }) => this.elementOf(word) ?? []);
    for (const [index, element] of this.#lit.entries()) {
      element.classList.add("lit");
      element.style.setProperty("--shade", shade(links[index]?.weight ?? 0));
    }
  }

  /**
   * Focuses a word, or the last one if there are fewer.
   *
   * @param {number} word
   */
  focus(word) {
    this.#makeStop(Math.max(0, Math.min(word, (this.#words?.length ?? 0) - 1)));
    this.elementOf(this.#current)?.focus();
  }

  /**
   * The element of a word.
   *
   * @param {number} word
   */
  elementOf(word) {
    if (this.#words && word >= 0 && word < this.#words.length) this.#build(Math.floor(word / CHUNK_WORDS));
    return this.#elements[word];
  }

  #forget() {
    this.#observer.disconnect();
    this.#words = undefined;
    this.#elements = [];
    this.#lit = [];
  }

  /**
   * The units of a chunk, with the text after its words.
   *
   * @param {number} chunk
   * @returns {[number, number]}
   */
  #chunkUnits(chunk) {
    const words = /** @type {Words} */ (this.#words);
    const first = chunk * CHUNK_WORDS;
    const next = first + CHUNK_WORDS;
    return [first ? words.span(first)[0] : 0, next < words.length ? words.span(next)[0] : words.text.length];
  }

  /** @param {number} chunk */
  #build(chunk) {
    const words = this.#words;
    const element = this.#chunks[chunk];
    const first = chunk * CHUNK_WORDS;
    if (!words || !element || this.#elements[first]) return;
    this.#observer.unobserve(element);
    const [start, end] = this.#chunkUnits(chunk);
    /** @type {Run[]} What is in one sentence, and what is between two. */
    const runs = [{ sentence: undefined, pieces: [] }];
    let position = start;
    for (let word = first; word < Math.min(first + CHUNK_WORDS, words.length); word++) {
      const [from, to] = words.span(word);
      const span = h("span", { class: `word ${this.#classOf(word)}`, "data-word": word }, words.text.slice(from, to));
      this.#elements[word] = span;
      append(runs, words.text.slice(position, from), this.#sentences.ofWord.get(word), span);
      position = to;
    }
    runs.at(-1)?.pieces.push(words.text.slice(position, end));
    fill(element, ...runs.flatMap(({ sentence, pieces }) => this.#sentenceElement(sentence, pieces)));
  }

  /**
   * @param {number | undefined} sentence
   * @param {(Node | string)[]} pieces
   */
  #sentenceElement(sentence, pieces) {
    if (sentence === undefined) return pieces;
    return [h("span", { class: `sentence ${this.#sentences.levels[sentence]?.name ?? ""}` }, ...pieces)];
  }

  /** @param {number} word The word that the Tab key stops at. */
  #makeStop(word) {
    const before = this.#elements[this.#current];
    for (const name of ["tabindex", "role", "aria-haspopup", "aria-describedby"]) before?.removeAttribute(name);
    this.#current = word;
    const element = this.elementOf(word);
    element?.setAttribute("tabindex", "0");
    element?.setAttribute("role", "button");
    element?.setAttribute("aria-haspopup", "dialog");
    element?.setAttribute("aria-describedby", this.#describedBy);
  }

  /** @param {MouseEvent} event */
  #click(event) {
    const word = numberOf(event.target);
    // The user is selecting text to copy.
    if (word < 0 || !getSelection()?.isCollapsed) return;
    this.focus(word);
    this.#onOpen(word);
  }

  /** @param {KeyboardEvent} event */
  #press(event) {
    if (!this.#words || event.ctrlKey || event.metaKey || event.altKey) return;
    const forwards = getComputedStyle(this.element).direction === "rtl" ? -1 : 1;
    const last = this.#words.length - 1;
    /** @type {Record<string, () => void>} */
    const keys = {
      ArrowRight: () => this.focus(this.#current + forwards),
      ArrowLeft: () => this.focus(this.#current - forwards),
      ArrowDown: () => this.focus(this.#inNextLine(1)),
      ArrowUp: () => this.focus(this.#inNextLine(-1)),
      Home: () => this.focus(0),
      End: () => this.focus(last),
      Enter: () => this.#onOpen(this.#current),
      " ": () => this.#onOpen(this.#current),
    };
    const act = keys[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  }

  /** @param {1 | -1} direction */
  #inNextLine(direction) {
    const here = this.elementOf(this.#current)?.getBoundingClientRect();
    if (!here) return this.#current;
    let nearest = this.#current;
    let distance = Number.POSITIVE_INFINITY;
    let line = here.top;
    for (let word = this.#current + direction; ; word += direction) {
      const there = this.elementOf(word)?.getBoundingClientRect();
      if (!there) return nearest;
      if (Math.abs(there.top - line) > 4) {
        if (line !== here.top) return nearest;
        line = there.top;
      }
      const away = Math.abs(there.left - here.left);
      if (line !== here.top && away < distance) [nearest, distance] = [word, away];
    }
  }
}

/** @typedef {{ sentence: number | undefined, pieces: (Node | string)[] }} Run */

/**
 * Adds a word to runs. Marks at the ends of a sentence belong to it, the space between two does not.
 *
 * @param {Run[]} runs
 * @param {string} gap What is between the last word and this one.
 * @param {number | undefined} sentence
 * @param {Node} word
 */
function append(runs, gap, sentence, word) {
  const last = /** @type {Run} */ (runs.at(-1));
  if (last.sentence === sentence) {
    last.pieces.push(gap, word);
    return;
  }
  const pieces = gap.split(/(\s+)/u);
  const marks = pieces.length > 1 ? (pieces.pop() ?? "") : "";
  last.pieces.push(pieces.shift() ?? "");
  runs.push({ sentence: undefined, pieces }, { sentence, pieces: [marks, word] });
}

/**
 * The index of the word of an event, or -1.
 *
 * @param {EventTarget | null} target
 */
function numberOf(target) {
  const element = target instanceof Element ? target.closest("[data-word]") : null;
  return element instanceof HTMLElement ? Number(element.dataset.word) : -1;
}
