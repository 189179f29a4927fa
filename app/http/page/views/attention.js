import { h } from "../element.js";

/** @import { Page, View } from "../types.js" */

/**
 * @param {Page} _page
 * @returns {View}
 */
export function attentionView(_page) {
  return { element: h("section", { "aria-labelledby": "attention-title" }, h("h1", { id: "attention-title" }, "attention")) };
}
