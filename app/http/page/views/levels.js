/** Levels of uncertainty of words, and the colour of links. */

import { t } from "../texts.js";

/** @typedef {{ below: number, name: string, label: string }} Level */

/** @type {Level[]} The underlines of words whose probability is below a bound, the lowest bound first. */
export const LEVELS = [
  { below: 0.2, name: "very-unsure", label: t("levels.veryUnsure") },
  { below: 0.5, name: "unsure", label: t("levels.unsure") },
];

/**
 * The level of a probability; undefined if the model is sure.
 *
 * @param {number} probability
 */
export function levelOf(probability) {
  return LEVELS.find(({ below }) => probability < below);
}

/**
 * The amount of colour of a link: the weakest is visible, and words remain readable on the strongest.
 *
 * @param {number} weight 0 to 1.
 */
export function shade(weight) {
  return `${Math.round(30 + 55 * weight)}%`;
}
