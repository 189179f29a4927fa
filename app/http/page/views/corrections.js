/**
 * Corrections: the sentences of a translation are edited and confirmed, which stores them; what came from stored
 * sentences is marked, and can be taken back.
 */

import { addCorrection, deleteUnit, Problem } from "../api.js";
import { Characters } from "../characters.js";
import { fill, h } from "../element.js";
import { languageTag } from "../languages.js";
import { percent } from "../numbers.js";
import { EditRow } from "./edit-row.js";
import { pairSentences } from "./sentences.js";
import { t } from "../texts.js";

/** @import { MemoryUse, Sentence, Translation } from "../types.js" */
/** @import { SentencePair, TranslatedSentence } from "./sentences.js" */

/** @typedef {{ row: EditRow, sentence: Sentence }} Entry */

/** Longer texts are corrected as files. */
const MAX_CHARACTERS = 5000;
/** Maximum number of sentences that are marked. */
const MAX_MARKED = 50;

/** How a sentence used what is stored. */
const USES = /** @type {const} */ ({
  exact: "corrections.exact",
  steered: "corrections.steered",
  offered: "corrections.offered",
});

/** What is stored, and what can be. */
export class Corrections {
  /** Fields of a request that uses the corrections, also those of similar sentences. */
  fields = { memory: "corrections", memory_threshold: 0.85 };
  #translateAgain;
  #announce;
  #problem = h("p", { class: "notice error", role: "alert", hidden: true });
  #marks = h("ul", { class: "terms-outcome", "aria-label": t("corrections.marks"), hidden: true });
  #list = h("ol", { class: "edit-list", "aria-label": t("edit.sentences") });
  #editor = h(
    "details",
    { class: "card correct", hidden: true, ontoggle: () => this.#fillList() },
    h("summary", {}, t("corrections.correct")),
    h("p", { class: "muted" }, t("corrections.keys")),
    this.#list,
  );
  element = h("div", { class: "corrections" }, this.#problem, this.#marks, this.#editor);
  /** @type {Translation | null} */
  #translation = null;
  /** @type {Sentence[]} */
  #sentences = [];
  /** @type {Entry[]} The rows of the list, while it is open. */
  #entries = [];
  /** @type {Set<EditRow>} */
  #storing = new Set();

  /**
   * @param {() => void} translateAgain The stored sentences have changed.
   * @param {(message: string) => void} announce
   */
  constructor(translateAgain, announce) {
    this.#translateAgain = translateAgain;
    this.#announce = announce;
  }

  /**
   * Shows the sentences of the model's translation.
   *
   * @param {Translation} translation
   * @param {string} text The text that was translated.
   * @param {TranslatedSentence[]} sentences Those of the streamed answer; none if the text came from the memory.
   */
  show(translation, text, sentences) {
    // In two legs, only whole texts are looked up.
    const isWhole = Boolean(translation.via) || !sentences.length;
    this.showPairs(translation, text, pairSentences(text, translation.text, isWhole ? undefined : sentences));
  }

  /**
   * Shows the sentences of a translation.
   *
   * @param {Translation} translation
   * @param {string} text The text that was translated.
   * @param {SentencePair[]} pairs Where its sentences are; none if that is unknown.
   */
  showPairs(translation, text, pairs) {
    const [source, target] = [new Characters(text), new Characters(translation.text)];
    const uses = translation.memory ?? [];
    this.#translation = translation;
    this.#problem.hidden = true;
    this.#showMarks(uses, source);
    this.#sentences =
      source.length > MAX_CHARACTERS
        ? []
        : pairs.map((pair, number) => ({
            number,
            text: 0,
            source: source.slice(...pair.source).trim(),
            translation: target.slice(...pair.target).trim(),
            edited: false,
            confirmed: uses.some(
              ({ source: [start, end], status }) =>
                status === "exact" && start >= pair.source[0] && end <= pair.source[1],
            ),
          }));
    this.#editor.hidden = !this.#sentences.length;
    this.#fillList();
  }

  /** Shows nothing. */
  clear() {
    this.#translation = null;
    this.#sentences = [];
    this.#problem.hidden = this.#marks.hidden = this.#editor.hidden = true;
    this.#fillList();
  }

  /**
   * @param {MemoryUse[]} uses
   * @param {Characters} source
   */
  #showMarks(uses, source) {
    const distinct = uses.filter((use, index) => uses.findIndex(({ unit }) => unit === use.unit) === index);
    const more = distinct.length - MAX_MARKED;
    const marks = distinct.slice(0, MAX_MARKED).map((use) => this.#mark(use, source.slice(...use.source)));
    fill(this.#marks, ...marks, more > 0 && h("li", {}, t("translation-facts.andMore", { more })));
    this.#marks.hidden = !distinct.length;
  }

  /**
   * @param {MemoryUse} use
   * @param {string} sentence
   */
  #mark(use, sentence) {
    const quote = t("shared.quote", { text: sentence });
    const takeBack = h(
      "button",
      {
        type: "button",
        class: "quiet",
        "aria-label": t("corrections.takeBackOf", { quote }),
        onclick: () => this.#takeBack(use),
      },
      t("corrections.takeBack"),
    );
    const values = { score: percent(use.score), target: use.stored_target };
    return h(
      "li",
      {},
      h("span", { class: "marked-sentence", dir: "auto" }, quote),
      " ",
      h("span", { class: "muted" }, t(USES[use.status], values)),
      " ",
      use.status !== "offered" && takeBack,
    );
  }

  /** Shows the rows; one with something that is not stored stays as it is, and so does the focus. */
  #fillList() {
    const before = this.#entries;
    const focused = before.findIndex(({ row }) => row.element.contains(document.activeElement));
    this.#entries = (this.#editor.open ? this.#sentences : []).map((sentence, index) => {
      const old = before[index];
      if (!old?.row.isUnsaved || old.sentence.source !== sentence.source) return this.#entry(sentence);
      old.row.saved(sentence);
      return { row: old.row, sentence };
    });
    if (before.length === this.#entries.length) {
      this.#entries.forEach(({ row }, index) => {
        const old = before[index]?.row;
        if (old !== row) old?.element.replaceWith(row.element);
      });
    } else fill(this.#list, ...this.#entries.map(({ row }) => row.element));
    for (const { row } of this.#entries) row.grow();
    const entry = this.#entries[focused];
    if (entry && !entry.row.element.contains(document.activeElement)) entry.row.focus();
  }

  /**
   * @param {Sentence} sentence
   * @returns {Entry}
   */
  #entry(sentence) {
    const { source = "", target = "" } = this.#translation ?? {};
    const row = new EditRow(sentence, {
      tags: { source: languageTag(source), target: languageTag(target) },
      changed: (changed) => void this.#store(changed, sentence.source, { source, target }),
      done: (confirmed) => this.#moveOn(confirmed),
    });
    return { row, sentence };
  }

  /** The translation after one that was confirmed: the next unconfirmed one. @param {EditRow} row */
  #moveOn(row) {
    const index = this.#entries.findIndex((entry) => entry.row === row);
    const next = this.#entries.slice(index + 1).find((entry) => !entry.row.isConfirmed);
    if (next) next.row.focus();
    else this.#announce(t("edit.last"));
  }

  /**
   * Stores a translation that was confirmed.
   *
   * @param {EditRow} row
   * @param {string} text The sentence.
   * @param {{ source: string, target: string }} languages
   */
  async #store(row, text, languages) {
    const { change } = row;
    if (!change?.confirmed || this.#storing.has(row)) return;
    this.#storing.add(row);
    const { number, translation } = change;
    await this.#attempt(async () => {
      await addCorrection({ source: text, target: translation }, languages);
      row.saved({ number, text: 0, source: text, translation, edited: false, confirmed: true });
      this.#announce(t("corrections.stored"));
    });
    this.#storing.delete(row);
  }

  /** @param {MemoryUse} use */
  async #takeBack(use) {
    await this.#attempt(async () => {
      await deleteUnit(use.memory, use.unit);
      this.#announce(t("corrections.takenBack"));
    });
  }

  /**
   * Changes the stored sentences, and translates again.
   *
   * @param {() => Promise<void>} act
   */
  async #attempt(act) {
    try {
      await act();
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      fill(this.#problem, error.message);
      this.#problem.hidden = false;
      return;
    }
    this.#translateAgain();
  }
}
