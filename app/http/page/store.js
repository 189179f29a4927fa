/**
 * The state that the views share: text, languages and options. A view changes it, and the listeners of the others are called.
 */

/** @import { Choices } from "./types.js" */

/** @type {Choices} */
const DEFAULTS = {
  source: "auto",
  target: "",
  text: "",
  sentence: "",
  decoding: "beam",
  beamSize: 4,
  formality: "",
  glossary: "",
};

const KEPT = "verso.choices";

/**
 * The choices of this tab before the page was loaded again. Those that are not of the known kind are left out: another
 * version of the page may have stored them.
 *
 * @returns {Partial<Choices>}
 */
function kept() {
  try {
    const stored = JSON.parse(sessionStorage.getItem(KEPT) ?? "{}");
    const known = Object.entries(DEFAULTS).filter(([name, value]) => typeof stored[name] === typeof value);
    return Object.fromEntries(known.map(([name]) => [name, stored[name]]));
  } catch {
    // Storage is disabled.
    return {};
  }
}

/** @param {Choices} choices */
function keep(choices) {
  try {
    sessionStorage.setItem(KEPT, JSON.stringify(choices));
  } catch {
    // Storage is disabled, or too small for the text: a reload loses it.
  }
}

/** The choices, and the listeners that are called when they change. */
export class Store {
  /** @type {Choices} */
  #choices = { ...DEFAULTS, ...kept() };
  /** @type {Set<(choices: Choices, changed: Set<keyof Choices>) => void>} */
  #listeners = new Set();

  /** The choices now. */
  get() {
    return this.#choices;
  }

  /**
   * Changes some choices. Listeners are called if any differs. The sentence belongs to the text: a new text without a
   * sentence clears it.
   *
   * @param {Partial<Choices>} changes
   */
  set(changes) {
    const isNewText = changes.text !== undefined && changes.text !== this.#choices.text;
    const all = isNewText ? { sentence: "", ...changes } : changes;
    const names = /** @type {(keyof Choices)[]} */ (Object.keys(all));
    const changed = new Set(names.filter((name) => all[name] !== this.#choices[name]));
    if (!changed.size) return;
    this.#choices = { ...this.#choices, ...all };
    keep(this.#choices);
    for (const listener of this.#listeners) listener(this.#choices, changed);
  }

  /** @param {(choices: Choices, changed: Set<keyof Choices>) => void} listener */
  subscribe(listener) {
    this.#listeners.add(listener);
  }
}
