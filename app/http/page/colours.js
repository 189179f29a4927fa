/**
 * The colour scale of weights: cividis (Nuñez et al. 2018), which people with any colour vision see alike, from dark for
 * 0 to light for 1 on a dark page. On a light page it is reversed and begins with white: most weights are near 0, and a
 * page of bright yellow would hide the others.
 */

/** @typedef {[number, number, number]} Colour  Red, green and blue, 0 to 255. */

/** @type {Colour[]} At equal distances, from 0 to 1 on a dark page. */
const CIVIDIS = [
  [0, 34, 78],
  [18, 53, 112],
  [59, 73, 108],
  [87, 93, 109],
  [112, 113, 115],
  [138, 134, 120],
  [165, 156, 116],
  [195, 179, 105],
  [225, 204, 85],
  [254, 232, 56],
];

/** @type {Colour[]} At equal distances, from 0 to 1 on a light page; lightness falls all the way. */
const FROM_WHITE = [[255, 255, 255], ...CIVIDIS.toReversed()];

/** Whether the page is dark now. */
export function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

/**
 * The colour of a weight.
 *
 * @param {number} weight 0 to 1; others are taken as the nearest of these.
 * @param {boolean} dark Whether the page is dark.
 * @returns {Colour}
 */
export function colourOf(weight, dark) {
  const scale = dark ? CIVIDIS : FROM_WHITE;
  const position = Math.min(Math.max(weight, 0), 1) * (scale.length - 1);
  const below = Math.min(Math.floor(position), scale.length - 2);
  const [low, high] = /** @type {[Colour, Colour]} */ ([scale[below], scale[below + 1]]);
  const share = position - below;
  return /** @type {Colour} */ (low.map((value, index) => Math.round(value + share * ((high[index] ?? 0) - value))));
}

/**
 * A colour as CSS writes it.
 *
 * @param {Colour} colour
 */
export function css([red, green, blue]) {
  return `rgb(${red} ${green} ${blue})`;
}
