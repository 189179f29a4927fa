/**
 * The choices as fields of a request, without options that the model of the pair does not support.
 */

/** @import { Choices } from "./types.js" */
/** @import { Languages } from "./languages.js" */

/**
 * The options of a request, within the limits of the model of the pair.
 *
 * @param {Choices} choices
 * @param {Languages} languages
 * @returns {{ decoding: string, beam_size?: number, formality?: string }}
 */
export function optionFields(choices, languages) {
  return {
    decoding: choices.decoding,
    ...(choices.decoding === "beam" && { beam_size: beamSize(choices, languages) }),
    ...(choices.formality && hasFormality(choices, languages) && { formality: choices.formality }),
  };
}

/**
 * Hypotheses that the search keeps.
 *
 * @param {Choices} choices
 * @param {Languages} languages
 */
export function beamSize(choices, languages) {
  if (choices.decoding === "greedy") return 1;
  return Math.min(Math.max(choices.beamSize, 1), largestBeam(choices, languages));
}

/**
 * The largest beam of the model that translates the pair.
 *
 * @param {Choices} choices
 * @param {Languages} languages
 */
export function largestBeam({ source, target }, languages) {
  return languages.model(source, target)?.limits.max_beam_size ?? 1;
}

/**
 * Whether the model of the pair supports the form of address.
 *
 * @param {Choices} choices
 * @param {Languages} languages
 */
export function hasFormality({ source, target }, languages) {
  return languages.model(source, target)?.capabilities.formality.includes(target) ?? false;
}
