/**
 * The pane of the translation, and its buttons.
 */

import { fill, h } from "../element.js";
import { languageTag } from "../languages.js";
import { copyButton } from "./copy.js";
import { t } from "../texts.js";

/** @import { Problem } from "../api.js" */

const SLOW_MS = 4000;

/**
 * What the pane needs of the view.
 *
 * @typedef {object} Actions
 * @property {() => string} text The translation.
 * @property {() => string} link The address to share.
 * @property {() => void} retry
 * @property {() => void} chooseSentence Another view is about to open: chooses the sentence that it shows.
 * @property {(message: string) => void} announce
 */

/** The pane of the translation. */
export class OutputPane {
  #retry;
  #content;
  #output;
  #notice = h("div", { class: "notice", hidden: true });
  #slow = h("p", { class: "muted slow", role: "status" });
  #tools;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #slowTimer;

  /**
   * @param {HTMLElement} content The translation.
   * @param {Actions} actions
   */
  constructor(content, { text, link, retry, chooseSentence, announce }) {
    this.#retry = retry;
    this.#content = content;
    this.#tools = h(
      "div",
      { class: "pane-foot" },
      copyButton(t("output-pane.copy"), text, announce),
      copyButton(t("output-pane.copyLink"), link, announce),
      h("a", { href: "#/attention", onclick: chooseSentence }, t("attention-form.showAttention")),
      h("a", { href: "#/tour", onclick: chooseSentence }, t("main.howItWorks")),
    );
    this.#output = h(
      "div",
      {
        class: "output",
        "data-empty": t("glossary-choice.translation"),
        role: "region",
        "aria-label": t("glossary-choice.translation"),
        "aria-busy": "false",
        dir: "auto",
        tabindex: -1,
      },
      content,
    );
    this.element = h(
      "div",
      { class: "pane output-pane" },
      h("div", { class: "busy-line" }),
      this.#output,
      h("div", { class: "pane-end" }, this.#slow, this.#notice, this.#tools),
    );
    this.hasTranslation = false;
  }

  /** @param {string} language Of the translation. */
  set language(language) {
    this.#output.lang = languageTag(language);
  }

  /** @param {boolean} is Whether there is a translation, possibly partial. */
  set hasTranslation(is) {
    this.#tools.hidden = !is;
    this.element.classList.toggle("empty", !is);
  }

  /** @param {boolean} is Whether a translation is under way. */
  set isBusy(is) {
    clearTimeout(this.#slowTimer);
    fill(this.#slow);
    this.#output.setAttribute("aria-busy", String(is));
    if (is) this.#slowTimer = setTimeout(() => fill(this.#slow, t("output-pane.stillTranslating")), SLOW_MS);
  }

  /** @param {boolean} is Whether the shown translation belongs to an earlier text. */
  set isStale(is) {
    this.#content.classList.toggle("stale", is);
  }

  /** Whether the shown translation belongs to an earlier text. */
  get isStale() {
    return this.#content.classList.contains("stale");
  }

  /**
   * Shows why there is no translation.
   *
   * @param {Problem} problem
   */
  showProblem(problem) {
    this.showNotice(problem.message, t("output-pane.tryAgain"), this.#retry);
    this.#notice.classList.add("error");
  }

  /**
   * @param {string} message
   * @param {string} [label] The label of the button; without one there is none.
   * @param {() => void} [action]
   */
  showNotice(message, label, action) {
    const act = () => {
      action?.();
      // The button is gone, or will be.
      this.#output.focus();
    };
    const button = label && h("button", { type: "button", onclick: act }, label);
    fill(this.#notice, h("p", { role: "alert" }, message), button || "");
    this.#notice.classList.remove("error");
    this.#notice.hidden = false;
  }

  /** Removes the notice. */
  clearNotice() {
    fill(this.#notice);
    this.#notice.hidden = true;
  }
}
