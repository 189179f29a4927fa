/**
 * The fragment of the address: the view, and in a shared link the choices. Browsers do not send it to the service.
 */

/** @import { Choices } from "./types.js" */

/** @type {(keyof Choices)[]} */
const SHARED = ["source", "target", "text", "decoding", "beamSize", "formality"];

/**
 * The view, the part of it and the choices that a fragment names: `#/view`, `#/view/part`, `#/view?choices`.
 *
 * @param {string} fragment With its `#`.
 * @returns {{ view: string, part: string, choices: Partial<Choices> }}
 */
export function readFragment(fragment) {
  const [path = "", query = ""] = fragment.replace(/^#\/?/, "").split("?", 2);
  const values = new URLSearchParams(query);
  /** @type {Record<string, string | number>} */
  const choices = {};
  for (const name of SHARED) {
    const value = values.get(name);
    if (value === null) continue;
    if (name === "beamSize") choices[name] = Number.parseInt(value, 10) || 1;
    else choices[name] = value;
  }
  if (choices.decoding !== "greedy" && "decoding" in choices) choices.decoding = "beam";
  if (choices.formality !== "formal" && choices.formality !== "informal") delete choices.formality;
  const [view = "", part = ""] = path.split("/", 2);
  return { view, part, choices };
}

/**
 * A fragment that names a view and the choices.
 *
 * @param {string} view
 * @param {Choices} choices
 */
export function fragmentFor(view, choices) {
  const values = new URLSearchParams();
  for (const name of SHARED) {
    if (choices[name] !== "") values.set(name, String(choices[name]));
  }
  return `#/${view}?${values}`;
}
