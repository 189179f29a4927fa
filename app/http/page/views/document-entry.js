/**
 * A file: upload, progress and download.
 */

import { addDocument, deleteDocument, documentResult, isAbort, Problem, readDocument } from "../api.js";
import { download, fill, h } from "../element.js";
import { t } from "../texts.js";

/** @import { Document } from "../types.js" */
/** @import { Fields } from "./live-translation.js" */

const FIRST_WAIT_MS = 300;
const LONGEST_WAIT_MS = 4000;
const GROWTH = 1.4;

/** A file in the list. */
export class DocumentEntry {
  #file;
  #announce;
  #removed;
  /** @type {Document | null} The document in the service; null until it is accepted. */
  #document = null;
  #isSending = false;
  #isPaused = false;
  #sending = new AbortController();
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #timer;
  #wait_ms = FIRST_WAIT_MS;
  #progress = h("progress", { max: 1 });
  #status = h("span", { class: "muted" });
  #problem = h("p", { class: "error", role: "alert", hidden: true });
  #cancel;
  #download;
  #remove;

  /**
   * @param {File} file
   * @param {{ announce: (message: string) => void, removed: () => void }} listener
   */
  constructor(file, { announce, removed }) {
    this.#file = file;
    this.#announce = announce;
    this.#removed = removed;
    this.#cancel = this.#button(t("document-entry.cancel"), () => this.#stop());
    this.#download = this.#button(t("document-entry.download"), () => this.#save());
    this.#remove = this.#button(t("document-entry.remove"), () => this.#delete());
    this.#progress.setAttribute("aria-label", t("document-entry.progressOf", { name: file.name }));
    this.element = h(
      "li",
      { class: "document" },
      h("b", { class: "file-name", dir: "auto" }, file.name),
      this.#progress,
      this.#status,
      h("span", { class: "row" }, this.#cancel, this.#download, this.#remove),
      this.#problem,
    );
    this.#show();
  }

  /**
   * Uploads the file.
   *
   * @param {Fields} fields How to translate it.
   */
  async send(fields) {
    this.#isSending = true;
    this.#show();
    await this.#try(async () => this.#set(await addDocument(this.#file, fields, this.#sending.signal)));
    this.#isSending = false;
    this.#show();
    this.#wait();
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
      this.#removed();
    }
  }

  async #save() {
    const { id, status } = /** @type {Document} */ (this.#document);
    await this.#try(async () => {
      const response = await documentResult(id, status !== "done");
      download(await response.blob(), nameOf(response) ?? this.#file.name);
    });
  }

  async #delete() {
    const document = this.#document;
    if (document) await this.#try(() => deleteDocument(document.id));
    this.#removed();
  }

  /** @param {Document} document */
  #set(document) {
    const wasActive = this.#isActive || this.#isSending;
    this.#document = document;
    this.#show();
    if (wasActive && !this.#isActive) this.#announce(`${document.filename}: ${statusOf(document)}.`);
    if (document.problem) this.refuse(document.problem.detail ?? document.problem.title);
  }

  #show() {
    const document = this.#document;
    const hadFocus = this.#cancel.matches(":focus");
    const isUnderWay = this.#isSending || this.#isActive;
    const { done, total } = document?.sentences ?? { done: 0, total: null };
    if (total) this.#progress.value = done / total;
    else this.#progress.removeAttribute("value");
    this.#progress.hidden = !isUnderWay;
    fill(this.#status, document ? statusOf(document) : this.#isSending && t("document-entry.uploading"));
    fill(
      this.#download,
      document?.status === "done" ? t("document-entry.download") : t("document-entry.downloadTranslatedPart"),
    );
    this.#cancel.hidden = !isUnderWay;
    this.#download.hidden = !document || isUnderWay || (document.status !== "done" && done === 0);
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
 * The status of a document.
 *
 * @param {Document} document
 */
function statusOf({ status, sentences: { done, total }, seconds_left: seconds, untranslated }) {
  const progress = total === null ? "" : t("document-entry.ofSentences", { done, total });
  switch (status) {
    case "queued":
      return t("document-entry.queued");
    case "running":
      return [
        progress || t("document-entry.reading"),
        seconds !== null && t("document-entry.left", { time: timeLeft(seconds) }),
      ]
        .filter(Boolean)
        .join(", ");
    case "done":
      return untranslated
        ? t("document-entry.translatedExcept", { untranslated, total })
        : t("document-entry.translated");
    case "failed":
      return [t("document-entry.failed"), progress].filter(Boolean).join(t("document-entry.after"));
    case "cancelled":
      return [t("document-entry.cancelled"), progress].filter(Boolean).join(t("document-entry.after"));
  }
}

/** @param {number} seconds */
function timeLeft(seconds) {
  return seconds < 90
    ? t("document-entry.aboutS", { seconds: Math.ceil(seconds) })
    : t("document-entry.aboutMin", { minutes: Math.round(seconds / 60) });
}

/**
 * The file name in a response.
 *
 * @param {Response} response
 */
function nameOf(response) {
  const name = /filename\*=UTF-8''([^;]+)/.exec(response.headers.get("Content-Disposition") ?? "")?.[1];
  return name && decodeURIComponent(name);
}
