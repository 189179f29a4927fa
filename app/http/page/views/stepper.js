/**
 * Decoding token by token: the tokens so far, and the weights of source and target tokens for the next one.
 */

import { fill, h } from "../element.js";
import { choiceName, rowOf } from "./attention-weights.js";
import { decimal } from "../numbers.js";
import { t } from "../texts.js";

/** @import { AttentionWeights, Choice } from "./attention-weights.js" */
/** @import { Palette } from "../palette.js" */

const STEP_MS = 900;

/** A slider over the steps of decoding one translation. */
export class Stepper {
  /** @type {AttentionWeights | null} */
  #weights = null;
  /** @type {Pick<Choice, "layer" | "head">} */
  #choice = { layer: 0, head: null };
  /** @type {Palette | null} */
  #palette = null;
  /** @type {ReturnType<typeof setInterval> | undefined} */
  #timer;
  #stepped;
  #slider = h("input", { type: "range", min: 0, value: 0, id: "step", oninput: () => this.#go(this.step) });
  #label = h("label", { for: "step" });
  #back = h(
    "button",
    { type: "button", "aria-label": t("stepper.stepBack"), onclick: () => this.#go(this.step - 1) },
    "◂",
  );
  #on = h(
    "button",
    { type: "button", "aria-label": t("stepper.stepForward"), onclick: () => this.#go(this.step + 1) },
    "▸",
  );
  #play = h("button", { type: "button", class: "primary", onclick: () => this.#toggle() }, t("stepper.play"));
  #about = h("p", { class: "muted" });
  #source = h("ol", { class: "tokens", "aria-label": t("stepper.sourceTokensAndTheirWeights") });
  #written = h("ol", { class: "tokens", "aria-label": t("stepper.tokensReadByTheDecoder") });
  #next = h("p", { class: "next-token" });

  /** @param {(step: number) => void} stepped Called when another step is shown. */
  constructor(stepped) {
    this.#stepped = stepped;
    this.element = h(
      "section",
      { class: "card stepper", "aria-labelledby": "stepper-title" },
      h("h2", { id: "stepper-title" }, t("stepper.decodingStepByStep")),
      this.#about,
      h("div", { class: "row step-controls" }, this.#play, this.#back, this.#on, this.#label, this.#slider),
      h("h3", {}, t("stepper.attentionToTheSource")),
      this.#source,
      h("h3", {}, t("stepper.attentionToTheTokensSo")),
      this.#written,
      this.#next,
    );
  }

  /** The step that is shown, counted from 0. */
  get step() {
    return this.#slider.valueAsNumber;
  }

  /** @param {AttentionWeights} weights Those of another translation: begins at its first step. */
  show(weights) {
    this.stop();
    this.#weights = weights;
    this.#slider.max = String(weights.targetTokens.length - 1);
    this.#slider.value = "0";
    fill(this.#source, ...weights.sourceTokens.map(chip));
    fill(this.#written, ...weights.inputTokens.map(chip));
  }

  /**
   * Shows the weights of one layer and head.
   *
   * @param {Pick<Choice, "layer" | "head">} choice
   * @param {Palette} palette
   */
  draw(choice, palette) {
    this.#choice = choice;
    this.#palette = palette;
    this.#go(this.step);
  }

  /** Stops playing. */
  stop() {
    clearInterval(this.#timer);
    this.#timer = undefined;
    fill(this.#play, t("stepper.play"));
  }

  #toggle() {
    if (this.#timer !== undefined) {
      this.stop();
      return;
    }
    fill(this.#play, t("stepper.pause"));
    if (this.step === Number(this.#slider.max)) this.#go(0);
    this.#timer = setInterval(() => {
      this.#go(this.step + 1);
      if (this.step === Number(this.#slider.max)) this.stop();
    }, STEP_MS);
  }

  /** @param {number} position */
  #go(position) {
    const [weights, palette] = [this.#weights, this.#palette];
    if (!weights || !palette) return;
    this.#slider.value = String(position); // clamped by the slider
    const step = this.step;
    const count = weights.targetTokens.length;
    const cross = rowOf(weights.map(weights.nearest({ ...this.#choice, kind: "cross" })), step);
    const attends = weights.has("decoder");
    const own = attends
      ? rowOf(weights.map(weights.nearest({ ...this.#choice, kind: "decoder" })), step)
      : new Float32Array(count);
    paint(this.#source, cross, palette, weights.sourceTokens.length);
    paint(this.#written, own, palette, step + 1);
    const token = weights.targetTokens[step];
    fill(this.#about, t(attends ? "stepper.about" : "stepper.aboutCross", { head: choiceName(this.#choice) }));
    fill(this.#label, t("stepper.stepOf", { step: step + 1, count }));
    fill(this.#next, t("stepper.andWrites"), h("b", { dir: "auto" }, token));
    this.#slider.setAttribute("aria-valuetext", t("stepper.stepWrites", { step: step + 1, count, token }));
    // Their focus would be lost if they were disabled.
    this.#back.setAttribute("aria-disabled", String(step === 0));
    this.#on.setAttribute("aria-disabled", String(step === count - 1));
    this.#stepped(step);
  }
}

/** @param {string} token */
function chip(token) {
  return h("li", {}, h("span", { dir: "auto" }, token), h("span", { class: "chip-weight" }));
}

/**
 * Shades tokens by their weights, and hides those that come later.
 *
 * @param {HTMLElement} list
 * @param {Float32Array} weights
 * @param {Palette} palette
 * @param {number} num How many tokens there are yet.
 */
function paint(list, weights, palette, num) {
  [...list.children].forEach((child, index) => {
    const item = /** @type {HTMLElement} */ (child);
    item.hidden = index >= num;
    if (item.hidden) return;
    palette.shade(item, weights[index], 1);
    /** @type {Element} */ (item.lastElementChild).textContent = decimal(weights[index]);
  });
}
