/**
 * A file: what will be done with it, upload, progress and download.
 */

import { addDocument, deleteDocument, documentResult, isAbort, Problem, readDocument } from "../api.js";
import { download, fill, h } from "../element.js";
import { languageName } from "../languages.js";
import { t } from "../texts.js";
import { isUnchanged, statusOf } from "./document-status.js";

/** @import { Document } from "../types.js" */
/** @import { Fields } from "./live-translation.js" */

const FIRST_WAIT_MS = 300;
const LONGEST_WAIT_MS = 4000;
const GROWTH = 1.4;

/**
 * How a file is translated.
 *
 * @typedef {object} Plan
 * @property {Fields} fields
 * @property {string} [detected] The language of the file, if none was stated.
 * @property {string} [doubted] The language that it looks like, if another was stated.
 */

/** @typedef {{ id: string, name: string, source: string, target: string }} Kept  What a reload needs of a file. */

/**
 * @typedef {object} Listener
 * @property {(message: string) => void} announce
 * @property {() => void} changed What is kept for a reload is no longer the same.
 * @property {() => void} removed
 * @property {(target: string) => string | undefined} other Another language that a file in this one is translated into.
 * @property {(target: string) => Fields} fieldsFor
 */

/** A file in the list. */
export class DocumentEntry {
  #name;
  #listener;
  /** @type {File | null} Null after a reload: the service has it, the page has not. */
  #file = null;
  /** @type {Document | null} The document in the service; null until it is accepted. */
  #document = null;
  /** What is written before and behind the arrow. */
  #pair = { source: "auto", target: "" };
  #isSending = false;
  #isPaused = false;
  #sending = new AbortController();
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #timer;
  #wait_ms = FIRST_WAIT_MS;
  #languages = h("span", { class: "document-pair" });
  #doubt = h("span", { role: "status" });
  #progress = h("progress", { max: 1 });
  #status = h("span", { class: "muted" });
  #problem = h("p", { class: "error", role: "alert", hidden: true });
  #other;
  #cancel;
  #download;
  #edit;
  #remove;

  /**
   * @param {string} name Of the file.
   * @param {Listener} listener
   */
  constructor(name, listener) {
    this.#name = name;
    this.#listener = listener;
    this.#other = this.#button("", () => this.#translateOther());
    this.#cancel = this.#button(t("document-entry.cancel"), () => this.#stop());
    this.#download = this.#button(t("document-entry.download"), () => this.#save());
    this.#edit = this.#button(t("edit.title"), () => {
      location.hash = `#/edit/${this.#document?.id}`;
    });
    this.#remove = this.#button(t("document-entry.remove"), () => this.#delete());
    this.#progress.setAttribute("aria-label", t("document-entry.progressOf", { name }));
    this.element = h(
      "li",
      { class: "document" },
      h("b", { class: "file-name", dir: "auto" }, name),
      this.#languages,
      this.#doubt,
      this.#progress,
      this.#status,
      h("span", { class: "row" }, this.#other, this.#cancel, this.#download, this.#edit, this.#remove),
      this.#problem,
    );
    this.#show();
  }

  /**
   * Uploads the file.
   *
   * @param {File} file
   * @param {Promise<Plan>} planned How to translate it.
   */
  async send(file, planned) {
    this.#file = file;
    this.#document = null;
    this.#isSending = true;
    this.#sending = new AbortController();
    const { signal } = this.#sending;
    this.#show();
    await this.#try(async () => {
      const { fields, detected, doubted } = await planned;
      signal.throwIfAborted();
      this.#pair = { source: detected ?? String(fields.source), target: String(fields.target) };
      fill(this.#doubt, doubted && t("document-entry.looksLike", { language: languageName(doubted) }));
      this.#show();
      this.#set(await addDocument(file, fields, signal));
    });
    if (signal.aborted) return;
    this.#isSending = false;
    this.#show();
    this.#listener.changed();
    this.#wait();
  }

  /** Shows a file again that was sent before a reload. @param {Kept} kept */
  async restore({ id, source, target }) {
    this.#pair = { source, target };
    try {
      this.#set(await readDocument(id));
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      // Expired, or removed elsewhere.
      if (error.status === 404) this.#listener.removed();
      else this.refuse(error.message);
    }
    this.#wait();
  }

  /** What a reload needs; null if the service has no file. @returns {Kept | null} */
  get kept() {
    return this.#document && { id: this.#document.id, name: this.#name, ...this.#pair };
  }

  /** @param {string} message Why the file is not sent. */
  refuse(message) {
    fill(this.#problem, message);
    this.#problem.hidden = false;
    this.#show();
  }

  /** Stops polling. */
  pause() {
    this.#isPaused = true;
    clearTimeout(this.#timer);
  }

  /** Resumes polling. */
  resume() {
    this.#isPaused = false;
    this.#wait_ms = FIRST_WAIT_MS;
    this.#wait();
  }

  get #isActive() {
    return this.#document?.status === "queued" || this.#document?.status === "running";
  }

  #wait() {
    clearTimeout(this.#timer);
    if (!this.#isActive || this.#isPaused) return;
    this.#timer = setTimeout(() => this.#read(), this.#wait_ms);
    this.#wait_ms = Math.min(this.#wait_ms * GROWTH, LONGEST_WAIT_MS);
  }

  async #read() {
    const { id } = /** @type {Document} */ (this.#document);
    await this.#try(async () => this.#set(await readDocument(id)));
    this.#wait();
  }

  async #stop() {
    const document = this.#document;
    if (document) {
      await this.#try(async () => {
        await deleteDocument(document.id);
        this.#set(await readDocument(document.id));
      });
    } else {
      this.#sending.abort();
      this.#listener.removed();
    }
  }

  async #save() {
    const { id, status } = /** @type {Document} */ (this.#document);
    await this.#try(async () => {
      await downloadResult(id, status !== "done", this.#name);
    });
  }

  async #delete() {
    const document = this.#document;
    if (document) await this.#try(() => deleteDocument(document.id));
    this.#listener.removed();
  }

  /** Translates a file that is already in its target language into another. */
  async #translateOther() {
    const [file, document] = [this.#file, this.#document];
    const target = this.#listener.other(this.#pair.target);
    if (!file || !target) return;
    if (document) await this.#try(() => deleteDocument(document.id));
    await this.send(file, Promise.resolve({ fields: this.#listener.fieldsFor(target), detected: this.#pair.target }));
  }

  /** @param {Document} document */
  #set(document) {
    const wasActive = this.#isActive || this.#isSending;
    this.#document = document;
    this.#show();
    const status = statusOf(document, this.#pair.target);
    if (wasActive && !this.#isActive) this.#listener.announce(`${document.filename}: ${status}.`);
    if (document.problem) this.refuse(new Problem(document.problem.status, document.problem).message);
  }

  #show() {
    const document = this.#document;
    const hadFocus = this.#cancel.matches(":focus");
    const isUnderWay = this.#isSending || this.#isActive;
    const { done, total } = document?.sentences ?? { done: 0, total: null };
    const other = document && this.#file && isUnchanged(document) && this.#listener.other(this.#pair.target);
    if (total) this.#progress.value = done / total;
    else this.#progress.removeAttribute("value");
    this.#progress.hidden = !isUnderWay;
    fill(this.#languages, this.#pair.target && pairText(this.#pair));
    fill(
      this.#status,
      document ? statusOf(document, this.#pair.target) : this.#isSending && t("document-entry.uploading"),
    );
    fill(this.#download, t(document?.status === "done" ? "document-entry.download" : "document-entry.downloadPart"));
    fill(this.#other, other && t("translate.translateInto", { target: languageName(other) }));
    this.#other.hidden = !other;
    this.#cancel.hidden = !isUnderWay;
    this.#download.hidden = !document || isUnderWay || done === 0;
    this.#edit.hidden = document?.status !== "done" || !total || isUnchanged(document);
    this.#remove.hidden = isUnderWay;
    if (hadFocus && !isUnderWay) this.#remove.focus();
  }

  /**
   * @param {string} label
   * @param {() => void} action
   */
  #button(label, action) {
    return h("button", { type: "button", onclick: action }, label);
  }

  /**
   * Runs an action, and shows the problem if the service refuses it.
   *
   * @param {() => Promise<unknown>} action
   */
  async #try(action) {
    try {
      this.#problem.hidden = true;
      await action();
    } catch (error) {
      if (isAbort(error)) return;
      if (!(error instanceof Problem)) throw error;
      // Deleted by another page, or expired.
      if (error.status === 404) this.#document = null;
      this.refuse(error.message);
    }
  }
}

/**
 * What is done with a file: "English → German".
 *
 * @param {{ source: string, target: string }} pair
 */
export function pairText({ source, target }) {
  const from = source === "auto" ? t("attention-form.detectLanguage") : languageName(source);
  return `${from} → ${languageName(target)}`;
}

/**
 * Saves the translated file of a document.
 *
 * @param {string} id Of the document.
 * @param {boolean} isPartial Whether it may be translated in part.
 * @param {string} name Its name, if the service gives none.
 */
export async function downloadResult(id, isPartial, name) {
  const response = await documentResult(id, isPartial);
  download(await response.blob(), nameOf(response) ?? name);
}

/**
 * The file name in a response to the request for a translated file.
 *
 * @param {Response} response
 */
function nameOf(response) {
  const name = /filename\*=UTF-8''([^;]+)/.exec(response.headers.get("Content-Disposition") ?? "")?.[1];
  return name && decodeURIComponent(name);
}
