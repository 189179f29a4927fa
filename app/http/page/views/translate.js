/**
 * The view "translate": a text and its translation, the options, and files.
 */

import { translateOne } from "../api.js";
import { Characters } from "../characters.js";
import { h } from "../element.js";
import { fragmentFor } from "../fragment.js";
import { languageName } from "../languages.js";
import { beamSize, optionFields } from "../option-fields.js";
import { SURE } from "./detected-language.js";
import { Documents } from "./documents.js";
import { GlossaryChoice } from "./glossary-choice.js";
import { LanguageBar } from "./language-bar.js";
import { announcementOf, LinkedTexts } from "./linked-texts.js";
import { LiveTranslation } from "./live-translation.js";
import { Options } from "./options.js";
import { OutputPane } from "./output-pane.js";
import { SourcePane } from "./source-pane.js";
import { t } from "../texts.js";

/** @import { Choices, Page, Translation, View } from "../types.js" */
/** @import { Corrections } from "./corrections.js" */
/** @import { Fields, Listener } from "./live-translation.js" */

/** Maximum characters of a text whose words are linked: a longer text would keep the service busy. */
const MAX_LINKED_CHARACTERS = 5000;

/** @type {(keyof Choices)[]} Choices that change the translation. */
const INPUTS = ["source", "target", "text", "decoding", "beamSize", "formality", "glossary"];

/**
 * The view, made once.
 *
 * @param {Page} page
 * @param {typeof Corrections} [kind] Undefined if the service keeps no corrections.
 * @returns {View}
 */
export function translateView(page, kind) {
  const view = new TranslateView(page, kind);
  return { element: view.element, show: () => view.show(), hide: () => view.hide() };
}

class TranslateView {
  #page;
  #languageBar;
  #sourcePane;
  #outputPane;
  #linkedTexts;
  #live;
  #glossary;
  #options;
  #documents;
  /** @type {Corrections | undefined} */
  #corrections;
  /** @type {Translation | null} The translation of the text, once it is complete. */
  #translation = null;
  /** The shown text: the translation, or its first sentences. */
  #shownText = "";

  /**
   * @param {Page} page
   * @param {typeof Corrections} [kind]
   */
  constructor(page, kind) {
    const { store, announce } = page;
    this.#page = page;
    this.#live = new LiveTranslation(
      () => this.#fields(),
      () => this.#details(),
      this.#listener(),
    );
    this.#languageBar = new LanguageBar(page, () => this.#swap());
    this.#glossary = new GlossaryChoice(page, () => this.#changed());
    this.#options = new Options(page, this.#glossary);
    this.#documents = new Documents({
      fields: (target) => this.#translationOptions(target),
      targetIsChosen: () => this.#languageBar.targetIsChosen,
      languages: page.languages,
      announce,
    });
    this.#corrections = kind && new kind(() => void this.#live.start(), announce);
    this.#sourcePane = new SourcePane(page, {
      translateNow: () => this.#live.start(),
      translateAsFile: (text) => this.#documents.add([new File([text], "text.txt")]),
    });
    this.#linkedTexts = new LinkedTexts({
      source: this.#sourcePane.textarea,
      request: (fields, signal) => this.#request(fields, signal),
      onSteered: ({ translation, source, pairs }) => {
        this.#setTranslation(translation);
        this.#corrections?.showPairs(translation, source.text, pairs);
      },
      announce,
      limits: () => this.#model?.limits,
      estimatesRight: () => this.#model?.card?.confidence?.estimates === "right",
    });
    this.#outputPane = new OutputPane(this.#linkedTexts.element, {
      text: () => this.#shownText,
      link: () => new URL(fragmentFor("translate", store.get()), location.href).href,
      retry: () => this.#live.start(),
      chooseSentence: () => store.set({ sentence: this.#sentenceAtCaret() }),
      announce,
    });
    this.element = this.#arranged();
    store.subscribe((_choices, changed) => {
      this.#update();
      if (INPUTS.some((name) => changed.has(name))) this.#changed();
    });
    addEventListener("verso:key-given", () => {
      this.#glossary.load();
      this.#changed();
    });
    this.#update();
    this.#documents.restore();
    // A shared link or a reload: the user is not typing.
    if (store.get().text) this.#live.start();
  }

  show() {
    this.#update();
    this.#glossary.load();
    this.#documents.resume();
  }

  hide() {
    this.#documents.pause();
  }

  #arranged() {
    const element = h(
      "section",
      { class: "translate", "aria-labelledby": "translate-title" },
      h("h1", { id: "translate-title", class: "unseen" }, t("main.translate")),
      h(
        "div",
        { class: "card translator" },
        this.#languageBar.element,
        h("div", { class: "panes" }, this.#sourcePane.element, this.#outputPane.element),
      ),
      this.#glossary.outcome,
      this.#corrections?.element,
      this.#linkedTexts.details,
      this.#options.element,
      this.#documents.element,
    );
    this.#documents.acceptDrops(element);
    return element;
  }

  /** Shows the choices. */
  #update() {
    const { store } = this.#page;
    // Either may replace a choice that conflicts with others.
    this.#languageBar.update(store.get());
    this.#glossary.update(store.get());
    const choices = store.get();
    this.#sourcePane.update(choices);
    this.#options.update(choices);
    this.#outputPane.language = choices.target;
    this.#documents.update();
  }

  /** The shown text is no longer the translation of the text. */
  #changed() {
    this.#options.update(this.#page.store.get());
    this.#translation = null;
    this.#outputPane.clearNotice();
    this.#outputPane.isStale = true;
    this.#linkedTexts.outdate();
    this.#live.change();
    if (!this.#page.store.get().text.trim()) this.#showNothing();
  }

  /** Nothing of an earlier translation stays. */
  #showNothing() {
    this.#translation = null;
    this.#shownText = "";
    this.#linkedTexts.clear();
    this.#corrections?.clear();
    this.#outputPane.hasTranslation = false;
    this.#sourcePane.showDetected(null);
    this.#glossary.showOutcome(null);
  }

  /** @returns {Listener} */
  #listener() {
    return {
      started: () => {
        this.#outputPane.clearNotice();
        this.#outputPane.isBusy = true;
      },
      partial: (text) => {
        // A text in the target language comes back unchanged.
        if (!this.#page.store.get().text.startsWith(text)) this.#showText(text);
      },
      translated: (translation) => {
        if (this.#followsDetected(translation)) return;
        this.#showText(translation.text);
        this.#setTranslation(translation);
        this.#sourcePane.showDetected(translation.detected);
        this.#page.announce(announcementOf(translation.text, t("translate.translated")));
        if (isInTarget(translation)) {
          this.#corrections?.clear();
          this.#proposeTarget(translation);
        } else {
          this.#corrections?.show(translation, this.#page.store.get().text, this.#live.sentences);
          this.#doubtSource(translation);
        }
      },
      detailed: (translation) => {
        this.#setTranslation(translation);
        this.#linkedTexts.show(translation, this.#page.store.get().text, this.#live.sentences);
      },
      failed: (problem) => {
        // What is there may be the first sentences of this text.
        if (this.#outputPane.isStale) this.#showNothing();
        this.#outputPane.showProblem(problem);
      },
      stopped: () => {
        this.#outputPane.isBusy = false;
      },
    };
  }

  /** @param {string} text The translation, or its first sentences. */
  #showText(text) {
    this.#shownText = text;
    this.#outputPane.isStale = false;
    this.#outputPane.hasTranslation = true;
    this.#linkedTexts.showPartial(text);
  }

  /** @param {Translation} translation */
  #setTranslation(translation) {
    this.#translation = translation;
    this.#shownText = translation.text;
    this.#glossary.showOutcome(translation, this.#page.store.get().text);
  }

  /**
   * Changes the target language if the text is in it and the user has not chosen it.
   *
   * @param {Translation} translation
   */
  #followsDetected(translation) {
    const target = this.#page.languages.targets(translation.target)[0];
    if (!isInTarget(translation) || this.#languageBar.targetIsChosen || !target) return false;
    this.#page.store.set({ target });
    return true;
  }

  /** @param {Translation} translation Of a text that is in the target language. */
  #proposeTarget({ target: language, detected }) {
    const isSure = (detected?.confidence ?? 1) >= SURE;
    const { store, languages } = this.#page;
    const target = languages.targets(language)[0];
    if (!target) return;
    this.#outputPane.showNotice(
      t(isSure ? "translate.alreadyIn" : "translate.mayBeIn", { language: languageName(language) }),
      t("translate.translateInto", { target: languageName(target) }),
      () => store.set({ target }),
    );
  }

  /**
   * Names the language that the text looks like if another was stated, and offers it if a model translates it.
   *
   * @param {Translation} translation
   */
  #doubtSource({ detected }) {
    const { store, languages } = this.#page;
    const { source, target } = store.get();
    if (!detected || source === "auto") return;
    const { language } = detected;
    const name = languageName(language);
    const targets = languages.targets(language);
    const turned = [target, source].find((code) => targets.includes(code)) ?? targets[0];
    if (!languages.sources.includes(language) || !turned) {
      this.#outputPane.showNotice(t("translate.notTranslated", { language: name }));
      return;
    }
    this.#outputPane.showNotice(
      t("translate.looksLike", { language: name }),
      t("translate.switchTo", { language: name }),
      () => store.set({ source: language, target: turned }),
    );
  }

  /**
   * The options for texts and files, as fields of a request.
   *
   * @param {string} [target] Another language than the chosen one.
   */
  #translationOptions(target = this.#page.store.get().target) {
    const choices = { ...this.#page.store.get(), target };
    return {
      source: choices.source,
      target,
      ...optionFields(choices, this.#page.languages),
      ...this.#glossary.fields(),
      ...this.#corrections?.fields,
    };
  }

  /** The model that translates. */
  get #model() {
    const { store, languages } = this.#page;
    return languages.model(store.get().source, store.get().target);
  }

  /** @returns {Fields | null} */
  #fields() {
    const { text } = this.#page.store.get();
    return text.trim() && !this.#sourcePane.isTooLong ? { text, ...this.#translationOptions() } : null;
  }

  /** @returns {Fields | null} */
  #details() {
    const isLong = new Characters(this.#page.store.get().text).length > MAX_LINKED_CHARACTERS;
    return isLong || !this.#translation?.model ? null : this.#servedFields(LinkedTexts.fields);
  }

  /** @param {Fields} fields The fields, with at most as many hypotheses as the search keeps. */
  #servedFields(fields) {
    const { store, languages } = this.#page;
    const most = Math.min(beamSize(store.get(), languages), this.#model?.limits.max_hypotheses ?? 1);
    return "num_hypotheses" in fields
      ? { ...fields, num_hypotheses: Math.min(Number(fields.num_hypotheses), most) }
      : fields;
  }

  /**
   * @param {Fields} fields
   * @param {AbortSignal} signal
   */
  #request(fields, signal) {
    const { text } = this.#page.store.get();
    return translateOne({ text, ...this.#translationOptions(), ...this.#servedFields(fields) }, signal);
  }

  #swap() {
    const { store, languages } = this.#page;
    const { source, target, text } = store.get();
    const from = source === "auto" ? this.#translation?.detected?.language : source;
    const targets = languages.targets(target);
    store.set({
      source: target,
      target: from && targets.includes(from) ? from : (targets[0] ?? ""),
      text: this.#translation?.text ?? text,
    });
  }

  /** The sentence for the other views; empty, which means the first one, if nothing is translated yet. */
  #sentenceAtCaret() {
    const { caret } = this.#sourcePane;
    const { sentences } = this.#live;
    const sentence = sentences.find(({ source: [start, end] }) => start <= caret && caret <= end) ?? sentences[0];
    return sentence ? new Characters(this.#page.store.get().text).slice(...sentence.source) : "";
  }
}

/**
 * Whether a text was not translated because it is in the target language.
 *
 * @param {Translation} translation
 */
function isInTarget({ model, detected, memory }) {
  return !model && detected !== null && !memory?.length;
}
