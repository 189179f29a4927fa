/**
 * A sentence beside its translation, which is edited and confirmed here.
 */

import { fill, h } from "../element.js";
import { flawOf, missingMarkers, shownWithMarkers } from "./markers.js";
import { t } from "../texts.js";

/** @import { Sentence, SentenceChange } from "../types.js" */

/** A single word that stays as it is may be a name. */
const SEVERAL_WORDS = /\p{L}.*\s.*\p{L}/su;

const GROWS = CSS.supports("field-sizing", "content");

/**
 * What a row needs of its view.
 *
 * @typedef {object} RowListener
 * @property {{ source: string, target: string }} tags The languages of both sides.
 * @property {(row: EditRow, isUrgent: boolean) => void} changed The row has something to save.
 * @property {(row: EditRow) => void} done The translation was confirmed with the keyboard: the next one is wanted.
 */

/** A sentence in the list. */
export class EditRow {
  #listener;
  /** @type {Sentence} As the service has it. */
  #saved;
  /** Whether the translation is confirmed here. */
  #isConfirmed;
  /** Whether the service has refused the translation as it is. */
  #isRefused = false;
  #area;
  #state = h("span", { class: "row-state" });
  #confirm;
  #undo;
  #error = h("span", { class: "row-error", role: "alert" });
  #insert;

  /**
   * @param {Sentence} sentence
   * @param {RowListener} listener
   */
  constructor(sentence, listener) {
    this.#saved = sentence;
    this.#listener = listener;
    this.#isConfirmed = sentence.confirmed;
    const number = sentence.number + 1;
    const [sourceId, errorId] = [`source-${number}`, `error-${number}`];
    this.#error.id = errorId;
    this.#area = h("textarea", {
      rows: 1,
      lang: listener.tags.target,
      dir: "auto",
      spellcheck: "true",
      "aria-label": t("edit.translationOf", { number }),
      "aria-describedby": `${sourceId} ${errorId}`,
      oninput: () => this.#typed(),
      onblur: () => this.#listener.changed(this, true),
      onkeydown: (/** @type {KeyboardEvent} */ event) => this.#pressed(event),
    });
    this.#area.value = sentence.translation;
    this.#confirm = h("button", { type: "button", class: "row-confirm", onclick: () => this.#toggle() });
    this.#undo = h(
      "button",
      { type: "button", class: "quiet", title: t("edit.undo"), onclick: () => this.#revert() },
      ...withIcon("↺", t("edit.undo")),
    );
    this.#insert = h(
      "button",
      { type: "button", onclick: () => this.#insertMissing(), hidden: true },
      t("edit.insertMarkers"),
    );
    this.element = h(
      "li",
      { class: "edit-row" },
      h("span", { class: "row-number" }, number),
      h(
        "p",
        { class: "row-source", id: sourceId, lang: listener.tags.source, dir: "auto" },
        ...shownWithMarkers(sentence.source, sentence.markers),
      ),
      h("div", { class: "row-target" }, this.#area, h("div", { class: "row-problem" }, this.#error, this.#insert)),
      h("div", { class: "row-end" }, this.#state, this.#undo, this.#confirm),
    );
    this.#show();
  }

  /** Its number in the document. */
  get number() {
    return this.#saved.number;
  }

  /** The paragraph that it belongs to. */
  get text() {
    return this.#saved.text;
  }

  /** Whether its translation is confirmed. */
  get isConfirmed() {
    return this.#isConfirmed;
  }

  /** What is to be saved; null if there is nothing, or it cannot be saved as it is. @returns {SentenceChange | null} */
  get change() {
    const translation = this.#translation;
    if (!this.isUnsaved || this.#isRefused || flawOf(translation, this.#saved)) return null;
    return { number: this.number, translation, confirmed: this.#isConfirmed };
  }

  /** Whether something is not saved, or cannot be. */
  get isUnsaved() {
    return this.#translation !== this.#saved.translation || this.#isConfirmed !== this.#saved.confirmed;
  }

  /** Takes the sentence as the service has it now; what was typed meanwhile stays. @param {Sentence} sentence */
  saved(sentence) {
    this.#saved = sentence;
    this.#show();
  }

  /** @param {string} message Why the service has refused the translation. */
  refuse(message) {
    this.#isRefused = true;
    this.#isConfirmed = this.#saved.confirmed;
    // It was confirmed, and perhaps left out then.
    this.element.hidden = false;
    this.#show(t("edit.refused", { message }));
  }

  /** Moves the keyboard to the translation. */
  focus() {
    this.#area.focus();
    this.element.scrollIntoView({ block: "nearest" });
  }

  /** Makes the field as high as its text, where the browser does not. */
  grow() {
    if (GROWS) return;
    this.#area.style.setProperty("height", "auto");
    this.#area.style.setProperty("height", `${this.#area.scrollHeight + 2}px`);
  }

  get #translation() {
    return this.#area.value.trim();
  }

  get #machine() {
    return this.#saved.machine_translation ?? this.#saved.translation;
  }

  /** Whether the sentence has lines; another must stay on its line. */
  get #hasLines() {
    return this.#machine.includes("\n");
  }

  #typed() {
    if (!this.#hasLines && this.#area.value.includes("\n")) {
      this.#area.value = this.#area.value.replace(/\s*\n\s*/g, " ");
    }
    this.#isConfirmed = false;
    this.#isRefused = false;
    this.grow();
    this.#show();
    this.#listener.changed(this, false);
  }

  /** @param {KeyboardEvent} event */
  #pressed(event) {
    if (event.key !== "Enter" || event.isComposing) return;
    const confirms = event.ctrlKey || event.metaKey;
    if (confirms || !this.#hasLines) event.preventDefault();
    if (!confirms || flawOf(this.#translation, this.#saved) || this.#isRefused) return;
    this.#isConfirmed = true;
    this.#show();
    this.#listener.done(this);
    this.#listener.changed(this, true);
  }

  #toggle() {
    this.#isConfirmed = !this.#isConfirmed;
    this.#show();
    this.#listener.changed(this, true);
  }

  /** Takes the machine's translation again. */
  #revert() {
    this.#area.value = this.#machine;
    this.#typed();
    this.#area.focus();
  }

  #insertMissing() {
    const area = this.#area;
    area.setRangeText(missingMarkers(area.value, this.#saved).join(""), area.selectionStart, area.selectionEnd, "end");
    this.#typed();
    area.focus();
  }

  /** @param {string} [refusal] What the service says. */
  #show(refusal = "") {
    const machine = this.#machine;
    const isEdited = this.#translation !== machine;
    const flaw = refusal || flawOf(this.#translation, this.#saved);
    const untouched = machine === this.#saved.source && SEVERAL_WORDS.test(machine) ? "untranslated" : "machine";
    const state = this.#isConfirmed ? "confirmed" : isEdited ? "edited" : untouched;
    this.element.dataset.state = state;
    fill(this.#state, STATES[state]);
    const action = this.#isConfirmed ? t("edit.reopen") : t("edit.confirm");
    fill(this.#confirm, ...withIcon("✓", action));
    this.#confirm.title = action;
    this.#confirm.disabled = Boolean(flaw);
    this.#undo.hidden = !isEdited;
    if (this.#error.textContent !== flaw) fill(this.#error, flaw);
    this.#insert.hidden = !missingMarkers(this.#translation, this.#saved).length;
    this.#area.setAttribute("aria-invalid", String(Boolean(flaw)));
  }
}

/**
 * What a button shows: a sign where there is little room, and what it does.
 *
 * @param {string} icon
 * @param {string} label
 */
function withIcon(icon, label) {
  return [h("span", { class: "row-icon", "aria-hidden": "true" }, icon), h("span", { class: "row-label" }, label)];
}

const STATES = {
  machine: t("edit.machine"),
  untranslated: t("edit.untranslated"),
  edited: t("edit.edited"),
  confirmed: t("edit.confirmed"),
};
