/**
 * The sentence of the tour: the service's answers about it, each requested once.
 */

import { attention, translateOne } from "../../api.js";
import { Matrix } from "./vectors.js";
import { t } from "../../texts.js";

/** @import { Arrays, NpyArray } from "../../npz.js" */
/** @import { Kind, Model, SearchStep, Translation } from "../../types.js" */

/** @typedef {{ kind: Kind, layer: number, head: number }} Head */
/** @typedef {{ beamSize: number, lengthPenalty: number }} SearchOptions */

/**
 * Inputs and results of a head; the names are those of the service without `steps_`.
 *
 * @typedef {object} Steps
 * @property {string[]} queries Tokens that attend.
 * @property {string[]} keys Tokens that are attended to.
 * @property {(name: string) => Matrix} matrix An intermediate result.
 * @property {(name: string) => boolean} has Whether the architecture has it.
 */

/** The names of the kinds of attention. @type {Record<Kind, string>} */
export const KINDS = {
  encoder: t("tour.lesson.encoderSelfAttention"),
  decoder: t("tour.lesson.decoderSelfAttention"),
  cross: t("tour.lesson.crossAttention"),
};

/** A sentence, its languages, and the answers about them. */
export class Lesson {
  #aborted = new AbortController();
  /** @type {Map<string, Promise<any>>} */
  #answers = new Map();

  /**
   * @param {Model} model
   * @param {string} sentence
   * @param {Record<string, unknown>} fields Languages and options, as fields of requests.
   * @param {SearchOptions} options The options of the search.
   */
  constructor(model, sentence, fields, options) {
    this.model = model;
    this.sentence = sentence;
    this.options = options;
    /** @type {Record<string, unknown>} */
    this.fields = { text: sentence, ...fields };
  }

  /** Cancels all requests. */
  close() {
    this.#aborted.abort();
  }

  /** The kinds of attention that the model has: a recurrent decoder has none of its own. @returns {Kind[]} */
  get kinds() {
    return this.model.architecture.decoder === "ssru" ? ["encoder", "cross"] : ["encoder", "decoder", "cross"];
  }

  /**
   * The layers and heads that the model has of a kind.
   *
   * @param {Kind} kind
   */
  size(kind) {
    const { encoder_layers: encoder, decoder_layers: decoder, num_heads: heads } = this.model.architecture;
    if (kind === "encoder") return { layers: encoder, heads };
    return { layers: decoder, heads: Number(this.model.architecture.decoder_num_heads ?? heads) };
  }

  /**
   * The weights of all heads of a kind: (layers, heads, attending, attended).
   *
   * @param {Kind} kind
   * @returns {Promise<NpyArray>}
   */
  async weights(kind) {
    return (await this.#attention({ kinds: [kind] }))[kind];
  }

  /** The tokens: of the source, of the translation, and those that the decoder reads. */
  async tokens() {
    const arrays = await this.#attention({ layers: [0], heads: [0] });
    return {
      source: strings(arrays, "source_tokens"),
      target: strings(arrays, "target_tokens"),
      input: strings(arrays, "decoder_input_tokens"),
    };
  }

  /**
   * The computation of one head.
   *
   * @param {Head} head
   * @returns {Promise<Steps>}
   */
  async steps(head) {
    const { kind, layer, head: number } = head;
    const arrays = await this.#attention({ kinds: [kind], layers: [layer], heads: [number], steps: head });
    return {
      queries: strings(arrays, kind === "encoder" ? "source_tokens" : "decoder_input_tokens"),
      keys: strings(arrays, kind === "decoder" ? "decoder_input_tokens" : "source_tokens"),
      matrix: (name) => Matrix.of(arrays[`steps_${name}`]),
      has: (name) => `steps_${name}` in arrays,
    };
  }

  /**
   * The translation with the candidates of its search.
   *
   * @param {SearchOptions} [options]
   * @returns {Promise<{ translation: Translation, search: SearchStep[] }>}
   */
  async search(options = this.options) {
    const translation = await this.#translation({
      ...decoding(options),
      num_hypotheses: options.beamSize,
      return_scores: true,
      return_search: true,
    });
    return { translation, search: translation.search ?? [] };
  }

  /** The translation of greedy search. */
  greedy() {
    return this.#translation({ decoding: "greedy", return_scores: true });
  }

  /**
   * @param {Record<string, unknown>} fields
   * @returns {Promise<Arrays>}
   */
  #attention(fields) {
    const body = { ...this.fields, ...decoding(this.options), ...fields };
    return this.#once("attention", body, async () => (await attention(body, this.#aborted.signal)).arrays);
  }

  /**
   * @param {Record<string, unknown>} fields
   * @returns {Promise<Translation>}
   */
  #translation(fields) {
    const body = { ...this.fields, ...fields };
    return this.#once("translate", body, () => translateOne(body, this.#aborted.signal));
  }

  /**
   * @template T
   * @param {string} route
   * @param {Record<string, unknown>} body
   * @param {() => Promise<T>} ask
   * @returns {Promise<T>}
   */
  #once(route, body, ask) {
    const key = `${route} ${JSON.stringify(body)}`;
    const answer = this.#answers.get(key) ?? ask();
    this.#answers.set(key, answer);
    // A retry may succeed, for example after a full queue.
    answer.catch(() => this.#answers.delete(key));
    return answer;
  }
}

/** @param {SearchOptions} options */
function decoding({ beamSize, lengthPenalty }) {
  return { decoding: "beam", beam_size: beamSize, length_penalty: lengthPenalty };
}

/**
 * @param {Arrays} arrays
 * @param {string} name
 */
function strings(arrays, name) {
  return /** @type {string[]} */ (arrays[name].data);
}
