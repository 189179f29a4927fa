/**
 * The controls of the chapters: the browser's own, so that all work with the keyboard.
 */

import { h } from "../../element.js";

let numPickers = 0;

/**
 * Buttons, one of which is chosen.
 *
 * @param {string} name What is chosen.
 * @param {string[]} labels
 * @param {number} chosen Index of the one that is chosen at first.
 * @param {(index: number) => void} choose
 */
export function picker(name, labels, chosen, choose) {
  numPickers += 1;
  const group = `picker-${numPickers}`;
  return h(
    "fieldset",
    { class: "picker" },
    h("legend", {}, name),
    ...labels.map((label, index) =>
      h(
        "label",
        {},
        h("input", { type: "radio", name: group, checked: index === chosen, onchange: () => choose(index) }),
        h("span", { class: "token mono", dir: "auto" }, label),
      ),
    ),
  );
}

/**
 * A list of choices.
 *
 * @param {string} name What is chosen.
 * @param {[string, string][]} options Values and labels.
 * @param {string} value The one that is chosen at first.
 * @param {(value: string) => void} choose
 */
export function choice(name, options, value, choose) {
  const select = h(
    "select",
    { onchange: () => choose(select.value) },
    ...options.map(([option, label]) => h("option", { value: option, selected: option === value }, label)),
  );
  return h("label", { class: "choice" }, name, " ", select);
}

/**
 * Choices 0 to `count - 1`.
 *
 * @param {string} name What is chosen.
 * @param {number} count
 * @param {number} value
 * @param {(value: number) => void} choose
 */
export function numbered(name, count, value, choose) {
  const options = Array.from(
    { length: count },
    (_, index) => /** @type {[string, string]} */ ([`${index}`, `${index}`]),
  );
  return choice(name, options, String(value), (chosen) => choose(Number(chosen)));
}
