/**
 * Whether a text is in the language that was stated for it.
 */

import { detect, Problem } from "../api.js";

/** @import { Translation } from "../types.js" */

/** Characters of a text that are looked at, at least and at most. */
const MIN_CHARACTERS = 16;
const MAX_CHARACTERS = 500;

/** From this confidence on a detected language is more than possible. */
export const SURE = 0.8;

/** Asks once for each beginning of a text. */
export class SourceCheck {
  #beginning = "";
  /** @type {Promise<Translation["detected"]>} */
  #detected = Promise.resolve(null);

  /**
   * Another language that a text is surely in, or null.
   *
   * @param {string} text
   * @param {string} source The stated language, or `auto`.
   */
  async otherThan(text, source) {
    const beginning = text.trim().slice(0, MAX_CHARACTERS);
    if (source === "auto" || beginning.length < MIN_CHARACTERS) return null;
    if (beginning !== this.#beginning) {
      this.#beginning = beginning;
      this.#detected = languageOf(beginning);
    }
    const detected = await this.#detected;
    return detected && detected.confidence >= SURE && detected.language !== source ? detected.language : null;
  }
}

/**
 * The detected language of a text; null if the service cannot tell.
 *
 * @param {string} text
 */
export async function languageOf(text) {
  try {
    return await detect(text);
  } catch (error) {
    if (error instanceof Problem) return null;
    throw error;
  }
}
