/**
 * The view "edit": a translated file sentence by sentence, beside its source. The address names the document.
 */

import { Problem, readSentences } from "../api.js";
import { fill, h } from "../element.js";
import { languageName, languageTag } from "../languages.js";
import { count } from "../numbers.js";
import { language, t } from "../texts.js";
import { downloadResult, pairText } from "./document-entry.js";
import { EditRow } from "./edit-row.js";
import { EditSaver } from "./edit-saver.js";

/** @import { Page, SentenceCounts, SentencePage, View } from "../types.js" */
/** @import { SaveState } from "./edit-saver.js" */

/** Sentences that are loaded at once. */
const PAGE_SIZE = 50;

const TIME = new Intl.DateTimeFormat(language, { dateStyle: "medium", timeStyle: "short" });

/**
 * Makes the view.
 *
 * @param {Page} page
 * @returns {View}
 */
export function editView(page) {
  return new EditView(page);
}

class EditView {
  #page;
  #id = "";
  /** @type {EditSaver | null} */
  #saver = null;
  /** @type {EditRow[]} */
  #rows = [];
  /** The number after which the next page begins; null if there is none. @type {number | null} */
  #next = null;
  /** The page that is being loaded. @type {Promise<void> | null} */
  #loading = null;
  /** Distinguishes what was loaded for another document or another filter. */
  #turn = 0;
  #tags = { source: "", target: "" };
  #name = "";
  #title = h("h1", { id: "edit-title" });
  #pair = h("span", { class: "document-pair" });
  #kept = h("span", { class: "muted" });
  #bar = h("progress", { max: 1, value: 0, "aria-label": t("edit.progress") });
  #progress = h("span", { class: "edit-progress" });
  #save = h("span", { class: "edit-save", role: "status" });
  #retry;
  #filter;
  #download;
  #problem = h("p", { class: "notice error", role: "alert", hidden: true });
  #columns = h("div", { class: "edit-row edit-columns", "aria-hidden": "true" });
  #list = h("ol", { class: "edit-list", "aria-label": t("edit.sentences") });
  #empty = h("p", { class: "notice", hidden: true }, t("edit.allConfirmed"));
  #more;

  /** @param {Page} page */
  constructor(page) {
    this.#page = page;
    this.#filter = h("input", { type: "checkbox", onchange: () => void this.#open() });
    this.#download = h(
      "button",
      { type: "button", class: "primary", onclick: () => this.#saveFile() },
      t("document-entry.download"),
    );
    this.#retry = h(
      "button",
      { type: "button", hidden: true, onclick: () => this.#saver?.flush() },
      t("edit.saveAgain"),
    );
    this.#more = h("button", { type: "button", hidden: true, onclick: () => this.#load() }, t("edit.more"));
    this.element = this.#arranged();
    new IntersectionObserver(
      (entries) => {
        if (entries.some((entry) => entry.isIntersecting) && this.#problem.hidden) void this.#load();
      },
      { rootMargin: "600px" },
    ).observe(this.#more);
    addEventListener("verso:key-given", () => this.#id && this.#open());
    addEventListener("beforeunload", (event) => {
      void this.#saver?.flush();
      if (this.#rows.some((row) => row.isUnsaved)) event.preventDefault();
    });
  }

  /** @param {string} part The id of the document. */
  show(part) {
    if (part === this.#id) return;
    this.#id = part;
    this.#filter.checked = false;
    void this.#open();
  }

  hide() {
    void this.#saver?.flush();
  }

  #arranged() {
    return h(
      "section",
      { class: "edit", "aria-labelledby": "edit-title" },
      h(
        "div",
        { class: "edit-head" },
        h("a", { href: "#/translate" }, t("edit.back")),
        h("div", { class: "row" }, this.#title, this.#pair, this.#kept),
      ),
      h(
        "div",
        { class: "card edit-tools" },
        h("div", { class: "edit-done" }, this.#progress, this.#bar, this.#save, this.#retry),
        h("label", {}, this.#filter, t("edit.onlyUnconfirmed")),
        this.#download,
      ),
      h("p", { class: "muted edit-keys" }, t("edit.keys")),
      this.#page.languages.keepsCorrections && h("p", { class: "muted edit-stored" }, t("edit.stored")),
      this.#problem,
      h("div", { class: "card edit-table" }, this.#columns, this.#list),
      this.#empty,
      h("p", { class: "edit-more" }, this.#more),
    );
  }

  /** Begins with a document, or with another filter. */
  async #open() {
    const leaving = this.#saver?.flush();
    this.#turn += 1;
    const own = this.#turn;
    await leaving;
    if (own !== this.#turn) return;
    this.#saver = new EditSaver(this.#id, {
      stateChanged: (state, message) => this.#showSaving(state, message),
      saved: (changed) => this.#showCounts(changed),
    });
    this.#showSaving("saved", "");
    this.#rows = [];
    this.#next = -1;
    this.#loading = null;
    fill(this.#list);
    this.#empty.hidden = true;
    await this.#load();
    this.#page.announce(this.#progress.textContent ?? "");
  }

  /** Loads the next page, or waits for it. */
  async #load() {
    if (this.#next === null) return;
    this.#loading ??= this.#loadAfter(this.#next);
    await this.#loading;
  }

  /** @param {number} after */
  async #loadAfter(after) {
    const own = this.#turn;
    this.#list.setAttribute("aria-busy", "true");
    try {
      const loaded = await readSentences(this.#id, { after, limit: PAGE_SIZE, unconfirmed: this.#filter.checked });
      if (own === this.#turn) this.#append(loaded);
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      if (own === this.#turn) this.#fail(error);
    } finally {
      if (own === this.#turn) {
        this.#loading = null;
        this.#list.removeAttribute("aria-busy");
      }
    }
  }

  /** @param {SentencePage} loaded */
  #append(loaded) {
    this.#problem.hidden = true;
    this.#describe(loaded);
    this.#showCounts(loaded);
    this.#next = loaded.next;
    this.#more.hidden = this.#next === null;
    const rows = loaded.sentences.map((sentence) => this.#row(sentence));
    let text = this.#rows.at(-1)?.text;
    for (const row of rows) {
      row.element.classList.toggle("first-of-text", row.text !== text);
      text = row.text;
    }
    this.#rows.push(...rows);
    this.#list.append(...rows.map((row) => row.element));
    for (const row of rows) row.grow();
    this.#showEmpty();
  }

  /** @param {SentencePage["sentences"][number]} sentence */
  #row(sentence) {
    return new EditRow(sentence, {
      tags: this.#tags,
      changed: (row, isUrgent) => this.#saver?.add(row, isUrgent),
      done: (row) => void this.#moveOn(row),
    });
  }

  /** @param {SentencePage} loaded */
  #describe({ filename, source, target }) {
    if (this.#name !== filename) {
      this.#name = filename;
      fill(this.#title, h("span", { class: "unseen" }, `${t("edit.title")}: `), h("bdi", {}, filename));
    }
    this.#tags = { source: languageTag(source), target: languageTag(target) };
    fill(this.#pair, pairText({ source, target }));
    fill(this.#columns, h("span"), h("b", {}, languageName(source)), h("b", {}, languageName(target)), h("span"));
  }

  /** @param {SentenceCounts} counts */
  #showCounts({ total, confirmed, expires_at: expires }) {
    this.#bar.value = total ? confirmed / total : 0;
    fill(this.#progress, t("edit.confirmedOf", { confirmed: count(confirmed), total: count(total) }));
    fill(this.#kept, t("edit.keptUntil", { time: TIME.format(new Date(expires)) }));
  }

  /** The translation after one that was confirmed: the next unconfirmed one. @param {EditRow} row */
  async #moveOn(row) {
    const index = this.#rows.indexOf(row) + 1;
    const unconfirmed = () => this.#rows.slice(index).find((other) => !other.isConfirmed);
    while (!unconfirmed() && this.#next !== null && this.#problem.hidden) await this.#load();
    const next = unconfirmed();
    if (this.#filter.checked) row.element.hidden = true;
    if (next) next.focus();
    else {
      this.#showEmpty();
      this.#page.announce(t("edit.last"));
      this.#download.focus();
    }
  }

  #showEmpty() {
    this.#empty.hidden = !(
      this.#filter.checked &&
      this.#next === null &&
      this.#rows.every((row) => row.element.hidden)
    );
  }

  /** @param {Problem} problem */
  #fail(problem) {
    fill(this.#problem, problem.message);
    this.#problem.hidden = false;
    this.#more.hidden = problem.status === 404 || this.#next === null;
    if (!this.#name) fill(this.#title, t("edit.title"));
  }

  /**
   * @param {SaveState} state
   * @param {string} message
   */
  #showSaving(state, message) {
    const text = {
      saved: t("edit.saved"),
      waiting: t("edit.saving"),
      saving: t("edit.saving"),
      failed: t("edit.notSaved", { message }),
    }[state];
    this.#save.dataset.state = state;
    if (this.#save.textContent !== text) fill(this.#save, text);
    this.#retry.hidden = state !== "failed";
  }

  async #saveFile() {
    await this.#saver?.flush();
    try {
      this.#download.disabled = true;
      await downloadResult(this.#id, false, this.#name);
      this.#problem.hidden = true;
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      this.#fail(error);
    } finally {
      this.#download.disabled = false;
    }
  }
}
