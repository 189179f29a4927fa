/** The box in which one of the words that the search considered is chosen. */

import { isAbort, Problem } from "../api.js";
import { fill, h } from "../element.js";
import { languageTag } from "../languages.js";
import { percent } from "../numbers.js";
import { placeBy } from "./floating.js";
import { language, t } from "../texts.js";

/** @import { Choice } from "./candidates.js" */

/**
 * @typedef {object} Question
 * @property {string} title What the box is about.
 * @property {string} about What is known of the word.
 * @property {string} language Of the words.
 * @property {string} before The text before the word.
 * @property {(signal: AbortSignal) => Promise<Choice[]>} look
 * @property {(choice: Choice) => boolean} isCurrent Whether the translation has this one.
 * @property {(choice: Choice, signal: AbortSignal) => Promise<void>} choose
 */

const MAX_CHOICES = 8;

/** The box; it is closed by Escape, or by a click next to it. */
export class WordChoices {
  #title = h("h3", { id: "choices-title" });
  #about = h("p", { class: "muted" });
  #content = h("div", { "aria-live": "polite" });
  element = h(
    "div",
    {
      class: "word-choices card",
      lang: language,
      dir: "ltr",
      popover: "auto",
      role: "dialog",
      "aria-labelledby": "choices-title",
      tabindex: "-1",
    },
    h(
      "div",
      { class: "row" },
      this.#title,
      h(
        "button",
        { type: "button", class: "quiet close", "aria-label": t("word-choices.close"), onclick: () => this.close() },
        "✕",
      ),
    ),
    this.#about,
    this.#content,
  );
  #abort = new AbortController();
  /** @type {HTMLElement | undefined} */
  #anchor;

  /** @param {() => void} onLeft The box was closed while it had the focus. */
  constructor(onLeft) {
    let hadFocus = false;
    this.element.addEventListener("beforetoggle", () => {
      this.#abort.abort();
      hadFocus = this.element.contains(document.activeElement);
    });
    this.element.addEventListener("toggle", ({ newState }) => {
      if (newState === "closed" && hadFocus) onLeft();
    });
    this.element.addEventListener("keydown", (event) => this.#press(event));
    addEventListener("resize", () => this.#place());
  }

  /**
   * Opens the box at a word.
   *
   * @param {HTMLElement} anchor
   * @param {Question} question
   */
  async open(anchor, question) {
    this.close();
    this.#anchor = anchor;
    fill(this.#title, question.title);
    fill(this.#about, question.about);
    fill(this.#content, h("p", {}, t("word-choices.loadingAlternatives")));
    this.element.showPopover();
    const { signal } = (this.#abort = new AbortController());
    this.#place();
    this.element.focus({ preventScroll: true });
    await this.#attempt(signal, async () => {
      const choices = await question.look(signal);
      if (!signal.aborted) this.#list(choices, question, signal);
    });
  }

  /** Closes the box. */
  close() {
    this.element.hidePopover();
  }

  /**
   * @param {Choice[]} choices
   * @param {Question} question
   * @param {AbortSignal} signal
   */
  #list(choices, question, signal) {
    const current = choices.find(question.isCurrent);
    const items = choices.slice(0, MAX_CHOICES).map((choice) => {
      const choose = () => this.#choose(choice, question, choice === current, signal);
      return h("li", {}, choiceElement(choice, question, choice === current, choose));
    });
    const rest = Math.max(0, 1 - choices.slice(0, MAX_CHOICES).reduce((sum, { probability }) => sum + probability, 0));
    fill(
      this.#content,
      h("ol", {}, ...items),
      h("p", { class: "muted" }, t("word-choices.rest", { rest: percent(rest) })),
    );
    this.#place();
    if (this.element.contains(document.activeElement)) this.#buttons()[0]?.focus({ preventScroll: true });
  }

  /**
   * @param {Choice} choice
   * @param {Question} question
   * @param {boolean} isCurrent
   * @param {AbortSignal} signal
   */
  async #choose(choice, question, isCurrent, signal) {
    if (isCurrent) {
      this.close();
      return;
    }
    this.element.setAttribute("aria-busy", "true");
    await this.#attempt(signal, async () => {
      await question.choose(choice, signal);
      this.close();
    });
    this.element.removeAttribute("aria-busy");
  }

  /**
   * @param {AbortSignal} signal
   * @param {() => Promise<void>} act
   */
  async #attempt(signal, act) {
    try {
      await act();
    } catch (error) {
      if (isAbort(error) || signal.aborted) return;
      if (!(error instanceof Problem)) throw error;
      fill(this.#content, h("p", { class: "error" }, error.message));
      this.#place();
    }
  }

  #place() {
    if (this.#anchor?.isConnected && this.element.matches(":popover-open")) {
      const rectangle = this.#anchor.getClientRects()[0];
      if (rectangle) placeBy(this.element, rectangle, "below");
    }
  }

  #buttons() {
    return [...this.#content.querySelectorAll("button")];
  }

  /** @param {KeyboardEvent} event */
  #press(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const buttons = this.#buttons();
    const index = buttons.findIndex((button) => button === document.activeElement) + step;
    buttons[Math.max(0, Math.min(index, buttons.length - 1))]?.focus();
  }
}

/**
 * @param {Choice} choice
 * @param {Question} question
 * @param {boolean} isCurrent
 * @param {() => void} choose
 */
function choiceElement({ text, probability, continuation, isEnd }, { before, language: spoken }, isCurrent, choose) {
  const bar = h("span", { class: "bar", "aria-hidden": "true" });
  bar.style.setProperty("--share", String(probability));
  // Without a leading space it continues what is before it.
  const start = /^\s/u.test(text) ? "" : /\S*$/u.exec(before)?.[0];
  const words = [h("span", { class: "muted" }, start), h("strong", {}, text.trim()), continuation];
  return h(
    "button",
    // The end of a sentence cannot be chosen: a translation continues after its prefix until the model ends it.
    { type: "button", class: "choice", "aria-current": isCurrent && "true", disabled: isEnd, onclick: choose },
    isEnd
      ? h("em", { class: "choice-text" }, t("word-choices.endOfTheSentence"))
      : h("span", { class: "choice-text", lang: languageTag(spoken), dir: "auto" }, ...words),
    isCurrent && h("span", { class: "badge" }, t("word-choices.current")),
    !isEnd && !continuation && h("span", { class: "badge" }, t("beam-tree.dropped")),
    h("span", { class: "share" }, percent(probability)),
    bar,
  );
}
