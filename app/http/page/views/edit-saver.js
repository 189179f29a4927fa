/**
 * Saves edited sentences: a moment after the last key, several at once, again if the service was not reached.
 */

import { changeSentences, Problem } from "../api.js";

/** @import { ChangedSentences } from "../types.js" */
/** @import { EditRow } from "./edit-row.js" */

const WAIT_MS = 800;
const RETRY_MS = 5000;
/** Sentences of one request. */
const MOST = 50;

/** @typedef {"saved" | "waiting" | "saving" | "failed"} SaveState */

/**
 * @typedef {object} SaveListener
 * @property {(state: SaveState, message: string) => void} stateChanged
 * @property {(changed: ChangedSentences) => void} saved
 */

/** Saves the rows of a document. */
export class EditSaver {
  #id;
  #listener;
  /** @type {Set<EditRow>} */
  #rows = new Set();
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #timer;
  /** @type {Promise<void> | null} */
  #saving = null;

  /**
   * @param {string} id Of the document.
   * @param {SaveListener} listener
   */
  constructor(id, listener) {
    this.#id = id;
    this.#listener = listener;
  }

  /**
   * Saves a row soon.
   *
   * @param {EditRow} row
   * @param {boolean} isUrgent Whether nothing else will be typed into it now.
   */
  add(row, isUrgent) {
    if (!row.change) {
      if (!row.isUnsaved) this.#rows.delete(row);
      return;
    }
    this.#rows.add(row);
    this.#listener.stateChanged("waiting", "");
    this.#later(isUrgent ? 0 : WAIT_MS);
  }

  /** Whether everything that can be saved is saved. */
  get isSaved() {
    return !this.#saving && !this.#hasChanges;
  }

  get #hasChanges() {
    return [...this.#rows].some((row) => row.change);
  }

  /** Saves all rows now. */
  async flush() {
    clearTimeout(this.#timer);
    await this.#saving;
    while (this.#hasChanges) {
      this.#saving = this.#save();
      const before = this.#rows.size;
      await this.#saving;
      if (this.#rows.size === before) return;
    }
  }

  /** @param {number} wait_ms */
  #later(wait_ms) {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void this.flush(), wait_ms);
  }

  async #save() {
    const rows = [...this.#rows].filter((row) => row.change).slice(0, MOST);
    const changes = rows.flatMap((row) => row.change ?? []);
    this.#listener.stateChanged("saving", "");
    try {
      const changed = await changeSentences(this.#id, changes);
      changed.sentences.forEach((sentence, index) => rows[index]?.saved(sentence));
      for (const row of rows) if (!row.change) this.#rows.delete(row);
      this.#saving = null;
      this.#listener.saved(changed);
      this.#listener.stateChanged(this.isSaved ? "saved" : "waiting", "");
    } catch (error) {
      this.#saving = null;
      if (!(error instanceof Problem)) throw error;
      this.#failed(error, rows);
    }
  }

  /**
   * @param {Problem} problem
   * @param {EditRow[]} rows Of the request.
   */
  #failed(problem, rows) {
    const refused = problem.errors.flatMap(({ field, message }) => {
      const row = rows[Number(/^sentences\[(\d+)\]/.exec(field)?.[1])];
      return row ? [{ row, message }] : [];
    });
    for (const { row, message } of refused) {
      row.refuse(message);
      this.#rows.delete(row);
    }
    if (refused.length) {
      this.#listener.stateChanged(this.isSaved ? "saved" : "waiting", "");
      if (!this.isSaved) this.#later(0);
      return;
    }
    this.#listener.stateChanged("failed", problem.message);
    // The service restarts, or the network is away: other problems need the user.
    if (problem.status === 0 || problem.status >= 500 || problem.status === 429) this.#later(RETRY_MS);
  }
}
