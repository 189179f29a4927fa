/**
 * How numbers are written, in the language of the page.
 */

import { language } from "./texts.js";

/** @type {Map<number, Intl.NumberFormat>} By the count of decimals. */
const FORMATS = new Map();
const COUNT = new Intl.NumberFormat(language);

/** @param {number} digits */
function formatWith(digits) {
  const known = FORMATS.get(digits);
  if (known) return known;
  const format = new Intl.NumberFormat(language, {
    minimumFractionDigits: digits,
    maximumFractionDigits: digits,
    useGrouping: false,
  });
  FORMATS.set(digits, format);
  return format;
}

/**
 * A number with a fixed count of decimals, and a minus sign that is one.
 *
 * @param {number} value
 * @param {number} [digits] Decimals.
 */
export function decimal(value, digits = 3) {
  if (value === -Infinity) return "−∞";
  const text = formatWith(digits).format(Math.abs(value));
  return value < 0 && Number(value.toFixed(digits)) !== 0 ? `−${text}` : text;
}

/**
 * A share in percent: exact to a tenth, or, where that is enough, to a tenth only below ten percent.
 *
 * @param {number} share 0 to 1.
 * @param {{ exact?: boolean }} [options]
 */
export function percent(share, { exact = false } = {}) {
  if (share > 0 && share < 0.001) return `< ${decimal(0.1, 1)} %`;
  return `${decimal(100 * share, exact || (share > 0 && share < 0.0995) ? 1 : 0)} %`;
}

/** A count, with its thousands apart. @param {number} value */
export function count(value) {
  return COUNT.format(value);
}
