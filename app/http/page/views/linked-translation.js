/** A translation, and the data about its words. */

import { percent } from "../numbers.js";
import { linkWords } from "./links.js";
import { pairSentences } from "./sentences.js";
import { levelOf } from "./levels.js";
import { Words } from "./words.js";
import { t } from "../texts.js";

/** @import { Alternative, Translation } from "../types.js" */
/** @import { Level } from "./levels.js" */
/** @import { Link } from "./links.js" */
/** @import { SentencePair, TranslatedSentence } from "./sentences.js" */

/** @typedef {{ sentence: number, before: string, rest: string }} Place  A position in a sentence's translation. */

/** Immutable: another choice gives another instance. */
export class LinkedTranslation {
  /**
   * @param {object} parts
   * @param {Translation} parts.translation
   * @param {string} parts.sourceText
   * @param {SentencePair[]} parts.pairs Empty if unknown.
   * @param {Alternative[]} parts.hypotheses What the search found, best first.
   * @param {boolean} parts.isSteered Whether it differs from the model's own.
   */
  constructor({ translation, sourceText, pairs, hypotheses, isSteered }) {
    this.translation = translation;
    this.pairs = pairs;
    this.hypotheses = hypotheses;
    this.isSteered = isSteered;
    this.source = new Words(sourceText, translation.source);
    this.target = new Words(translation.text, translation.target);
    const { words = [], uncovered } = translation.confidence ?? {};
    const spans = translation.integrity?.spans ?? [];
    /** @type {Set<number>} Words of the translation that are protected. */
    this.protected = new Set(spans.flatMap(({ target }) => this.target.within(target)));
    const copied = spans.map(({ source: from, target }) => ({ source: from, target, weight: 1 }));
    this.links = linkWords(this.source, this.target, [...(translation.alignment ?? []), ...copied]);
    /** @type {Map<number, number>} By word of the translation. */
    this.probabilities = new Map(
      words.flatMap(({ target, probability }) => this.target.within(target).map((word) => [word, probability])),
    );
    for (const word of this.protected) this.probabilities.delete(word);
    /** @type {Set<number>} Words of the source that may have been left out. */
    this.uncovered = new Set((uncovered ?? []).flatMap((span) => this.source.within(span)));
  }

  /**
   * The model's own translation of a text.
   *
   * @param {Translation} translation
   * @param {string} sourceText
   * @param {TranslatedSentence[] | undefined} sentences
   */
  static own(translation, sourceText, sentences) {
    return new LinkedTranslation({
      translation,
      sourceText,
      pairs: pairSentences(sourceText, translation.text, sentences),
      hypotheses: hypothesesOf(translation),
      isSteered: false,
    });
  }

  /**
   * The sentences of the translation, if there are several: which one each word is in, and how unsure the model is of
   * it, by the geometric mean of its words' probabilities.
   *
   * @returns {{ ofWord: Map<number, number>, levels: (Level | undefined)[] }}
   */
  get sentences() {
    if (this.pairs.length < 2) return { ofWord: new Map(), levels: [] };
    const words = this.pairs.map(({ target }) => this.target.within(target));
    const means = words.map((own) => {
      const logs = own.flatMap((word) => Math.log(this.probabilities.get(word) ?? 1));
      return Math.exp(logs.reduce((sum, log) => sum + log, 0) / Math.max(logs.length, 1));
    });
    return {
      ofWord: new Map(words.flatMap((own, sentence) => own.map((word) => [word, sentence]))),
      levels: means.map(levelOf),
    };
  }

  /**
   * The level of uncertainty of a word of the translation; undefined if the model is sure.
   *
   * @param {number} word
   */
  levelOf(word) {
    return levelOf(this.probabilities.get(word) ?? 1);
  }

  /**
   * The description of a word of the translation.
   *
   * @param {number} word
   */
  aboutTarget(word) {
    if (this.protected.has(word)) return t("linked-translation.protectedUnchanged");
    const probability = this.probabilities.get(word);
    const level = this.levelOf(word);
    const sure =
      probability === undefined
        ? ""
        : t("linked-translation.sure", { probability: percent(probability), level: level ? `, ${level.label}` : "" });
    const links = this.links.ofTarget.get(word);
    return `${sure}${links ? t("linked-translation.from", { links: named(links, this.source) }) : t("linked-translation.noCounterpartInTheText")}`;
  }

  /**
   * The description of a word of the source.
   *
   * @param {number} word
   */
  aboutSource(word) {
    const left = this.uncovered.has(word) ? t("linked-translation.possiblyLeftOutOfThe") : "";
    const links = this.links.ofSource.get(word);
    return `${left}${links ? t("linked-translation.translatedAs", { links: named(links, this.target) }) : t("linked-translation.noCounterpartInTheTranslation")}`;
  }

  /**
   * The position of a word of the translation; undefined if its sentence is unknown.
   *
   * @param {number} word
   * @returns {Place | undefined}
   */
  placeOf(word) {
    const { text, characters } = this.target;
    const [unit] = this.target.span(word);
    const sentence = this.pairs.findIndex(({ target }) => unit < (characters.units[target[1]] ?? 0));
    const start = characters.units[this.pairs[sentence]?.target[0] ?? 0] ?? 0;
    if (sentence < 0 || unit < start) return undefined;
    const before = text.slice(start, unit).trimEnd();
    return { sentence, before: before.trimStart(), rest: text.slice(start + before.length) };
  }
}

/**
 * The hypotheses of a search, best first, without texts that occur more than once from different tokens.
 *
 * @param {Translation} translation
 * @returns {Alternative[]}
 */
export function hypothesesOf({ text, score, finish_reason, alternatives }) {
  const hypotheses = [{ text, score, finish_reason }, ...alternatives];
  return hypotheses.filter((item, index) => hypotheses.findIndex((other) => other.text === item.text) === index);
}

/** Maximum number of counterparts that are named; all are highlighted. */
const MAX_NAMED = 4;

/**
 * @param {Link[]} links
 * @param {Words} words
 */
function named(links, words) {
  const names = links
    .slice(0, MAX_NAMED)
    .map(({ word, weight }) => `${t("shared.quote", { text: words.string(word) })} (${percent(weight)})`);
  return names.join(", ") + (links.length > MAX_NAMED ? ", …" : "");
}
