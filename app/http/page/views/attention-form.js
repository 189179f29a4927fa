/**
 * The form of the explorer: a sentence, its languages, the decoding, and optionally the user's own translation.
 */

import { fill, h } from "../element.js";
import { languageName } from "../languages.js";
import { beamSize, largestBeam } from "../option-fields.js";
import { sentenceOf, sentencesOf } from "../chosen-sentence.js";
import { t } from "../texts.js";

/** @import { Choices, Page } from "../types.js" */

/** Sentences that are offered, at most. */
const MAX_SENTENCES = 200;
const MAX_LABEL = 80;

/** The form above the maps. */
export class AttentionForm {
  #page;
  #submitted;
  /** The sentence that the form was last filled with, to detect a new one of another view. */
  #filledWith = "";
  #source = h("select", { onchange: () => this.choose({ source: this.#source.value }) });
  #target = h("select", { onchange: () => this.choose({ target: this.#target.value }) });
  #decoding = h(
    "select",
    { onchange: () => this.choose({ decoding: this.#decoding.value === "greedy" ? "greedy" : "beam" }) },
    h("option", { value: "beam" }, t("attention-form.beamSearch")),
    h("option", { value: "greedy" }, t("attention-form.greedy")),
  );
  #beamSize = h("input", {
    type: "number",
    min: 1,
    required: true,
    onchange: () => this.#beamSize.reportValidity() && this.choose({ beamSize: this.#beamSize.valueAsNumber }),
  });
  #width = h("label", {}, t("attention-form.beamWidth"), this.#beamSize);
  #sentence = h("textarea", { rows: 2, dir: "auto", spellcheck: "false", required: true, onkeydown: submitOnEnter });
  /** @type {string[]} Those of the text. */
  #sentences = [];
  #number = h("select", { onchange: () => this.use(this.#sentences[Number(this.#number.value)] ?? "") });
  #chooser = h("label", { class: "wide", hidden: true }, t("attention-form.sentenceOfText"), this.#number);
  #own = h("textarea", { rows: 1, dir: "auto", spellcheck: "false", onkeydown: submitOnEnter });

  /**
   * @param {Page} page
   * @param {() => void} submitted Called when the form is submitted or an option changes.
   */
  constructor(page, submitted) {
    this.#page = page;
    this.#submitted = submitted;
    this.element = h(
      "form",
      {
        class: "card attention-form",
        onsubmit: (/** @type {Event} */ event) => {
          event.preventDefault();
          this.#submit();
        },
      },
      this.#chooser,
      h("label", { class: "wide" }, t("attention-form.oneSentence"), this.#sentence),
      h("label", {}, t("attention-form.from"), this.#source),
      h("label", {}, t("attention-form.to"), this.#target),
      h("label", {}, t("attention-form.decoding"), this.#decoding),
      this.#width,
      h("label", { class: "wide" }, t("attention-form.yourOwnTranslationOptional"), this.#own),
      h("button", { class: "primary" }, t("attention-form.showAttention")),
    );
    page.store.subscribe((choices) => this.#showOptions(choices));
    this.#showOptions(page.store.get());
  }

  /** The sentence. */
  get sentence() {
    return this.#sentence.value.trim();
  }

  /** The translation to use instead of the model's own, or an empty string. */
  get own() {
    return this.#own.value.trim();
  }

  /** Adopts the choices of other views. */
  refill() {
    const choices = this.#page.store.get();
    const { sentence } = sentenceOf(choices, this.#page.languages.exampleSource(choices));
    this.#showSentences(choices.text, sentence);
    if (sentence === this.#filledWith) return;
    this.#filledWith = sentence;
    this.#sentence.value = sentence;
    this.#own.value = "";
  }

  /**
   * Offers the sentences of the text, if there are several.
   *
   * @param {string} text
   * @param {string} sentence The one in the form.
   */
  #showSentences(text, sentence) {
    this.#sentences = sentencesOf(text).slice(0, MAX_SENTENCES);
    const { length } = this.#sentences;
    this.#chooser.hidden = length < 2;
    const options = this.#sentences.map((one, index) => {
      const label = one.length > MAX_LABEL ? `${one.slice(0, MAX_LABEL)} …` : one;
      const written = t("attention-form.numbered", { number: index + 1, count: length, sentence: label });
      return h("option", { value: index }, written);
    });
    const chosen = this.#sentences.indexOf(sentence);
    const other = chosen < 0 && h("option", { value: "" }, t("attention-form.ownSentence"));
    fill(this.#number, other, ...options);
    this.#number.value = chosen < 0 ? "" : String(chosen);
  }

  /** Focuses the form. */
  focus() {
    this.#sentence.focus();
  }

  /** Uses another sentence. @param {string} sentence */
  use(sentence) {
    this.#sentence.value = sentence;
    this.#submit();
  }

  #submit() {
    if (!this.sentence) return;
    this.#filledWith = this.sentence;
    this.#showSentences(this.#page.store.get().text, this.sentence);
    this.#page.store.set({ sentence: this.sentence });
    this.#submitted();
  }

  /** Changes languages or options, and submits the form. @param {Partial<Choices>} changes */
  choose(changes) {
    const { store, languages } = this.#page;
    const source = changes.source ?? store.get().source;
    const targets = languages.targets(source);
    const target = changes.target ?? store.get().target;
    store.set({ ...changes, target: targets.includes(target) ? target : (targets[0] ?? "") });
    if (this.sentence) this.#submitted();
  }

  /** @param {Choices} choices */
  #showOptions(choices) {
    const { source, target, decoding } = choices;
    const { languages } = this.#page;
    fill(
      this.#source,
      h("option", { value: "auto" }, t("attention-form.detectLanguage")),
      ...languages.sources.map(option),
    );
    fill(this.#target, ...languages.targets(source).map(option));
    this.#source.value = source;
    this.#target.value = target;
    this.#decoding.value = decoding;
    this.#beamSize.value = String(beamSize({ ...choices, decoding: "beam" }, languages));
    this.#beamSize.max = String(largestBeam(choices, languages));
    this.#width.hidden = decoding === "greedy";
  }
}

/** @param {string} code */
function option(code) {
  return h("option", { value: code }, languageName(code));
}

/** Enter submits; a sentence has no line break. @param {KeyboardEvent} event */
function submitOnEnter(event) {
  if (event.key !== "Enter" || event.isComposing) return;
  event.preventDefault();
  /** @type {HTMLTextAreaElement} */ (event.currentTarget).form?.requestSubmit();
}
