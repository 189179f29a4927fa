/** The translations that the search found, with their scores; the user can choose one. */

import { fill, h } from "../element.js";
import { decimal } from "../numbers.js";
import { differences } from "./differences.js";
import { t } from "../texts.js";

/** @import { Alternative } from "../types.js" */

const ELEMENTS = /** @type {const} */ ({ same: "span", new: "ins", gone: "del" });

/** A list that is filled when it is opened. */
export class Alternatives {
  #list = h("ol");
  element = h(
    "details",
    { class: "alternatives", ontoggle: () => this.#fill() },
    h("summary", {}, t("alternatives.otherTranslations")),
    h("p", { class: "muted" }, t("alternatives.scoresAreTheMeanLog")),
    this.#list,
  );
  /** @type {Alternative[]} */
  #hypotheses = [];
  #taken = "";
  #onTake;

  /** @param {(alternative: Alternative) => void} onTake */
  constructor(onTake) {
    this.#onTake = onTake;
  }

  /**
   * Shows hypotheses, or hides itself if there is only one.
   *
   * @param {Alternative[]} hypotheses Best first.
   * @param {string} taken The text that is the current translation.
   */
  show(hypotheses, taken) {
    this.#hypotheses = hypotheses;
    this.#taken = taken;
    this.element.hidden = hypotheses.length < 2;
    this.#fill();
  }

  #fill() {
    if (!this.element.open || this.element.hidden) return;
    const focused = [...this.#list.querySelectorAll("button")].findIndex((button) => button === document.activeElement);
    const best = this.#hypotheses[0]?.text ?? "";
    fill(this.#list, ...this.#hypotheses.map((hypothesis) => h("li", {}, this.#button(hypothesis, best))));
    this.#list.querySelectorAll("button")[focused]?.focus();
  }

  /**
   * @param {Alternative} alternative
   * @param {string} best
   */
  #button(alternative, best) {
    const pieces = differences(alternative.text, best).flatMap(({ text, kind }) => [
      // The words that only the best one has are shown, but not read out.
      h(ELEMENTS[kind], { "aria-hidden": kind === "gone" && "true" }, text.trim()),
      " ",
    ]);
    const isTaken = alternative.text === this.#taken;
    const { score } = alternative;
    return h(
      "button",
      { type: "button", class: "choice", "aria-pressed": String(isTaken), onclick: () => this.#onTake(alternative) },
      h("span", { class: "choice-text", dir: "auto" }, ...pieces),
      score !== null && h("span", { class: "share" }, decimal(score)),
    );
  }
}
