/**
 * How to translate: the search, the form of address, and the glossary.
 */

import { fill, h } from "../element.js";
import { beamSize, hasFormality, largestBeam } from "../option-fields.js";
import { t } from "../texts.js";

/** @import { Choices, Page } from "../types.js" */
/** @import { GlossaryChoice } from "./glossary-choice.js" */

/** @type {[Choices["formality"], string][]} */
const FORMALITIES = [
  ["", t("options.default")],
  ["formal", t("options.formal")],
  ["informal", t("options.informal")],
];

/** Chooses how to translate. */
export class Options {
  #store;
  #languages;
  #glossary;
  #summary = h("span", { class: "muted" });
  #greedy;
  #beam;
  #width;
  #shownWidth = h("output", {});
  #formality;
  #formalityLabel;

  /**
   * @param {Page} page
   * @param {GlossaryChoice} glossary It is shown among the options.
   */
  constructor({ store, languages }, glossary) {
    this.#store = store;
    this.#languages = languages;
    this.#glossary = glossary;
    this.#greedy = this.#decodingButton("greedy");
    this.#beam = this.#decodingButton("beam");
    this.#width = h("input", {
      type: "range",
      min: 1,
      "aria-label": t("options.widthOfTheBeam"),
      oninput: () => store.set({ beamSize: this.#width.valueAsNumber }),
    });
    this.#formality = h(
      "select",
      {
        onchange: () => store.set({ formality: /** @type {Choices["formality"]} */ (this.#formality.value) }),
      },
      ...FORMALITIES.map(([value, label]) => h("option", { value }, label)),
    );
    this.#formalityLabel = h("label", { class: "option" }, h("span", {}, t("options.formOfAddress")), this.#formality);
    this.element = h(
      "details",
      { class: "card options" },
      h("summary", {}, t("options.options"), this.#summary),
      h(
        "div",
        { class: "option-list" },
        h(
          "fieldset",
          { class: "option" },
          h("legend", {}, t("options.search")),
          h("label", { title: t("options.aboutGreedy") }, this.#greedy, t("attention-form.greedy")),
          h("label", { title: t("options.aboutBeam") }, this.#beam, t("options.beam")),
          this.#width,
          this.#shownWidth,
        ),
        this.#formalityLabel,
        glossary.element,
      ),
    );
  }

  /** @param {Choices} choices The choices to show. */
  update(choices) {
    const width = beamSize({ ...choices, decoding: "beam" }, this.#languages);
    this.#greedy.checked = choices.decoding === "greedy";
    this.#beam.checked = choices.decoding === "beam";
    this.#width.max = String(largestBeam(choices, this.#languages));
    this.#width.value = String(width);
    this.#width.disabled = choices.decoding === "greedy";
    fill(
      this.#shownWidth,
      choices.decoding === "greedy" ? "" : t(width === 1 ? "options.hypothesis" : "options.hypotheses", { width }),
    );
    const formality = hasFormality(choices, this.#languages);
    this.#formalityLabel.hidden = !formality;
    this.#formality.value = choices.formality;
    fill(
      this.#summary,
      [
        choices.decoding === "greedy" ? t("options.greedySearch") : t("options.beamOf", { width }),
        formality && choices.formality && t(`options.${choices.formality}`),
        this.#glossary.fields().glossary && t("options.withGlossary"),
      ]
        .filter(Boolean)
        .join(", "),
    );
  }

  /** @param {Choices["decoding"]} decoding */
  #decodingButton(decoding) {
    return h("input", {
      type: "radio",
      name: "decoding",
      value: decoding,
      onchange: () => this.#store.set({ decoding }),
    });
  }
}
