/**
 * Files to translate, chosen or dropped, and the list of their translations.
 */

import { fill, h } from "../element.js";
import { languageName } from "../languages.js";
import { DocumentEntry, pairText } from "./document-entry.js";
import { endingOf, sampleOf } from "./document-sample.js";
import { languageOf, SURE } from "./detected-language.js";
import { t } from "../texts.js";

/** @import { Fields } from "./live-translation.js" */
/** @import { Kept, Plan } from "./document-entry.js" */
/** @import { Languages } from "../languages.js" */

/** Endings of supported files. */
const ENDINGS = [
  "txt md markdown mdx rst html xhtml srt vtt csv tsv docx dotx odt ott pptx xlsx ods odp pdf epub po pot xliff xlf",
  "json arb yaml yml properties strings stringsdict xcstrings ts xml resx php",
].flatMap((line) => line.split(" "));

const KEPT = "verso.documents";

/**
 * What the list needs of the view.
 *
 * @typedef {object} Context
 * @property {(target?: string) => Fields} fields How to translate, as the fields of the form; into the chosen language,
 *   or into another.
 * @property {() => boolean} targetIsChosen Whether the user has chosen the language to translate into.
 * @property {Languages} languages
 * @property {(message: string) => void} announce
 */

/** The files of this page. */
export class Documents {
  #context;
  /** @type {Set<DocumentEntry>} */
  #entries = new Set();
  #list = h("ul", { class: "documents", "aria-label": t("documents.files"), hidden: true });
  #input;
  #plan = h("p", {});
  #isPaused = false;

  /**
   * @param {Context} context
   */
  constructor(context) {
    this.#context = context;
    this.#input = h("input", {
      type: "file",
      class: "unseen",
      tabindex: -1,
      multiple: true,
      accept: ENDINGS.map((ending) => `.${ending}`).join(),
      "aria-label": t("documents.filesToTranslate"),
      onchange: () => {
        this.add([...(this.#input.files ?? [])]);
        // The same file can be chosen again.
        this.#input.value = "";
      },
    });
    this.element = h(
      "section",
      { class: "card files", "aria-labelledby": "files-title" },
      h("h2", { id: "files-title" }, t("documents.files")),
      h(
        "div",
        { class: "row" },
        h("button", { type: "button", onclick: () => this.#input.click() }, t("documents.chooseFiles")),
        this.#input,
        h("span", {}, t("documents.orDropThemAnywhereOn")),
      ),
      this.#plan,
      h(
        "p",
        { class: "muted" },
        t("documents.layoutAndFormattingArePreserved", { endings: ENDINGS.map((ending) => `.${ending}`).join(" ") }),
      ),
      this.#list,
    );
  }

  /** Says what will be done with files. */
  update() {
    const { source, target } = this.#context.fields();
    const pair = { source: String(source), target: String(target) };
    const other = this.#follows ? this.#other(pair.target) : undefined;
    fill(
      this.#plan,
      t("documents.plan", { pair: pairText(pair) }),
      other && " ",
      other && t("documents.follows", { target: languageName(pair.target), other: languageName(other) }),
    );
  }

  /** @param {File[]} files Files to translate with the current options. */
  add(files) {
    for (const file of files) {
      const entry = this.#append(file.name);
      if (ENDINGS.includes(endingOf(file.name))) void entry.send(file, this.#planned(file));
      else entry.refuse(t("documents.notSupported", { endings: ENDINGS.join(", ") }));
    }
    if (files.length) this.#list.scrollIntoView({ block: "nearest" });
  }

  /** Lists the files again that this tab had before the page was loaded. */
  restore() {
    for (const kept of keptFiles().toReversed()) void this.#append(kept.name).restore(kept);
  }

  /** Whether the language to translate into follows that of the file, as it does for a typed text. */
  get #follows() {
    return this.#context.fields().source === "auto" && !this.#context.targetIsChosen();
  }

  /** @param {string} target */
  #other(target) {
    return this.#context.languages.targets(target)[0];
  }

  /**
   * How a file is translated.
   *
   * @param {File} file
   * @returns {Promise<Plan>}
   */
  async #planned(file) {
    const { fields } = this.#context;
    const [own, follows] = [fields(), this.#follows];
    const sample = await sampleOf(file);
    const found = sample ? await languageOf(sample) : null;
    if (!found) return { fields: own };
    const { language, confidence } = found;
    if (own.source !== "auto") {
      return { fields: own, ...(confidence >= SURE && language !== own.source && { doubted: language }) };
    }
    const other = follows && language === own.target ? this.#other(language) : undefined;
    return { fields: other ? fields(other) : own, detected: language };
  }

  /** @param {string} name Of a file. */
  #append(name) {
    /** @type {DocumentEntry} */
    const entry = new DocumentEntry(name, {
      announce: this.#context.announce,
      changed: () => this.#keep(),
      removed: () => this.#remove(entry),
      other: (target) => this.#other(target),
      fieldsFor: (target) => this.#context.fields(target),
    });
    this.#entries.add(entry);
    this.#list.prepend(entry.element);
    this.#list.hidden = false;
    return entry;
  }

  #keep() {
    const kept = [...this.#entries].flatMap((entry) => entry.kept ?? []).toReversed();
    try {
      sessionStorage.setItem(KEPT, JSON.stringify(kept));
    } catch {
      // Storage is disabled: a reload forgets the files.
    }
  }

  /** Stops polling. */
  pause() {
    this.#isPaused = true;
    for (const entry of this.#entries) entry.pause();
  }

  /** Resumes polling. */
  resume() {
    if (!this.#isPaused) return;
    this.#isPaused = false;
    for (const entry of this.#entries) entry.resume();
  }

  /**
   * Takes files that are dropped anywhere in the window: a browser would show the file instead of the page.
   *
   * @param {HTMLElement} element It has the class `dropping` while files are dragged over the window.
   */
  acceptDrops(element) {
    addEventListener("dragover", (event) => {
      if (this.#isPaused || !hasFiles(event)) return;
      event.preventDefault();
      element.classList.add("dropping");
    });
    addEventListener("dragleave", (event) => {
      if (!event.relatedTarget) element.classList.remove("dropping");
    });
    addEventListener("drop", (event) => {
      element.classList.remove("dropping");
      if (this.#isPaused || !hasFiles(event)) return;
      event.preventDefault();
      this.add([...(event.dataTransfer?.files ?? [])]);
    });
  }

  /** @param {DocumentEntry} entry */
  #remove(entry) {
    this.#entries.delete(entry);
    entry.element.remove();
    this.#list.hidden = !this.#entries.size;
    this.#keep();
    this.element.querySelector("button")?.focus();
  }
}

/** @param {DragEvent} event Whether it has files; the browser handles dragged text. */
function hasFiles(event) {
  return event.dataTransfer?.types.includes(t("documents.files")) ?? false;
}

/**
 * The files that were listed before the page was loaded, the newest first.
 *
 * @returns {Kept[]}
 */
function keptFiles() {
  try {
    const stored = JSON.parse(sessionStorage.getItem(KEPT) ?? "[]");
    return Array.isArray(stored) ? stored : [];
  } catch {
    // Storage is disabled.
    return [];
  }
}
