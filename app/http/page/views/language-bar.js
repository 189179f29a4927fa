/**
 * The two languages, and the button that swaps them.
 */

import { fill, h } from "../element.js";
import { languageName } from "../languages.js";
import { t } from "../texts.js";

/** @import { Choices, Page } from "../types.js" */
/** @import { Languages } from "../languages.js" */

const AUTO = "auto";

/** Chooses the languages. */
export class LanguageBar {
  #store;
  #languages;
  #source;
  #target;
  #swap;
  /** Whether the user has chosen the target; otherwise it follows the detected language. */
  targetIsChosen = false;

  /**
   * @param {Page} page
   * @param {() => void} swap
   */
  constructor({ store, languages }, swap) {
    this.#store = store;
    this.#languages = languages;
    this.#source = h("select", { "aria-label": t("language-bar.translateFrom"), onchange: () => this.#chooseSource() });
    this.#target = h("select", { "aria-label": t("language-bar.translateTo"), onchange: () => this.#chooseTarget() });
    this.#swap = h(
      "button",
      {
        type: "button",
        class: "quiet swap",
        "aria-label": t("language-bar.swapTheLanguages"),
        title: t("language-bar.swap"),
        onclick: swap,
      },
      "⇄",
    );
    fill(
      this.#source,
      option(AUTO, t("attention-form.detectLanguage")),
      ...languages.sources.map((code) => languageOption(code)),
    );
    this.element = h("div", { class: "language-bar" }, this.#source, this.#swap, this.#target);
  }

  /** @param {Choices} choices The choices to show; languages that are not served are replaced. */
  update(choices) {
    const pair = servedPair(this.#languages, choices.source, choices.target);
    this.#store.set(pair);
    const targets = this.#languages.targets(pair.source);
    // Unchanged options are not replaced: the user may be typing the name of one.
    if ([...this.#target.options].map((shown) => shown.value).join() !== targets.join()) {
      fill(this.#target, ...targets.map((code) => languageOption(code)));
    }
    this.#source.value = pair.source;
    this.#target.value = pair.target;
    this.#swap.disabled = !this.#languages.sources.includes(pair.target);
  }

  #chooseSource() {
    const { source: before, target } = this.#store.get();
    const source = this.#source.value;
    // The new source is the old target: swap the languages.
    this.#store.set({ source, target: source === target && before !== AUTO ? before : target });
  }

  #chooseTarget() {
    this.targetIsChosen = true;
    this.#store.set({ target: this.#target.value });
  }
}

/**
 * The served pair that is closest to a requested one.
 *
 * @param {Languages} languages
 * @param {string} source
 * @param {string} target
 */
function servedPair(languages, source, target) {
  const from = languages.sources.includes(source) ? source : AUTO;
  const targets = languages.targets(from);
  return { source: from, target: targets.includes(target) ? target : (targets[0] ?? "") };
}

/** @param {string} code */
function languageOption(code) {
  return option(code, languageName(code));
}

/**
 * @param {string} value
 * @param {string} label
 */
function option(value, label) {
  return h("option", { value }, label);
}
