/**
 * The languages of the loaded models, and what the service supports.
 */

/** @import { Model, ModelsAnswer, Pivot } from "./types.js" */

import { language as written } from "./texts.js";

const NAMES = new Intl.DisplayNames([written], { type: "language" });

/**
 * The code of a language as browsers know it: `deu_Latn` is `de`, `zho_Hant` is `zh-Hant`.
 *
 * @param {string} code As a model names it.
 */
export function languageTag(code) {
  try {
    const { language, script, region } = new Intl.Locale(code.replaceAll("_", "-"));
    const usual = new Intl.Locale(language).maximize().script;
    return [language, script !== usual && script, region].filter(Boolean).join("-");
  } catch {
    return code;
  }
}

/** The name of a language in that of the page, or its code. @param {string} code */
export function languageName(code) {
  try {
    return NAMES.of(languageTag(code)) ?? code;
  } catch {
    return code;
  }
}

/** The languages of the loaded models. */
export class Languages {
  /** @type {Pivot} */
  #pivot;

  /** @param {ModelsAnswer} served */
  constructor({ models, pivot, corrections = false }) {
    this.models = models;
    /** Whether the service stores corrections. */
    this.keepsCorrections = corrections;
    this.#pivot = pivot ?? { language: "", pairs: [], languages: [] };
  }

  /** Codes of the source languages, sorted by name. */
  get sources() {
    return sorted(this.models.flatMap((model) => [...model.pairs.map(([source]) => source), ...model.languages]));
  }

  /**
   * Codes of the target languages, sorted by name.
   *
   * @param {string} source The source language, or `auto` for all.
   */
  targets(source) {
    return sorted(
      [...this.models, this.#pivot].flatMap((model) => [
        ...model.pairs.filter(([from]) => source === "auto" || from === source).map(([, to]) => to),
        ...(source === "auto" || model.languages.includes(source) ? model.languages : []).filter(
          (language) => language !== source,
        ),
      ]),
    );
  }

  /**
   * The language of an example: the source, or a language that is translated into the target.
   *
   * @param {{ source: string, target: string }} pair
   */
  exampleSource({ source, target }) {
    if (source !== "auto") return source;
    const model = this.model(source, target);
    const pair = model?.pairs.find(([, to]) => to === target);
    return pair?.[0] ?? model?.languages.find((language) => language !== target) ?? source;
  }

  /**
   * The model that writes the translations of a pair.
   *
   * @param {string} source Or `auto`.
   * @param {string} target
   * @returns {Model | undefined}
   */
  model(source, target) {
    const writes = this.models.find((model) => has(model, source, target));
    return writes ?? (has(this.#pivot, source, target) ? this.model("auto", target) : undefined);
  }

  /**
   * Whether two models translate a pair, one after the other.
   *
   * @param {string} source Or `auto`.
   * @param {string} target
   */
  hasTwoLegs(source, target) {
    return !this.models.some((model) => has(model, source, target)) && has(this.#pivot, source, target);
  }
}

/**
 * @param {{ pairs: [string, string][], languages: string[] }} served
 * @param {string} source Or `auto`.
 * @param {string} target
 */
function has({ pairs, languages }, source, target) {
  return (
    pairs.some(([from, to]) => (source === "auto" || from === source) && to === target) ||
    (languages.includes(target) && (source === "auto" || languages.includes(source)))
  );
}

/** @param {string[]} codes */
function sorted(codes) {
  return [...new Set(codes)].sort((a, b) => languageName(a).localeCompare(languageName(b), written));
}
