/**
 * What a search considered (`return_search`) as a tree, and a place for each of its candidates.
 */

import { t } from "../texts.js";

/** @import { Candidate, SearchStep } from "../types.js" */

/**
 * A candidate, and the hypothesis that ends with it.
 *
 * @typedef {object} Hypothesis
 * @property {Candidate} candidate
 * @property {number} step Counted from 0.
 * @property {Hypothesis | null} parent Null: the beginning.
 * @property {Hypothesis[]} children Best first.
 * @property {string} text
 * @property {number} probability Of its last token, given those before.
 * @property {boolean} best Whether it is part of the answer.
 */

/** The hypotheses of a search. */
export class BeamSearch {
  /** @type {Hypothesis[]} Step by step, the candidates of a step best first. */
  hypotheses = [];
  /** @type {Hypothesis | null} The hypothesis that is the translation. */
  answer = null;

  /**
   * @param {SearchStep[]} steps
   * @param {string} translation
   */
  constructor(steps, translation) {
    /** @type {Map<number, Hypothesis>} */
    const byId = new Map();
    steps.forEach(({ hypotheses }, step) => {
      for (const candidate of hypotheses) {
        const parent = byId.get(candidate.parent) ?? null;
        const hypothesis = {
          candidate,
          step,
          parent,
          children: [],
          text: (parent?.text ?? "") + candidate.text,
          probability: Math.exp(candidate.log_prob - (parent?.candidate.log_prob ?? 0)),
          best: false,
        };
        byId.set(candidate.id, hypothesis);
        this.hypotheses.push(hypothesis);
        parent?.children.push(hypothesis);
      }
    });
    this.numSteps = steps.length;
    this.answer = this.#answer(translation);
    for (let node = this.answer; node; node = node.parent) node.best = true;
  }

  /**
   * The finished hypothesis with the text of the translation; several may have it, with other tokens. If the translation
   * was changed after the search (capitals, protected spans), the hypothesis with the best mean log-probability.
   *
   * @param {string} translation
   */
  #answer(translation) {
    const finished = this.hypotheses.filter(({ candidate }) => candidate.finished && candidate.kept);
    const same = finished.filter(({ text }) => text.trim() === translation.trim());
    const mean = (/** @type {Hypothesis} */ { candidate, step }) => candidate.log_prob / (step + 1);
    return (same.length ? same : finished).reduce(
      (best, next) => (best && mean(best) >= mean(next) ? best : next),
      /** @type {Hypothesis | null} */ (null),
    );
  }

  /**
   * A row for each hypothesis, so that no two lines of the tree cross: the answer is straight at the top; what branches
   * off is below, the latest branch nearest.
   *
   * @param {boolean} withDropped Whether dropped hypotheses have a row.
   * @returns {Map<Hypothesis, number>}
   */
  rows(withDropped) {
    /** @type {Map<Hypothesis, number>} */
    const rows = new Map();
    /** @type {number[]} By step, the first row that is free from there down. */
    const free = new Array(this.numSteps).fill(0);
    const shown = (/** @type {Hypothesis[]} */ siblings) =>
      siblings.filter(({ candidate }) => withDropped || candidate.kept).sort((a, b) => Number(b.best) - Number(a.best));
    const place = (/** @type {Hypothesis[]} */ siblings) => {
      for (const first of siblings) {
        const chain = [first];
        for (let [next] = shown(first.children); next; [next] = shown(next.children)) chain.push(next);
        const row = Math.max(...chain.map(({ step }) => free[step]));
        for (const hypothesis of chain) {
          rows.set(hypothesis, row);
          free[hypothesis.step] = row + 1;
        }
        for (const hypothesis of chain.toReversed()) place(shown(hypothesis.children).slice(1));
      }
    };
    place(shown(this.hypotheses.filter(({ parent }) => !parent)));
    return rows;
  }
}

/**
 * The state of a hypothesis.
 *
 * @param {Hypothesis} hypothesis
 */
export function fate({ candidate, best }) {
  if (candidate.finished) {
    if (best) return t("beam-search.finishedTheTranslation");
    return candidate.kept ? t("beam-search.finished") : t("beam-search.finishedNotAmongTheBest");
  }
  return candidate.kept ? t("beam-tree.kept") : t("beam-tree.dropped");
}
