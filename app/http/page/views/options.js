/**
 * How to translate: the search, the form of address, and the glossary.
 */

import { fill, h } from "../element.js";
import { beamSize, hasFormality, largestBeam } from "../option-fields.js";

/** @import { Choices, Page } from "../types.js" */
/** @import { GlossaryChoice } from "./glossary-choice.js" */

/** @type {[Choices["formality"], string][]} */
const FORMALITIES = [
  ["", "Default"],
  ["formal", "Formal"],
  ["informal", "Informal"],
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
      "aria-label": "Width of the beam",
      oninput: () => store.set({ beamSize: this.#width.valueAsNumber }),
    });
    this.#formality = h(
      "select",
      {
        onchange: () => store.set({ formality: /** @type {Choices["formality"]} */ (this.#formality.value) }),
      },
      ...FORMALITIES.map(([value, label]) => h("option", { value }, label)),
    );
    this.#formalityLabel = h("label", { class: "option" }, h("span", {}, "Form of address"), this.#formality);
    this.element = h(
      "details",
      { class: "card options" },
      h("summary", {}, "Options ", this.#summary),
      h(
        "div",
        { class: "option-list" },
        h(
          "fieldset",
          { class: "option" },
          h("legend", {}, "Search"),
          h("label", { title: "The most probable token at every step; fastest" }, this.#greedy, "Greedy"),
          h("label", { title: "Several hypotheses in parallel; better" }, this.#beam, "Beam"),
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
      choices.decoding === "greedy" ? "" : `${width} ${width === 1 ? "hypothesis" : "hypotheses"}`,
    );
    const formality = hasFormality(choices, this.#languages);
    this.#formalityLabel.hidden = !formality;
    this.#formality.value = choices.formality;
    fill(
      this.#summary,
      [
        choices.decoding === "greedy" ? "greedy search" : `beam of ${width}`,
        formality && choices.formality,
        this.#glossary.fields().glossary && "glossary",
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
