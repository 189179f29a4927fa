/**
 * The glossary: a stored one or terms typed here; and the use of each term.
 */

import { glossaries, Problem } from "../api.js";
import { Characters } from "../characters.js";
import { fill, h } from "../element.js";
import { t } from "../texts.js";

/** @import { Choices, Glossary, GlossaryTerm, Page, Translation } from "../types.js" */

/** The value for typed terms; ids of glossaries are UUIDs. */
const TYPED = "typed";
const MAX_TERMS = 100;

const OUTCOMES = {
  used: t("glossary-choice.usedByTheModel"),
  replaced: t("glossary-choice.replacedAnotherWord"),
  missing: t("glossary-choice.notUsed"),
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
  outcome = h("ul", { class: "terms-outcome", "aria-label": t("glossary-choice.glossaryTerms"), hidden: true });

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
        h("caption", { class: "unseen" }, t("glossary-choice.termsAndHowToTranslate")),
        h(
          "thead",
          {},
          h(
            "tr",
            {},
            h("th", { scope: "col" }, t("glossary-choice.term")),
            h("th", { scope: "col" }, t("glossary-choice.translation")),
            h("td"),
          ),
        ),
        this.#rows,
      ),
      h(
        "button",
        { type: "button", class: "quiet", onclick: () => this.#addRow().focus() },
        t("glossary-choice.addATerm"),
      ),
    );
    this.element = h(
      "div",
      { class: "option" },
      h("label", {}, h("span", {}, t("glossary-choice.glossary")), this.#select),
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
      fill(this.#problem, t("glossary-choice.storedGlossaries", { message: error.message }));
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
      this.#announce(t("glossary-choice.otherLanguages", { name: chosen.name }));
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
      ...absent.map((term) => outcomeItem(term.source, null, t("glossary-choice.notInTheText"))),
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
      h("option", { value: "" }, t("glossary-choice.none")),
      h("option", { value: TYPED }, t("glossary-choice.termsTypedHere")),
      ...fitting.map((item) =>
        h(
          "option",
          { value: item.glossary_id },
          t(item.entry_count === 1 ? "glossary-choice.oneTerm" : "glossary-choice.terms", {
            name: item.name,
            count: item.entry_count,
          }),
        ),
      ),
    );
    this.#select.value = this.#isTyped ? TYPED : glossary;
  }

  #addRow() {
    const changed = this.#changed;
    const source = h("input", {
      "aria-label": t("glossary-choice.term"),
      dir: "auto",
      maxlength: 200,
      oninput: changed,
    });
    const target = h("input", {
      "aria-label": t("glossary-choice.itsTranslation"),
      dir: "auto",
      maxlength: 200,
      oninput: changed,
    });
    const remove = h(
      "button",
      { type: "button", class: "quiet", "aria-label": t("glossary-choice.removeTheTerm") },
      "✕",
    );
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
