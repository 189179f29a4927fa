/**
 * Copies texts to the clipboard.
 */

import { fill, h } from "../element.js";
import { t } from "../texts.js";

const SHOWN_MS = 2000;

/**
 * A button that copies a text and confirms it.
 *
 * @param {string} label
 * @param {() => string} text
 * @param {(message: string) => void} announce
 */
export function copyButton(label, text, announce) {
  const button = h("button", { type: "button", class: "quiet" }, label);
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  button.addEventListener("click", async () => {
    const feedback = (await copied(text())) ? t("copy.copied") : t("copy.copyingFailed");
    fill(button, feedback);
    announce(`${feedback}.`);
    clearTimeout(timer);
    timer = setTimeout(() => fill(button, label), SHOWN_MS);
  });
  return button;
}

/**
 * @param {string} text
 * @returns {Promise<boolean>} Whether the browser allows it.
 */
async function copied(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // Without TLS, browsers offer only this old API on pages from another machine.
    const active = document.activeElement;
    const area = h("textarea", { class: "unseen", "aria-hidden": "true", tabindex: -1 });
    area.value = text;
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    if (active instanceof HTMLElement) active.focus();
    return done;
  }
}
