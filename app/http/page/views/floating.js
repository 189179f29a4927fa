/** Where a small box goes that belongs to a word. */

const MARGIN = 8;
const GAP = 6;

/**
 * Puts a box that is shown next to a rectangle of the window, inside the window.
 *
 * @param {HTMLElement} box
 * @param {DOMRect} rectangle
 * @param {"above" | "below"} side Where it goes if it has room there.
 */
export function placeBy(box, rectangle, side) {
  const { offsetWidth: width, offsetHeight: height } = box;
  const above = rectangle.top - GAP - height;
  const below = rectangle.bottom + GAP;
  const lowest = innerHeight - MARGIN - height;
  const isAbove = side === "above" ? above >= MARGIN : below > lowest && above >= MARGIN;
  const left = Math.min(rectangle.left, document.documentElement.clientWidth - MARGIN - width);
  box.style.left = `${Math.max(left, MARGIN)}px`;
  box.style.top = `${isAbove ? above : Math.max(Math.min(below, lowest), MARGIN)}px`;
}
