/** Other translations than the model's own: the alternatives for a word, and the translation after a choice. */

import { Problem } from "../api.js";
import { choicesOf, extended } from "./candidates.js";
import { hypothesesOf, LinkedTranslation } from "./linked-translation.js";
import { replaceSentence } from "./sentences.js";

/** @import { Alternative, Translation } from "../types.js" */
/** @import { Choice } from "./candidates.js" */
/** @import { Place } from "./linked-translation.js" */

/** @typedef {(fields: Record<string, unknown>, signal: AbortSignal) => Promise<Translation>} Ask */
/** @typedef {{ max_beam_size: number, max_hypotheses: number }} Limits  Of the model. */

/** Beam size of the search for alternatives, and the number of requested translations. */
const WIDE_BEAM = 8;
const NUM_HYPOTHESES = 6;

/** Fields for the links and the confidence of words. */
const WORD_FIELDS = { return_alignment: true, return_confidence: true, return_scores: true };

/** Requests translations of one sentence at a time, which the service's options need. */
export class Steering {
  #ask;
  #limits;

  /**
   * @param {Ask} ask
   * @param {() => Limits | undefined} limits
   */
  constructor(ask, limits) {
    this.#ask = ask;
    this.#limits = limits;
  }

  /**
   * The alternatives at a position.
   *
   * @param {LinkedTranslation} shown
   * @param {Place} place
   * @param {AbortSignal} signal
   * @returns {Promise<Choice[]>}
   */
  async considered(shown, { sentence, before }, signal) {
    return choicesOf(await this.#translate(shown, sentence, before, { return_search: true }, signal));
  }

  /**
   * The translation that continues from a choice.
   *
   * @param {LinkedTranslation} shown
   * @param {Place} place
   * @param {Choice} choice
   * @param {AbortSignal} signal
   */
  async chosen(shown, { sentence, before }, { text }, signal) {
    const answer = await this.#translate(shown, sentence, extended(before, text), WORD_FIELDS, signal);
    const { translation, pairs } = replaceSentence(shown.translation, shown.pairs, sentence, answer);
    const hypotheses = hypothesesOf(translation);
    return new LinkedTranslation({ translation, sourceText: shown.source.text, pairs, hypotheses, isSteered: true });
  }

  /**
   * One of the hypotheses as the translation. For a single sentence the links are requested. For several
   * sentences, or if the request fails, only the words are known.
   *
   * @param {LinkedTranslation} shown
   * @param {Alternative} alternative
   * @param {AbortSignal} signal
   */
  async taken(shown, alternative, signal) {
    const common = { sourceText: shown.source.text, hypotheses: shown.hypotheses, isSteered: true };
    const linked = shown.pairs.length === 1 ? await this.#linked(shown, alternative, signal) : undefined;
    if (linked?.translation.text === alternative.text) return new LinkedTranslation({ ...linked, ...common });
    const { confidence: _confidence, integrity: _spans, glossary: _terms, memory: _uses, ...rest } = shown.translation;
    return new LinkedTranslation({ translation: { ...rest, ...alternative, alignment: null }, pairs: [], ...common });
  }

  /**
   * @param {LinkedTranslation} shown Of a single sentence.
   * @param {Alternative} alternative
   * @param {AbortSignal} signal
   */
  async #linked(shown, { text }, signal) {
    try {
      const answer = await this.#translate(shown, 0, text.trim(), WORD_FIELDS, signal);
      return replaceSentence(shown.translation, shown.pairs, 0, answer);
    } catch (error) {
      if (error instanceof Problem) return undefined;
      throw error;
    }
  }

  /**
   * @param {LinkedTranslation} shown
   * @param {number} sentence
   * @param {string} prefix
   * @param {Record<string, unknown>} fields
   * @param {AbortSignal} signal
   */
  #translate({ translation, source, pairs }, sentence, prefix, fields, signal) {
    const { max_beam_size: widest = 1, max_hypotheses: most = 1 } = this.#limits() ?? {};
    const beam = Math.min(WIDE_BEAM, widest);
    const [start, end] = pairs[sentence]?.source ?? [0, 0];
    return this.#ask(
      {
        text: source.characters.slice(start, end),
        // `zxx` is the detected language of a text without letters.
        ...(translation.source !== "zxx" && { source: translation.source }),
        target: translation.target,
        decoding: "beam",
        beam_size: beam,
        num_hypotheses: Math.min(NUM_HYPOTHESES, beam, most),
        ...(prefix && { target_prefix: prefix }),
        ...fields,
      },
      signal,
    );
  }
}
