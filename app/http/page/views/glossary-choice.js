/**
 * The glossary: a stored one or terms typed here; and the use of each term.
 */

import { glossaries, Problem } from "../api.js";
import { Characters } from "../characters.js";
import { fill, h } from "../element.js";

/** @import { Choices, Glossary, GlossaryTerm, Page, Translation } from "../types.js" */

/** The value for typed terms; ids of glossaries are UUIDs. */
const TYPED = "typed";
const MAX_TERMS = 100;

const OUTCOMES = {
  used: "✓ used by the model",
  replaced: "✓ replaced another word",
  missing: "✗ not used",
};

/** Chooses a glossary. */
export class GlossaryChoice {
  #store;
  #languages;
  #announce;
  #changed;
  #select;
  /** Whether the typed terms are used. They are not part of the choices that the views share. */
  #isTyped = false;
  /** @type {Glossary[]} */
  #stored = [];
  #rows = h("tbody", {});
  #table;
  #problem = h("p", { class: "error", hidden: true });
  /** The use of each term. */
  outcome = h("ul", { class: "terms-outcome", "aria-label": "Glossary terms", hidden: true });

  /**
   * @param {Page} page
   * @param {() => void} changed Called when the terms change.
   */
  constructor({ store, languages, announce }, changed) {
    this.#store = store;
    this.#languages = languages;
    this.#announce = announce;
    this.#changed = changed;
    this.#select = h("select", { onchange: () => this.#choose() });
    this.#table = h(
      "div",
      { hidden: true },
      h(
        "table",
        { class: "terms" },
        h("caption", { class: "unseen" }, "Terms and how to translate them"),
        h(
          "thead",
          {},
          h("tr", {}, h("th", { scope: "col" }, "Term"), h("th", { scope: "col" }, "Translation"), h("td")),
        ),
        this.#rows,
      ),
      h("button", { type: "button", class: "quiet", onclick: () => this.#addRow().focus() }, "+ Add a term"),
    );
    this.element = h(
      "div",
      { class: "option" },
      h("label", {}, h("span", {}, "Glossary"), this.#select),
      this.#problem,
      this.#table,
    );
    this.#addRow();
    this.#fillSelect(store.get());
  }

  /** Loads the list of stored glossaries. */
  async load() {
    try {
      this.#stored = await glossaries();
      this.#problem.hidden = true;
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      fill(this.#problem, `Stored glossaries: ${error.message}`);
      this.#problem.hidden = false;
    }
    this.update(this.#store.get());
  }

  /** @param {Choices} choices The choices to show; a glossary of other languages is deselected. */
  update(choices) {
    const chosen = this.#stored.find((glossary) => glossary.glossary_id === choices.glossary);
    if (
      chosen &&
      !(sameLanguage(chosen.source_lang, choices.source) && sameLanguage(chosen.target_lang, choices.target))
    ) {
      this.#announce(`The glossary ${chosen.name} is for other languages and is no longer used.`);
      this.#store.set({ glossary: "" });
      return;
    }
    this.#fillSelect(choices);
    this.#table.hidden = !this.#isTyped;
  }

  /** @returns {{ glossary?: string | GlossaryTerm[] }} The field of a request; none without terms. */
  fields() {
    const { glossary } = this.#store.get();
    if (glossary) return { glossary };
    const terms = this.#isTyped ? this.#terms() : [];
    return terms.length ? { glossary: terms } : {};
  }

  /**
   * Shows the use of the terms.
   *
   * @param {Translation | null} translation
   * @param {string} [sourceText]
   */
  showOutcome(translation, sourceText = "") {
    const source = new Characters(sourceText);
    const target = new Characters(translation?.text ?? "");
    const terms = (translation?.glossary ?? []).map((term) => ({
      word: source.slice(...term.source),
      translated: term.target ? target.slice(...term.target) : null,
      status: OUTCOMES[term.status],
    }));
    const requested = translation && this.#isTyped ? this.#terms() : [];
    const absent = requested.filter((term) => !terms.some(({ word }) => isOccurrence(word, term.source)));
    fill(
      this.outcome,
      ...terms.map(({ word, translated, status }) => outcomeItem(word, translated, status)),
      ...absent.map((term) => outcomeItem(term.source, null, "not in the text")),
    );
    this.outcome.hidden = !this.outcome.children.length;
  }

  #choose() {
    const value = this.#select.value;
    const stored = this.#stored.find(({ glossary_id: id }) => id === value);
    // The terms of a stored glossary belong to a source language, so it cannot be detected.
    const source = stored && this.#languages.sources.find((code) => sameLanguage(code, stored.source_lang));
    this.#isTyped = value === TYPED;
    this.#store.set({ glossary: stored ? value : "", ...(source && { source }) });
    this.update(this.#store.get());
    if (this.#isTyped) this.#rows.querySelector("input")?.focus();
    this.#changed();
  }

  /** @param {Choices} choices */
  #fillSelect({ source, target, glossary }) {
    const fitting = this.#stored.filter(
      (item) => sameLanguage(item.target_lang, target) && (source === "auto" || sameLanguage(item.source_lang, source)),
    );
    fill(
      this.#select,
      h("option", { value: "" }, "None"),
      h("option", { value: TYPED }, "Terms typed here"),
      ...fitting.map((item) =>
        h(
          "option",
          { value: item.glossary_id },
          `${item.name} (${item.entry_count} ${item.entry_count === 1 ? "term" : "terms"})`,
        ),
      ),
    );
    this.#select.value = this.#isTyped ? TYPED : glossary;
  }

  #addRow() {
    const changed = this.#changed;
    const source = h("input", { "aria-label": "Term", dir: "auto", maxlength: 200, oninput: changed });
    const target = h("input", { "aria-label": "Its translation", dir: "auto", maxlength: 200, oninput: changed });
    const remove = h("button", { type: "button", class: "quiet", "aria-label": "Remove the term" }, "✕");
    const row = h("tr", {}, h("td", {}, source), h("td", {}, target), h("td", {}, remove));
    remove.addEventListener("click", () => {
      row.remove();
      (this.#rows.querySelector("input") ?? this.#addRow()).focus();
      changed();
    });
    target.addEventListener("keydown", (event) => {
      if (event.key === "Enter") this.#addRow().focus();
    });
    if (this.#rows.children.length < MAX_TERMS) this.#rows.append(row);
    return source;
  }

  /** Complete rows. */
  #terms() {
    return [...this.#rows.children]
      .map((row) => [...row.querySelectorAll("input")].map((input) => input.value.trim()))
      .map(([source = "", target = ""]) => ({ source, target }))
      .filter(({ source, target }) => source && target);
  }
}

/**
 * Whether two codes have the same language: glossaries omit scripts and regions.
 *
 * @param {string} one
 * @param {string} other
 */
function sameLanguage(one, other) {
  return one.replace(/[-_].*/, "").toLowerCase() === other.replace(/[-_].*/, "").toLowerCase();
}

/**
 * Whether a word of the text is an occurrence of a term: the service also matches endings.
 *
 * @param {string} word
 * @param {string} term
 */
function isOccurrence(word, term) {
  return word.toLowerCase().startsWith(term.toLowerCase());
}

/**
 * @param {string} word
 * @param {string | null} translated
 * @param {string} status
 */
function outcomeItem(word, translated, status) {
  return h(
    "li",
    {},
    h("b", {}, word),
    translated === null ? null : ` → ${translated}`,
    h("span", { class: "muted" }, ` ${status}`),
  );
}
