import { h } from "../element.js";

/** @import { Page, View } from "../types.js" */

/**
 * @param {Page} _page
 * @returns {View}
 */
export function translateView(_page) {
  return { element: h("section", { "aria-labelledby": "translate-title" }, h("h1", { id: "translate-title" }, "translate")) };
}
