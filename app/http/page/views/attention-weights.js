/**
 * The attention weights of one sentence and its translation, as `POST /attention` gives them in an archive of arrays.
 */

import { decimal } from "../numbers.js";
import { t } from "../texts.js";

/** @import { Arrays } from "../npz.js" */
/** @import { Kind } from "../types.js" */

/** @typedef {{ kind: Kind, layer: number, head: number | null }} Choice  Counted from 0; null: the mean of the heads. */
/**
 * The weights of one head, or of the mean of a layer's heads.
 *
 * @typedef {object} HeadMap
 * @property {string[]} rows The tokens that attend.
 * @property {string[]} columns The tokens that are attended to.
 * @property {Float32Array} weights Row by row; each row sums to one.
 * @property {number} largest The largest weight.
 */

/** @type {Kind[]} */
export const KINDS = ["encoder", "decoder", "cross"];

/** The answer of `POST /attention`. */
export class AttentionWeights {
  /** @type {Map<string, HeadMap>} Cached maps: a mean takes a pass over all heads. */
  #maps = new Map();
  #arrays;

  /** @param {Arrays} arrays */
  constructor(arrays) {
    this.#arrays = arrays;
    this.sourceTokens = this.#strings("source_tokens");
    this.targetTokens = this.#strings("target_tokens");
    this.inputTokens = this.#strings("decoder_input_tokens");
    this.translation = this.#strings("translation")[0] ?? "";
    this.detected = "detected_language" in arrays ? (this.#strings("detected_language")[0] ?? null) : null;
  }

  /** @param {string} name */
  #strings(name) {
    return /** @type {string[]} */ (this.#arrays[name]?.data ?? []);
  }

  /** @param {Kind} kind */
  #shape(kind) {
    const [layers = 0, heads = 0, rows = 0, columns = 0] = this.#arrays[kind]?.shape ?? [];
    return { layers, heads, rows, columns };
  }

  /** Whether the model has such attention: a recurrent decoder has none of its own. @param {Kind} kind */
  has(kind) {
    return this.numHeads(kind) > 0;
  }

  /** The number of layers that have such attention. @param {Kind} kind */
  numLayers(kind) {
    return this.#shape(kind).layers;
  }

  /** The number of heads of a layer. @param {Kind} kind */
  numHeads(kind) {
    return this.#shape(kind).heads;
  }

  /**
   * The nearest choice that exists here.
   *
   * @param {Choice} choice
   * @returns {Choice}
   */
  nearest({ kind, layer, head }) {
    return {
      kind,
      layer: Math.min(layer, this.numLayers(kind) - 1),
      head: head === null ? null : Math.min(head, this.numHeads(kind) - 1),
    };
  }

  /**
   * The weights of one choice.
   *
   * @param {Choice} choice One that exists.
   * @returns {HeadMap}
   */
  map(choice) {
    const key = `${choice.kind}/${choice.layer}/${choice.head}`;
    let map = this.#maps.get(key);
    if (!map) {
      const weights = choice.head === null ? this.#mean(choice.kind, choice.layer) : this.#head(choice, choice.head);
      map = {
        rows: choice.kind === "encoder" ? this.sourceTokens : this.targetTokens,
        columns: choice.kind === "decoder" ? this.inputTokens : this.sourceTokens,
        weights,
        largest: weights.reduce((largest, weight) => Math.max(largest, weight), 0),
      };
      this.#maps.set(key, map);
    }
    return map;
  }

  /**
   * @param {{ kind: Kind, layer: number }} choice
   * @param {number} head
   */
  #head({ kind, layer }, head) {
    const { heads, rows, columns } = this.#shape(kind);
    const all = /** @type {Float32Array} */ (this.#arrays[kind]?.data);
    const begin = (layer * heads + head) * rows * columns;
    return all.subarray(begin, begin + rows * columns);
  }

  /**
   * @param {Kind} kind
   * @param {number} layer
   */
  #mean(kind, layer) {
    const { heads, rows, columns } = this.#shape(kind);
    const sum = new Float64Array(rows * columns);
    for (let head = 0; head < heads; head += 1) {
      const weights = this.#head({ kind, layer }, head);
      for (let index = 0; index < sum.length; index += 1) {
        sum[index] += weights[index];
      }
    }
    return Float32Array.from(sum, (weight) => weight / heads);
  }
}

/**
 * A choice in words.
 *
 * @param {Pick<Choice, "layer" | "head">} choice
 */
export function choiceName({ layer, head }) {
  return t("attention-weights.layer", {
    layer,
    head: head === null ? t("attention-weights.meanOfTheHeads") : t("attention-weights.head", { head }),
  });
}

/**
 * One row of a map.
 *
 * @param {HeadMap} map
 * @param {number} row
 */
export function rowOf(map, row) {
  return map.weights.subarray(row * map.columns.length, (row + 1) * map.columns.length);
}

/**
 * A weight with the digits that the service's JSON has.
 *
 * @param {number} weight
 */
export function exact(weight) {
  return decimal(weight, 7);
}
