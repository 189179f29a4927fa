/** Below which probability a word counts as unsure, and how much colour a link has. */

/** @typedef {{ below: number, name: string, label: string }} Level */

/** @type {Level[]} How words are underlined whose probability is below a bound; the lowest bound first. */
export const LEVELS = [
  { below: 0.2, name: "very-unsure", label: "very unsure" },
  { below: 0.5, name: "unsure", label: "unsure" },
];

/**
 * The level of a probability, or undefined where the model is sure.
 *
 * @param {number} probability
 */
export function levelOf(probability) {
  return LEVELS.find(({ below }) => probability < below);
}

/**
 * How much colour a link has. The weakest can still be seen, and words can be read on the strongest.
 *
 * @param {number} weight 0 to 1.
 */
export function shade(weight) {
  return `${Math.round(30 + 55 * weight)}%`;
}
