/**
 * A text and its translation, word by word: links, the model's confidence in each word, and alternatives.
 */

import { isAbort, Problem } from "../api.js";
import { fill, h } from "../element.js";
import { languageTag } from "../languages.js";
import { Alternatives } from "./alternatives.js";
import { wordAtStart } from "./candidates.js";
import { placeBy } from "./floating.js";
import { LinkedTranslation } from "./linked-translation.js";
import { SourceMirror } from "./source-mirror.js";
import { Steering } from "./steering.js";
import { TargetWords } from "./target-words.js";
import { factsOf } from "./translation-facts.js";
import { WordChoices } from "./word-choices.js";
import { language, t } from "../texts.js";

/** @import { Alternative, Translation } from "../types.js" */
/** @import { Link } from "./links.js" */
/** @import { TranslatedSentence } from "./sentences.js" */
/** @import { Ask, Limits } from "./steering.js" */

const TIP = "word-tip";
const MAX_ANNOUNCED_CHARACTERS = 300;

/** The words of both sides, linked. */
export class LinkedTexts {
  /** Fields that the request needs; `num_hypotheses` is at most `beam_size`, and 1 for greedy decoding. */
  static fields = { return_alignment: true, return_confidence: true, return_scores: true, num_hypotheses: 4 };

  #source;
  #steering;
  #onSteered;
  #announce;
  #estimatesRight;
  #mirror;
  #tip = h("div", { class: "word-tip", id: TIP, lang: language, dir: "ltr", role: "tooltip", hidden: true });
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
    t("linked-texts.thisIsNotTheModel"),
    h("button", { type: "button", onclick: () => this.#goBack() }, t("linked-texts.backToTheModelS")),
  );
  /** The content of the pane of the translation. */
  element = h("div", { class: "linked-texts" }, this.#words.element);
  /** The content below both panes. */
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
  /** @type {LinkedTranslation | undefined} The model's own translation. */
  #own;
  /** The word of the translation whose box was opened. */
  #opened = 0;
  /** The word of the source under the pointer, or -1. */
  #hovered = -1;
  #taking = new AbortController();

  /**
   * @param {object} options
   * @param {HTMLTextAreaElement} options.source A text area in the positioned element `div.source-text`.
   * @param {Ask} options.request Translates with the page's options and further fields of `POST /translate`, which
   *   replace the page's, including text and languages.
   * @param {(shown: LinkedTranslation) => void} options.onSteered Called when another translation was chosen and is shown.
   * @param {(message: string) => void} options.announce
   * @param {() => Limits | undefined} options.limits Those of the model that translates.
   * @param {() => boolean} [options.estimatesRight] Whether its confidence is the probability that the meaning is right.
   */
  constructor({ source, request, onSteered, announce, limits, estimatesRight = () => false }) {
    this.#source = source;
    this.#estimatesRight = estimatesRight;
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
   * Shows a partial translation.
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
   * @param {TranslatedSentence[]} [sentences] Sentences of the streamed answer; without them the text is one sentence.
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
    this.#words.show(target, (word) => shown.levelOf(word)?.name ?? "", shown.sentences);
    // The user may continue to type while a text is translated.
    if (this.#isCurrent) {
      this.#mirror.show(source);
      this.#mirror.mark(
        "uncovered",
        [...shown.uncovered].map((word) => ({ word })),
      );
      this.#lookAtCaret();
    }
    this.#undo.hidden = !isSteered;
    fill(
      this.#facts,
      ...factsOf(translation, source.text, {
        isPart: isSteered && pairs.length > 1,
        numSentences: pairs.length,
        estimatesRight: this.#estimatesRight(),
      }),
    );
    this.#alternatives.show(hypotheses, translation.text);
    this.details.hidden = false;
  }

  /** Whether the shown translation belongs to the current text. */
  get #isCurrent() {
    return this.#shown !== undefined && this.#source.value === this.#shown.source.text;
  }

  /** The shown translation belongs to another text or other options. */
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
      title: t(shown.protected.has(word) ? "linked-texts.at" : "linked-texts.insteadOf", {
        word: shown.target.string(word),
      }),
      about: shown.aboutTarget(word),
      language: shown.translation.target,
      before: place?.before ?? "",
      look: (signal) => {
        if (place) return this.#steering.considered(shown, place, signal);
        throw new Problem(0, { detail: t("linked-texts.unknownSentence") });
      },
      isCurrent: ({ text, isEnd }) => !isEnd && place !== undefined && wordAtStart(place.rest) === text.trim(),
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
    // Other tokens may give the same text.
    const shown = this.#own?.translation.text === text ? this.#own : chosen;
    this.#render(shown);
    this.#announce(announcementOf(text, t("linked-texts.theTranslationWasChanged")));
    this.#onSteered(shown);
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
 * The announcement of a translation for screen readers.
 *
 * @param {string} text The translation.
 * @param {string} instead The announcement of a long one.
 */
export function announcementOf(text, instead) {
  return text.length > MAX_ANNOUNCED_CHARACTERS ? instead : t("linked-texts.translation", { text });
}
