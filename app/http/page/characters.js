/**
 * Positions in texts. The service counts characters (Unicode code points), JavaScript counts UTF-16 units: behind an
 * emoji the two differ.
 */

/** A text that is addressed by characters, as the service does. */
export class Characters {
  /** @param {string} text */
  constructor(text) {
    this.text = text;
    /** @type {number[]} The unit at which each character begins, and the number of units. */
    this.units = [];
    let unit = 0;
    for (const character of text) {
      this.units.push(unit);
      unit += character.length;
    }
    this.units.push(unit);
  }

  /** The number of characters. */
  get length() {
    return this.units.length - 1;
  }

  /**
   * The characters from `start` to before `end`.
   *
   * @param {number} start
   * @param {number} [end]
   */
  slice(start, end = this.length) {
    return this.text.slice(this.units[start], this.units[end]);
  }
}
