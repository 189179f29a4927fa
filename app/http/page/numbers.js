/**
 * How numbers are written.
 */

/**
 * A number with a fixed count of decimals, and a minus sign that is one.
 *
 * @param {number} value
 * @param {number} [digits] Decimals.
 */
export function decimal(value, digits = 3) {
  if (value === -Infinity) return "−∞";
  const text = Math.abs(value).toFixed(digits);
  return value < 0 && Number(text) !== 0 ? `−${text}` : text;
}

/**
 * A share in percent: exact to a tenth, or, where that is enough, to a tenth only below ten percent.
 *
 * @param {number} share 0 to 1.
 * @param {{ exact?: boolean }} [options]
 */
export function percent(share, { exact = false } = {}) {
  if (share > 0 && share < 0.001) return "< 0.1 %";
  return `${exact || (share > 0 && share < 0.0995) ? (100 * share).toFixed(1) : Math.round(100 * share)} %`;
}
