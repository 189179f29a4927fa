/**
 * A part of a chapter that is filled with answers of the service.
 */

import { isAbort, Problem } from "../../api.js";
import { fill, h } from "../../element.js";

/** @import { Child } from "../../element.js" */

/**
 * A part of the page that shows an answer of the service. Until it arrives, the previous content stays.
 *
 * @param {() => Promise<Child[]>} draw Gives its content.
 * @returns {{ element: HTMLElement, redraw: () => Promise<void> }}
 */
export function stage(draw) {
  const element = h("div", { class: "stage", "aria-busy": "true" });
  let newest = 0;

  async function redraw() {
    newest += 1;
    const own = newest;
    element.setAttribute("aria-busy", "true");
    const content = await draw().catch(explained);
    // A later request has begun, or the chapter was closed.
    if (own !== newest || content === null) return;
    fill(element, ...content);
    element.setAttribute("aria-busy", "false");
  }

  redraw();
  return { element, redraw };
}

/**
 * @param {unknown} error
 * @returns {Child[] | null} Null if the request was cancelled.
 */
function explained(error) {
  if (isAbort(error)) return null;
  if (error instanceof Problem) return [h("p", { class: "notice error", role: "alert" }, error.message)];
  throw error;
}
