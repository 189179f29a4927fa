/**
 * Detection of languages, as the views use it.
 */

import { detect, Problem } from "../api.js";

/** From this confidence on a detected language is more than possible. */
export const SURE = 0.8;

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
