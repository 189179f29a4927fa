import { h } from "../element.js";

/** @import { Page, View } from "../types.js" */

/**
 * @param {Page} _page
 * @returns {View}
 */
export function tourView(_page) {
  return { element: h("section", { "aria-labelledby": "tour-title" }, h("h1", { id: "tour-title" }, "tour")) };
}
