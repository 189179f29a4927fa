/**
 * Translation while the user types: each change cancels the previous request, and a pause starts the next one.
 */

import { isAbort, Problem, translateOne, translateStream } from "../api.js";
import { Characters } from "../characters.js";

/** @import { Translation } from "../types.js" */
/** @import { TranslatedSentence } from "./sentences.js" */

const PAUSE_MS = 250;
/** Confidence and alternatives take longer than the translation; they are requested after this pause. */
const DETAILS_PAUSE_MS = 300;

/** @typedef {Record<string, unknown>} Fields  Fields of `POST /translate`. */

/**
 * Callbacks of a translation. A cancelled translation makes no further calls except `stopped`.
 *
 * @typedef {object} Listener
 * @property {() => void} started
 * @property {(text: string) => void} partial The sentences translated so far.
 * @property {(translation: Translation) => void} translated
 * @property {(translation: Translation) => void} detailed The same translation, with the requested details.
 * @property {(problem: Problem) => void} failed
 * @property {() => void} stopped The translation is done, cancelled or has failed.
 */

/** Keeps one translation up to date. */
export class LiveTranslation {
  /** @type {() => Fields | null} */
  #fields;
  /** @type {() => Fields | null} */
  #details;
  /** @type {Listener} */
  #listener;
  #controller = new AbortController();
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #timer;
  /** @type {TranslatedSentence[]} The translated sentences of the text so far. */
  sentences = [];

  /**
   * @param {() => Fields | null} fields The request; null if there is nothing to translate.
   * @param {() => Fields | null} details The further fields of the second request; null for none.
   * @param {Listener} listener
   */
  constructor(fields, details, listener) {
    this.#fields = fields;
    this.#details = details;
    this.#listener = listener;
  }

  /** Translates after a pause, because something has changed. */
  change() {
    this.cancel();
    this.sentences = [];
    this.#timer = setTimeout(() => this.#run(), PAUSE_MS);
  }

  /** Translates at once. */
  start() {
    this.change();
    clearTimeout(this.#timer);
    return this.#run();
  }

  /** Cancels the running or pending translation. */
  cancel() {
    clearTimeout(this.#timer);
    this.#controller.abort();
  }

  async #run() {
    const fields = this.#fields();
    if (!fields) return;
    this.#controller = new AbortController();
    const { signal } = this.#controller;
    signal.addEventListener("abort", () => this.#listener.stopped());
    this.#listener.started();
    try {
      await this.#stream(fields, signal);
    } catch (error) {
      if (isAbort(error)) return;
      if (!(error instanceof Problem)) throw error;
      this.#listener.failed(error);
      return;
    } finally {
      if (!signal.aborted) this.#listener.stopped();
    }
    // The last event may have changed something, such as the language, and so started another pause.
    if (signal.aborted) return;
    this.#timer = setTimeout(() => this.#readDetails(fields, signal), DETAILS_PAUSE_MS);
  }

  /**
   * @param {Fields} fields
   * @param {AbortSignal} signal
   */
  async #stream(fields, signal) {
    const source = new Characters(String(fields.text));
    let text = "";
    let end = 0;
    for await (const event of translateStream(fields, signal)) {
      if (event.event === "sentence") {
        // The text between two sentences is unchanged, as in the service.
        text += source.slice(end, event.source[0]) + event.translation;
        end = event.source[1];
        this.sentences.push({ source: event.source, translation: event.translation });
        this.#listener.partial(text);
      } else if (event.event === "translation") {
        this.#listener.translated(event.translation);
      }
    }
  }

  /**
   * @param {Fields} fields
   * @param {AbortSignal} signal
   */
  async #readDetails(fields, signal) {
    const details = this.#details();
    if (!details) return;
    try {
      this.#listener.detailed(await translateOne({ ...fields, ...details }, signal));
    } catch (error) {
      // The translation is complete; without details it is only less informative.
      if (!isAbort(error) && !(error instanceof Problem)) throw error;
    }
  }
}
