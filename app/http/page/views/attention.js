/**
 * The view "attention": all heads' weights for a sentence and its translation, decoding step by step, and the search.
 */

import { attention, isAbort, Problem, translateOne } from "../api.js";
import { fill, h } from "../element.js";
import { languageName } from "../languages.js";
import { optionFields } from "../option-fields.js";
import { firstSentence } from "../chosen-sentence.js";
import { AttentionForm } from "./attention-form.js";
import { AttentionWeights, choiceName, KINDS } from "./attention-weights.js";
import { BeamTree } from "./beam-tree.js";
import { HeadGrid } from "./head-grid.js";
import { MapPanel } from "./map-panel.js";
import { Stepper } from "./stepper.js";
import { Palette } from "../palette.js";
import { t } from "../texts.js";

/** @import { Kind, Page, View } from "../types.js" */
/** @import { Choice } from "./attention-weights.js" */

/** @type {Record<Kind, { title: string, about: string }>} */
const ABOUT = {
  encoder: { title: t("attention.encoder"), about: t("attention.aboutEncoder") },
  decoder: { title: t("attention.decoder"), about: t("attention.aboutDecoder") },
  cross: { title: t("attention.cross"), about: t("attention.aboutCross") },
};

/** With more tokens the enlarged map has the full width. */
const LONG = 36;

/** Number of language pairs that are offered if the languages are not served. */
const MAX_PAIRS = 6;

/**
 * The attention explorer.
 *
 * @param {Page} page
 * @returns {View}
 */
export function attentionView(page) {
  const explorer = new Explorer(page);
  return { element: explorer.element, show: () => explorer.open(), hide: () => explorer.close() };
}

/** Connects the parts of the view: a map chosen in one part is chosen in all. */
class Explorer {
  #page;
  #form;
  #panel;
  #grid = new HeadGrid((choice) => this.#choose(choice));
  #stepper = new Stepper((step) => this.#markStep(step));
  #tree = new BeamTree();
  #palette = new Palette();
  /** @type {AbortController | null} Cancels the requests in progress. */
  #running = null;
  /** The key of the last request. */
  #loaded = "";
  /** @type {{ weights: AttentionWeights, file: Blob, sentence: string } | null} What is shown. */
  #result = null;
  /** @type {Choice} The enlarged map. */
  #choice = { kind: "cross", layer: Infinity, head: null };
  /** @type {Pick<Choice, "layer" | "head">} The decoder's layer and head that the steps show. */
  #decoderChoice = this.#choice;

  #problem = h("div", { role: "alert" });
  #translation = h("p", { class: "attention-translation" });
  #about = h("p", { class: "muted" });
  #recurrent = h("p", { class: "muted", hidden: true }, t("attention.recurrent"));
  #stretched = h("input", { type: "checkbox", onchange: () => this.#draw() });
  #kinds = KINDS.map((kind) =>
    h("input", { type: "radio", name: "kind", value: kind, onchange: () => this.#choose({ ...this.#choice, kind }) }),
  );
  #maps = h("div", { class: "attention-maps" });
  #results;

  /** @param {Page} page */
  constructor(page) {
    this.#page = page;
    this.#form = new AttentionForm(page, () => this.#load());
    this.#panel = new MapPanel(page.announce);
    this.#maps.append(this.#headPanel(), this.#panel.element);
    this.#results = h(
      "div",
      { class: "attention-results", hidden: true },
      this.#translation,
      this.#maps,
      this.#stepper.element,
      this.#tree.element,
    );
    this.element = h(
      "section",
      { class: "attention", "aria-labelledby": "attention-title" },
      h("h1", { id: "attention-title" }, t("main.attention")),
      this.#form.element,
      this.#problem,
      this.#results,
    );
    addEventListener("verso:theme", () => {
      this.#palette = new Palette();
      this.#draw();
    });
    addEventListener("verso:key-given", () => {
      this.#loaded = "";
      if (this.element.isConnected) this.#load();
    });
  }

  /** The view becomes visible. */
  open() {
    this.#form.refill();
    if (this.#key() !== this.#loaded) this.#load();
  }

  /** The view is closed. */
  close() {
    this.#stepper.stop();
  }

  #headPanel() {
    return h(
      "section",
      { class: "card head-panel", "aria-labelledby": "heads-title" },
      h("h2", { id: "heads-title" }, t("attention.layersAndHeads")),
      h(
        "fieldset",
        { class: "kinds" },
        h("legend", { class: "unseen" }, t("main.attention")),
        ...KINDS.map((kind, index) => h("label", {}, this.#kinds[index], ABOUT[kind].title)),
      ),
      this.#about,
      this.#recurrent,
      h("div", { class: "head-frame" }, this.#grid.element),
      h("label", { class: "check" }, this.#stretched, t("attention.scaleTheColoursToEach")),
    );
  }

  /** Requests the weights and the search for the form; an earlier request is cancelled. */
  async #load() {
    const { sentence, own } = this.#form;
    if (!sentence) return;
    this.#running?.abort();
    const running = new AbortController();
    this.#running = running;
    this.#loaded = this.#key();
    this.element.setAttribute("aria-busy", "true");
    try {
      const body = this.#fields(sentence);
      const fields = { ...body, kinds: KINDS, ...(own && { target_text: own }) };
      const { arrays, file } = await attention(fields, running.signal);
      fill(this.#problem);
      this.#show({ weights: new AttentionWeights(arrays), file, sentence });
      this.element.setAttribute("aria-busy", "false");
      if (own) this.#tree.explain(t("attention.noSearchOfOwn"));
      else await this.#loadSearch(body, running.signal);
    } catch (error) {
      if (isAbort(error)) return;
      if (!(error instanceof Problem)) throw error;
      this.#showProblem(error, sentence);
    } finally {
      if (this.#running === running) this.element.setAttribute("aria-busy", "false");
    }
  }

  /** The choices that an answer depends on. */
  #key() {
    return JSON.stringify([this.#fields(this.#form.sentence), this.#form.own]);
  }

  /** The fields that both requests share. @param {string} text */
  #fields(text) {
    const { store, languages } = this.#page;
    const { source, target, glossary } = store.get();
    return { text, source, target, ...optionFields(store.get(), languages), ...(glossary && { glossary }) };
  }

  /**
   * @param {Record<string, unknown>} body
   * @param {AbortSignal} signal
   */
  async #loadSearch(body, signal) {
    try {
      const { search, text } = await translateOne({ ...body, return_search: true }, signal);
      if (search) this.#tree.show(search, text);
      else this.#tree.explain(t("attention.thereWasNoSearchFor"));
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      this.#tree.explain(t("attention.theSearchCannotBeShown", { message: error.message }));
    }
  }

  /** @param {{ weights: AttentionWeights, file: Blob, sentence: string }} result */
  #show(result) {
    const { weights } = result;
    this.#result = result;
    this.#results.hidden = false;
    this.#maps.classList.toggle("long", Math.max(weights.sourceTokens.length, weights.targetTokens.length) > LONG);
    this.#kinds.forEach((radio) => {
      radio.disabled = !weights.has(/** @type {Kind} */ (radio.value));
    });
    this.#recurrent.hidden = weights.has("decoder");
    if (!weights.has(this.#choice.kind)) this.#choice = { ...this.#choice, kind: "cross" };
    this.#stepper.show(weights);
    this.#tree.explain(t("attention.searching"));
    const count = t("attention.tokenCounts", {
      source: weights.sourceTokens.length,
      target: weights.targetTokens.length,
    });
    const detected = weights.detected ? t("attention.detected", { detected: languageName(weights.detected) }) : "";
    fill(
      this.#translation,
      h("b", { dir: "auto" }, weights.translation),
      " ",
      h("span", { class: "muted" }, `${count}${detected}`),
    );
    this.#page.announce(t("attention.translation", { translation: weights.translation }));
    this.#showKind(this.#choice.kind);
    this.#choose(this.#choice);
  }

  /** @param {Kind} kind */
  #showKind(kind) {
    if (!this.#result) return;
    this.#grid.show(this.#result.weights, kind);
    this.#grid.draw(this.#result.weights, this.#palette, this.#stretched.checked);
    fill(this.#about, ABOUT[kind].about);
    this.#kinds.forEach((radio) => {
      radio.checked = radio.value === kind;
    });
  }

  /** @param {Choice} choice */
  #choose(choice) {
    if (!this.#result) return;
    const { weights, file, sentence } = this.#result;
    const before = this.#choice.kind;
    this.#choice = weights.nearest(choice);
    if (this.#choice.kind !== before) this.#showKind(this.#choice.kind);
    if (this.#choice.kind !== "encoder") this.#decoderChoice = this.#choice;
    this.#grid.mark(this.#choice);
    const name = t("attention.mapName", { kind: ABOUT[this.#choice.kind].title, head: choiceName(this.#choice) });
    this.#panel.show({ map: weights.map(this.#choice), name, file, sentence });
    this.#panel.draw(this.#palette, this.#stretched.checked);
    this.#stepper.draw(this.#decoderChoice, this.#palette);
  }

  /** Redraws everything, for other colours. */
  #draw() {
    if (!this.#result) return;
    this.#grid.draw(this.#result.weights, this.#palette, this.#stretched.checked);
    this.#panel.draw(this.#palette, this.#stretched.checked);
    this.#stepper.draw(this.#decoderChoice, this.#palette);
  }

  /** @param {number} step */
  #markStep(step) {
    this.#panel.markStep(this.#choice.kind === "encoder" ? null : step);
  }

  /**
   * Shows why the service refused the request, and offers fixes.
   *
   * @param {Problem} problem
   * @param {string} sentence
   */
  #showProblem(problem, sentence) {
    this.#stepper.stop();
    this.#results.hidden = true;
    this.#result = null;
    fill(
      this.#problem,
      h("div", { class: "notice error" }, h("p", {}, problem.message), this.#fixes(problem, sentence)),
    );
  }

  /**
   * Buttons that fix the request, if possible.
   *
   * @param {Problem} problem
   * @param {string} sentence
   */
  #fixes(problem, sentence) {
    const button = (/** @type {string} */ label, /** @type {() => void} */ fix) => {
      const onclick = () => {
        fix();
        // The button will be gone.
        this.#form.focus();
      };
      return h("button", { type: "button", onclick }, label);
    };
    const first = firstSentence(sentence);
    if (problem.code === "several_sentences" && first !== sentence) {
      return button(t("attention.useTheFirstSentence", { first }), () => this.#form.use(first));
    }
    if (["unsupported_pair", "detected_pair_not_served", "pair_in_two_legs"].includes(problem.code)) {
      const pairs = this.#page.languages.models.flatMap((model) => model.pairs).slice(0, MAX_PAIRS);
      const buttons = pairs.map(([source, target]) =>
        button(t("attention.pair", { source: languageName(source), target: languageName(target) }), () =>
          this.#form.choose({ source, target }),
        ),
      );
      return h("p", { class: "row" }, ...buttons);
    }
    return null;
  }
}
