/** Where a small box goes that belongs to a word. */

const MARGIN = 8;
const GAP = 6;
/** The height that a box has at least, even if it covers the rectangle then. */
const LEAST = 160;

/**
 * Puts a box that is shown next to a rectangle of the window, inside the window: on the other side than the one wished
 * for if only that has room, and no higher than the room there.
 *
 * @param {HTMLElement} box
 * @param {DOMRect} rectangle
 * @param {"above" | "below"} side
 */
export function placeBy(box, rectangle, side) {
  const above = rectangle.top - GAP - MARGIN;
  const below = innerHeight - MARGIN - rectangle.bottom - GAP;
  box.style.maxHeight = "";
  const { offsetWidth: width, offsetHeight: height } = box;
  const fits = height <= (side === "above" ? above : below);
  const isAbove = fits ? side === "above" : above > below;
  const room = Math.max(isAbove ? above : below, LEAST);
  box.style.maxHeight = `${room}px`;
  const left = Math.min(rectangle.left, document.documentElement.clientWidth - MARGIN - width);
  const top = isAbove ? rectangle.top - GAP - Math.min(height, room) : rectangle.bottom + GAP;
  box.style.left = `${Math.max(left, MARGIN)}px`;
  box.style.top = `${Math.max(Math.min(top, innerHeight - MARGIN - Math.min(height, room)), MARGIN)}px`;
}
