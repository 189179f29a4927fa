/**
 * A text and its translation, word by word: which belong together, how sure the model is of each, and what the search
 * considered instead.
 */

import { isAbort, Problem } from "../api.js";
import { fill, h } from "../element.js";
import { languageTag } from "../languages.js";
import { Alternatives } from "./alternatives.js";
import { placeBy } from "./floating.js";
import { LinkedTranslation } from "./linked-translation.js";
import { SourceMirror } from "./source-mirror.js";
import { Steering } from "./steering.js";
import { TargetWords } from "./target-words.js";
import { factsOf } from "./translation-facts.js";
import { WordChoices } from "./word-choices.js";

/** @import { Alternative, Translation } from "../types.js" */
/** @import { Link } from "./links.js" */
/** @import { TranslatedSentence } from "./sentences.js" */
/** @import { Ask, Limits } from "./steering.js" */

const TIP = "word-tip";
const MAX_ANNOUNCED_CHARACTERS = 300;

/** The words of both sides, linked. */
export class LinkedTexts {
  /** What a translation is to be asked for with; `num_hypotheses` is at most `beam_size`, and 1 for greedy decoding. */
  static fields = { return_alignment: true, return_confidence: true, return_scores: true, num_hypotheses: 4 };

  #source;
  #steering;
  #onSteered;
  #announce;
  #mirror;
  #tip = h("div", { class: "word-tip", id: TIP, lang: "en", dir: "ltr", role: "tooltip", hidden: true });
  #words = new TargetWords({
    onLook: (word) => this.#lookAtTarget(word),
    onOpen: (word) => this.#open(word),
    describedBy: TIP,
  });
  #choices = new WordChoices(() => this.#words.focus(this.#opened));
  #facts = h("div", { class: "facts" });
  #alternatives = new Alternatives((alternative) => this.#take(alternative));
  #undo = h(
    "p",
    { class: "row", hidden: true },
    "This is not the model's own choice.",
    h("button", { type: "button", onclick: () => this.#goBack() }, "Back to the model's own"),
  );
  /** What goes into the pane of the translation. */
  element = h("div", { class: "linked-texts" }, this.#words.element);
  /** What goes below both panes. */
  details = h(
    "div",
    { class: "linked-details", hidden: true },
    this.#undo,
    this.#facts,
    this.#alternatives.element,
    this.#tip,
    this.#choices.element,
  );

  /** @type {LinkedTranslation | undefined} */
  #shown;
  /** @type {LinkedTranslation | undefined} The model's own. */
  #own;
  /** The word of the translation that the box was opened at. */
  #opened = 0;
  /** The word of the source that the pointer is at, or -1. */
  #hovered = -1;
  #taking = new AbortController();

  /**
   * @param {object} options
   * @param {HTMLTextAreaElement} options.source In an element `div.source-text`, which is positioned.
   * @param {Ask} options.request Translates as the page is set to, with further fields of `POST /translate`; these
   *   replace the page's, the text and the language included.
   * @param {(translation: Translation) => void} options.onSteered Another translation was chosen, and is shown.
   * @param {(message: string) => void} options.announce
   * @param {() => Limits | undefined} options.limits Those of the model that translates.
   */
  constructor({ source, request, onSteered, announce, limits }) {
    this.#source = source;
    this.#steering = new Steering(request, limits);
    this.#onSteered = onSteered;
    this.#announce = announce;
    this.#mirror = new SourceMirror(source);
    source.addEventListener("pointermove", (event) => {
      if (event.pointerType === "mouse" && !event.buttons) this.#hoverSource(event.clientX, event.clientY);
    });
    source.addEventListener("pointerleave", () => this.#lookAtCaret());
    source.addEventListener("blur", () => this.#lookAtCaret());
    document.addEventListener("keydown", ({ key }) => {
      if (key === "Escape") this.#hideTip();
    });
    document.addEventListener("selectionchange", () => {
      if (document.activeElement === source) this.#lookAtCaret();
    });
  }

  /**
   * Shows a translation as far as it is there.
   *
   * @param {string} text
   */
  showPartial(text) {
    this.#shown = this.#own = undefined;
    this.#taking.abort();
    this.#choices.close();
    this.#hideTip();
    this.#mirror.clear();
    this.details.hidden = true;
    this.#words.showPartial(text);
  }

  /**
   * Shows a translation.
   *
   * @param {Translation} translation
   * @param {string} sourceText The text that was translated.
   * @param {TranslatedSentence[]} [sentences] Those of the streamed answer; without them the text is one sentence.
   */
  show(translation, sourceText, sentences) {
    if (translation === this.#shown?.translation) return;
    this.#own = LinkedTranslation.own(translation, sourceText, sentences);
    this.#render(this.#own);
  }

  /** Shows nothing. */
  clear() {
    this.showPartial("");
  }

  /** @param {LinkedTranslation} shown */
  #render(shown) {
    const { translation, source, target, hypotheses, isSteered, pairs } = shown;
    this.#shown = shown;
    this.#taking.abort();
    this.#hideTip();
    this.element.lang = languageTag(translation.target);
    this.#words.show(target, (word) => shown.levelOf(word)?.name ?? "");
    // People type on while a text is translated.
    if (this.#isCurrent) {
      this.#mirror.show(source);
      this.#mirror.mark(
        "uncovered",
        [...shown.uncovered].map((word) => ({ word })),
      );
      this.#lookAtCaret();
    }
    this.#undo.hidden = !isSteered;
    fill(this.#facts, ...factsOf(translation, source.text, isSteered && pairs.length > 1));
    this.#alternatives.show(hypotheses, translation.text);
    this.details.hidden = false;
  }

  /** Whether what is shown is the translation of the text as it is now. */
  get #isCurrent() {
    return this.#shown !== undefined && this.#source.value === this.#shown.source.text;
  }

  /** What is shown belongs to another text, or was translated in another way. */
  outdate() {
    this.#hovered = -1;
    this.#taking.abort();
    this.#mirror.clear();
    this.#words.light([]);
    this.#hideTip();
    this.#choices.close();
  }

  /** @param {number} word A word of the translation, or -1. */
  #lookAtTarget(word) {
    const links = this.#shown?.links.ofTarget.get(word) ?? [];
    this.#mirror.mark("lit", strengths(links));
    this.#words.light(word < 0 ? [] : [{ word, weight: 1 }]);
    const rectangle = this.#words.elementOf(word)?.getClientRects()[0];
    if (rectangle && this.#shown) this.#showTip(this.#shown.aboutTarget(word), rectangle);
    else this.#hideTip();
  }

  /**
   * @param {number} word A word of the source, or -1.
   * @param {boolean} isHovered
   */
  #lookAtSource(word, isHovered) {
    const shown = this.#isCurrent ? this.#shown : undefined;
    this.#hovered = -1;
    this.#words.light(shown?.links.ofSource.get(word) ?? []);
    this.#mirror.mark("lit", word < 0 ? [] : [{ word }]);
    const rectangle = isHovered && this.#mirror.rectangle(word);
    if (rectangle && shown) this.#showTip(shown.aboutSource(word), rectangle);
    else this.#hideTip();
  }

  #lookAtCaret() {
    const caret = document.activeElement === this.#source ? this.#source.selectionEnd : undefined;
    this.#lookAtSource(caret === undefined ? -1 : (this.#shown?.source.at(caret) ?? -1), false);
  }

  /**
   * @param {number} x
   * @param {number} y
   */
  #hoverSource(x, y) {
    const word = this.#mirror.wordAt(x, y);
    if (word === this.#hovered) return;
    if (word < 0) this.#lookAtCaret();
    else this.#lookAtSource(word, true);
    this.#hovered = word;
  }

  /**
   * @param {string} text
   * @param {DOMRect} rectangle
   */
  #showTip(text, rectangle) {
    fill(this.#tip, text);
    this.#tip.hidden = false;
    placeBy(this.#tip, rectangle, "above");
  }

  #hideTip() {
    this.#tip.hidden = true;
  }

  /** @param {number} word */
  #open(word) {
    const shown = this.#shown;
    const anchor = this.#words.elementOf(word);
    if (!shown || !anchor) return;
    this.#opened = word;
    this.#hideTip();
    const place = shown.placeOf(word);
    void this.#choices.open(anchor, {
      title: `${shown.protected.has(word) ? "At" : "Instead of"} “${shown.target.string(word)}”`,
      about: shown.aboutTarget(word),
      language: shown.translation.target,
      before: place?.before ?? "",
      look: (signal) => {
        if (place) return this.#steering.considered(shown, place, signal);
        throw new Problem(0, { detail: "Which sentence this word is in is not known for this translation." });
      },
      isCurrent: ({ text, isEnd }) =>
        !isEnd && place !== undefined && place.rest.startsWith(place.before ? text : text.trimStart()),
      choose: async (choice, signal) => {
        if (place) this.#steer(await this.#steering.chosen(shown, place, choice, signal));
      },
    });
  }

  /** @param {Alternative} alternative One of the hypotheses. */
  async #take(alternative) {
    const shown = this.#shown;
    if (!shown || !this.#own || alternative.text === shown.translation.text) return;
    if (alternative.text === this.#own.translation.text) {
      this.#goBack();
      return;
    }
    this.#taking.abort();
    const { signal } = (this.#taking = new AbortController());
    try {
      this.#steer(await this.#steering.taken(shown, alternative, signal));
    } catch (error) {
      if (isAbort(error)) return;
      throw error;
    }
  }

  /** @param {LinkedTranslation} chosen */
  #steer(chosen) {
    const { text } = chosen.translation;
    // Other tokens may make the same text.
    const shown = this.#own?.translation.text === text ? this.#own : chosen;
    this.#render(shown);
    this.#announce(announcementOf(text, "The translation was changed."));
    this.#onSteered(shown.translation);
  }

  #goBack() {
    const hasFocus = this.#undo.contains(document.activeElement);
    if (this.#own) this.#steer(this.#own);
    // The button is gone.
    if (hasFocus) this.#words.focus(this.#opened);
  }
}

/**
 * Links as marks.
 *
 * @param {Link[]} links
 */
function strengths(links) {
  return links.map(({ word, weight }) => ({ word, strength: weight }));
}

/**
 * What a screen reader says of a translation.
 *
 * @param {string} text The translation.
 * @param {string} instead What is said of a long one.
 */
export function announcementOf(text, instead) {
  return text.length > MAX_ANNOUNCED_CHARACTERS ? instead : `Translation: ${text}`;
}
