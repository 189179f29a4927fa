/**
 * Files to translate, chosen or dropped, and the list of their translations.
 */

import { h } from "../element.js";
import { DocumentEntry } from "./document-entry.js";
import { t } from "../texts.js";

/** @import { Fields } from "./live-translation.js" */

/** Endings of supported files. */
const ENDINGS = [
  "txt md markdown mdx rst html xhtml srt vtt csv tsv docx dotx odt ott pptx epub po pot xliff xlf",
  "json arb yaml yml properties strings stringsdict xcstrings ts xml resx php",
].flatMap((line) => line.split(" "));

/** The files of this page. */
export class Documents {
  #fields;
  #announce;
  /** @type {Set<DocumentEntry>} */
  #entries = new Set();
  #list = h("ul", { class: "documents", "aria-label": t("documents.files"), hidden: true });
  #input;
  #isPaused = false;

  /**
   * @param {() => Fields} fields How to translate, as the fields of the form.
   * @param {(message: string) => void} announce
   */
  constructor(fields, announce) {
    this.#fields = fields;
    this.#announce = announce;
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
      h(
        "p",
        { class: "muted" },
        t("documents.layoutAndFormattingArePreserved", { endings: ENDINGS.map((ending) => `.${ending}`).join(" ") }),
      ),
      this.#list,
    );
  }

  /** @param {File[]} files Files to translate with the current options. */
  add(files) {
    for (const file of files) {
      /** @type {DocumentEntry} */
      const entry = new DocumentEntry(file, {
        announce: this.#announce,
        removed: () => this.#remove(entry),
      });
      this.#entries.add(entry);
      this.#list.prepend(entry.element);
      const ending = file.name.split(".").pop()?.toLowerCase() ?? "";
      if (ENDINGS.includes(ending)) entry.send(this.#fields());
      else entry.refuse(t("documents.notSupported", { endings: ENDINGS.join(", ") }));
    }
    this.#list.hidden = !this.#entries.size;
    if (files.length) this.#list.scrollIntoView({ block: "nearest" });
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
    this.element.querySelector("button")?.focus();
  }
}

/** @param {DragEvent} event Whether it has files; the browser handles dragged text. */
function hasFiles(event) {
  return event.dataTransfer?.types.includes(t("documents.files")) ?? false;
}
