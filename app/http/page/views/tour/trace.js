/** The candidates of a search, and their relations. */

/** @import { Candidate, Model, SearchStep } from "../../types.js" */

/** A search step by step. */
export class Trace {
  /** @param {SearchStep[]} steps */
  constructor(steps) {
    this.steps = steps.map((step) => step.hypotheses);
    /** @type {Map<number, Candidate>} */
    this.byId = new Map(this.steps.flat().map((candidate) => [candidate.id, candidate]));
  }

  /**
   * A candidate and those that it continues, the first one first.
   *
   * @param {Candidate} candidate
   */
  path(candidate) {
    const path = [candidate];
    for (let parent = this.byId.get(candidate.parent); parent; parent = this.byId.get(parent.parent))
      path.unshift(parent);
    return path;
  }

  /**
   * The text up to a candidate.
   *
   * @param {Candidate} candidate
   */
  text(candidate) {
    return this.path(candidate)
      .map(({ text }) => text)
      .join("")
      .trim();
  }

  /**
   * The probability of a candidate's token behind the tokens before it.
   *
   * @param {Candidate} candidate
   */
  probability(candidate) {
    return Math.exp(candidate.log_prob - (this.byId.get(candidate.parent)?.log_prob ?? 0));
  }

  /** The candidates that ended and were kept. */
  get finished() {
    return this.steps.flat().filter(({ finished, kept }) => finished && kept);
  }

  /**
   * The tokens that a score counts and the candidates do not have: those that the model was given at the beginning.
   *
   * @param {string[]} target All tokens of the translation.
   */
  numGiven(target) {
    const own = this.finished.map((candidate) => this.path(candidate).map((part) => part.token));
    const match = own.find((tokens) =>
      tokens.every((token, index) => token === target[target.length - tokens.length + index]),
    );
    return match ? target.length - match.length : 0;
  }

  /**
   * The candidates that ended with their scores, best first.
   *
   * @param {Model} model Its rule scores them.
   * @param {number} lengthPenalty
   * @param {number} numGiven
   */
  ranked(model, lengthPenalty, numGiven) {
    return this.finished
      .map((candidate) => {
        const length = this.path(candidate).length + numGiven;
        const divisor = (model.decoding.scoring === "wu" ? (5 + length) / 6 : length) ** lengthPenalty;
        return { candidate, length, score: candidate.log_prob / divisor };
      })
      .sort((a, b) => b.score - a.score);
  }
}
