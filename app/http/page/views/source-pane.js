/**
 * The pane of the text to translate.
 */

import { Characters } from "../characters.js";
import { fill, h } from "../element.js";
import { languageName, languageTag } from "../languages.js";
import { count, percent } from "../numbers.js";
import { examplesIn } from "../chosen-sentence.js";
import { t } from "../texts.js";
import { SURE } from "./detected-language.js";

/** @import { Choices, Page, Translation } from "../types.js" */

const MAX_EXAMPLES = 4;

/** The pane of the source. */
export class SourcePane {
  #store;
  #languages;
  #detected = h("span", { class: "detected" });
  #count = h("span", { class: "count" });
  #clear;
  #examples = h("div", { class: "examples" });
  #tooLong = h("div", { class: "notice error too-long", hidden: true });
  #translateAsFile;

  /**
   * @param {Page} page
   * @param {{ translateNow: () => void, translateAsFile: (text: string) => void }} actions The second is for texts
   *   over the limit.
   */
  constructor({ store, languages }, { translateNow, translateAsFile }) {
    this.#store = store;
    this.#languages = languages;
    this.#translateAsFile = translateAsFile;
    this.textarea = h("textarea", {
      "aria-label": t("source-pane.textToTranslate"),
      "aria-describedby": "source-count",
      placeholder: t("source-pane.typeOrPasteAText"),
      dir: "auto",
      spellcheck: "false",
      oninput: () => store.set({ text: this.textarea.value }),
      onkeydown: (/** @type {KeyboardEvent} */ event) => {
        if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) translateNow();
      },
    });
    this.#count.id = "source-count";
    this.#clear = h(
      "button",
      { type: "button", class: "quiet", onclick: () => this.#setText("") },
      t("source-pane.clear"),
    );
    this.element = h(
      "div",
      { class: "pane source-pane" },
      h("div", { class: "source-text" }, this.textarea),
      this.#examples,
      h(
        "div",
        { class: "pane-end" },
        this.#tooLong,
        h("div", { class: "pane-foot" }, this.#detected, this.#clear, this.#count),
      ),
    );
  }

  /** @param {Choices} choices The choices to show. */
  update(choices) {
    if (this.textarea.value !== choices.text) {
      this.textarea.value = choices.text;
      this.textarea.setSelectionRange(0, 0);
    }
    this.textarea.lang = choices.source === "auto" ? "" : languageTag(choices.source);
    this.#clear.hidden = !choices.text;
    this.#updateCount(choices);
    this.#updateExamples(choices);
  }

  /** Whether the text is over the limit of a request. */
  get isTooLong() {
    const choices = this.#store.get();
    return new Characters(choices.text).length > this.#limit(choices);
  }

  /** The position of the caret, in characters. */
  get caret() {
    return new Characters(this.textarea.value.slice(0, this.textarea.selectionStart)).length;
  }

  /** @param {Translation["detected"]} detected The detected language, or null. */
  showDetected(detected) {
    if (!detected) {
      fill(this.#detected);
      return;
    }
    const { language, confidence } = detected;
    const sure = confidence >= SURE ? t("source-pane.detected") : t("source-pane.possibly");
    fill(
      this.#detected,
      t("source-pane.detected2", { sure, language: languageName(language), confidence: percent(confidence) }),
    );
  }

  /** @param {string} text */
  #setText(text) {
    this.#store.set({ text });
    this.textarea.focus();
    this.textarea.setSelectionRange(text.length, text.length);
  }

  /** @param {{ source: string, target: string }} pair */
  #limit({ source, target }) {
    return this.#languages.model(source, target)?.limits.max_text_characters ?? Number.POSITIVE_INFINITY;
  }

  /** @param {Choices} choices */
  #updateCount(choices) {
    const { length } = new Characters(choices.text);
    const limit = this.#limit(choices);
    const over = length - limit;
    fill(
      this.#count,
      `${count(length)} / ${count(limit)}`,
      h("span", { class: "unseen" }, t("source-pane.characters")),
    );
    this.#count.classList.toggle("over", over > 0);
    this.textarea.setAttribute("aria-invalid", String(over > 0));
    this.#tooLong.hidden = over <= 0;
    if (over <= 0) return;
    fill(
      this.#tooLong,
      h("p", { role: "status" }, t("source-pane.tooLong", { over: count(over), limit: count(limit) })),
      h(
        "button",
        { type: "button", onclick: () => this.#translateAsFile(this.#store.get().text) },
        t("source-pane.translateItAsAFile"),
      ),
    );
  }

  /** @param {Choices} choices */
  #updateExamples({ source, target, text }) {
    this.#examples.hidden = text !== "";
    if (text) return;
    const from = this.#languages.sources.filter((code) => code === source || (source === "auto" && code !== target));
    const examples = [...from, ...this.#languages.sources.filter((code) => source === "auto" && code === target)]
      .flatMap(examplesIn)
      .slice(0, MAX_EXAMPLES);
    fill(
      this.#examples,
      examples.length ? h("span", { class: "muted" }, t("source-pane.examples")) : null,
      ...examples.map((example) =>
        h("button", { type: "button", class: "example", dir: "auto", onclick: () => this.#setText(example) }, example),
      ),
    );
  }
}
