import { fill, h } from "../element.js";

/** @import { Translation } from "../types.js" */

/** The translation as text. */
export class LinkedTexts {
  static fields = { return_alignment: true, return_confidence: true, return_scores: true, num_hypotheses: 3 };

  /**
   * @param {object} parts
   * @param {HTMLTextAreaElement} parts.source
   * @param {(fields: Record<string, unknown>, signal: AbortSignal) => Promise<Translation>} parts.request
   * @param {(translation: Translation) => void} parts.onSteered
   * @param {(message: string) => void} parts.announce
   */
  constructor(parts) {
    this.parts = parts;
    this.element = h("div", { class: "translation-text" });
    this.details = h("div");
  }

  /** @param {string} text */
  showPartial(text) {
    fill(this.element, text);
  }

  /**
   * @param {Translation} translation
   * @param {string} _source
   */
  show(translation, _source) {
    fill(this.element, translation.text);
  }

  clear() {
    fill(this.element);
  }
}
