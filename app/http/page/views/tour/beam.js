/** The chapter about beam search. */

import { fill, h } from "../../element.js";
import { choice } from "./controls.js";
import { bar, formula, heading, inTheCode, note, paragraph, table, token } from "./prose.js";
import { stage } from "./stage.js";
import { Trace } from "./trace.js";

/** @import { Candidate, Model, Translation } from "../../types.js" */
import { decimal, percent } from "../../numbers.js";
/** @import { Chapter } from "./chapter.js" */
/** @import { Lesson, SearchOptions } from "./lesson.js" */

const MAX_BEAM_SIZE = 8;
const LENGTH_PENALTIES = [0, 0.5, 1, 1.5, 2];

/** @type {Chapter} */
export const beam = {
  name: "beam",
  title: "Beam search",
  text: ({ decoding }) => [
    paragraph(
      "The model gives the probability of the next token only. The probability of a sentence is the product over its" +
        " tokens, so its logarithm is a sum. Greedy search takes the most probable token at every step. But the best first" +
        " word need not begin the best sentence: its continuations may be improbable.",
    ),
    paragraph(
      "Beam search keeps the K best hypotheses. At each step every hypothesis is continued with every token; the best" +
        " candidates are kept, the others are dropped. A hypothesis that writes the end marker is finished.",
    ),
    paragraph(
      "Every token makes the sum smaller, so plain sums favour short sentences. The length penalty a corrects this: with 0" +
        " sums are compared, with 1 the means of the log-probabilities.",
    ),
    formula(
      decoding.scoring === "wu"
        ? "score = (log P(token 1) + … + log P(token L)) / ((5 + L) / 6)^a"
        : "score = (log P(token 1) + … + log P(token L)) / L^a",
    ),
    inTheCode("model/decoding/eager/beam.py", "model/decoding/scoring.py"),
  ],
  live: (lesson) => {
    const options = { ...lesson.options };
    const searched = stage(async () => searchOf(lesson, options));
    const sizes = Array.from(
      { length: Math.min(MAX_BEAM_SIZE, lesson.model.limits.max_beam_size) },
      (_, index) => index + 1,
    );
    const penalties = [...new Set([...LENGTH_PENALTIES, options.lengthPenalty])].sort((a, b) => a - b);
    return h(
      "div",
      {},
      h(
        "div",
        { class: "row choices" },
        choice(
          "Beam size K",
          withLabels([...new Set([...sizes, options.beamSize])]),
          String(options.beamSize),
          (size) => {
            options.beamSize = Number(size);
            searched.redraw();
          },
        ),
        choice("Length penalty a", withLabels(penalties), String(options.lengthPenalty), (penalty) => {
          options.lengthPenalty = Number(penalty);
          searched.redraw();
        }),
      ),
      searched.element,
    );
  },
};

/** @param {number[]} values @returns {[string, string][]} */
function withLabels(values) {
  return values.map((value) => [String(value), String(value)]);
}

/**
 * @param {Lesson} lesson
 * @param {SearchOptions} options
 */
async function searchOf(lesson, options) {
  const [{ translation, search }, usual, { target }, greedy] = await Promise.all([
    lesson.search(options),
    lesson.search(),
    lesson.tokens(),
    lesson.greedy(),
  ]);
  const trace = new Trace(search);
  const ranked = trace.ranked(lesson.model, options.lengthPenalty, new Trace(usual.search).numGiven(target));
  const answer = ranked.length ? trace.path(ranked[0].candidate) : [];
  return [
    heading("Step by step"),
    steps(trace, answer),
    heading("The finished hypotheses"),
    finishedOnes(trace, ranked.slice(0, options.beamSize), options, lesson.model),
    ...(hasTwins(trace) ? [note("Hypotheses with the same text differ in their subwords.")] : []),
    h("p", {}, "The answer: ", h("strong", { class: "answer", dir: "auto" }, translation.text)),
    paragraph(comparison(trace, answer, translation, greedy)),
  ];
}

/** @param {Trace} trace */
function hasTwins(trace) {
  const texts = trace.finished.map((candidate) => trace.text(candidate));
  return new Set(texts).size < texts.length;
}

/**
 * The candidates of a step, and the controls for the step.
 *
 * @param {Trace} trace
 * @param {Candidate[]} answer
 */
function steps(trace, answer) {
  const last = trace.steps.length - 1;
  const slider = h("input", {
    type: "range",
    min: 0,
    max: last,
    value: 0,
    "aria-label": "Step",
    oninput: () => show(0),
  });
  const label = h("output", {});
  const back = h("button", { type: "button", onclick: () => show(-1) }, "Step back");
  const on = h("button", { type: "button", onclick: () => show(1) }, "Next step");
  const candidates = h("div");

  /** @param {number} by */
  function show(by) {
    const step = Math.min(Math.max(Number(slider.value) + by, 0), last);
    slider.value = String(step);
    // Its focus would be lost if it were disabled.
    back.setAttribute("aria-disabled", String(step === 0));
    on.setAttribute("aria-disabled", String(step === last));
    fill(label, `Step ${step + 1} of ${last + 1}`);
    fill(candidates, candidatesOf(trace, step, answer));
  }

  show(0);
  return h("div", {}, h("div", { class: "row" }, back, slider, on, label), candidates);
}

/**
 * @param {Trace} trace
 * @param {number} step
 * @param {Candidate[]} answer
 */
function candidatesOf(trace, step, answer) {
  return table(
    `Candidates of step ${step + 1}, best first`,
    ["Rank", "so far", "token", "P(token)", "sum of log P", ""],
    (trace.steps[step] ?? []).map((candidate, rank) => {
      const parent = trace.byId.get(candidate.parent);
      const probability = trace.probability(candidate);
      return [
        rank + 1,
        h("span", { class: "words", dir: "auto" }, parent ? trace.text(parent) : "(the beginning)"),
        token(candidate.token),
        bar(probability, percent(probability, { exact: true })),
        decimal(candidate.log_prob),
        `${fate(candidate)}${answer.includes(candidate) ? "; leads to the answer" : ""}`,
      ];
    }),
  );
}

/** @param {Candidate} candidate */
function fate({ kept, finished }) {
  if (finished) return kept ? "finished" : "finished, but no longer among the best";
  return kept ? "kept" : "dropped";
}

/**
 * @param {Trace} trace
 * @param {ReturnType<Trace["ranked"]>} ranked
 * @param {SearchOptions} options
 * @param {Model} model
 */
function finishedOnes(trace, ranked, { beamSize, lengthPenalty: a }, model) {
  return table(
    `Finished hypotheses, best first; no more than ${beamSize} are kept`,
    ["Sentence", "sum of log P", "L", "score"],
    ranked.map(({ candidate, length, score }) => [
      h("span", { class: "words", dir: "auto" }, trace.text(candidate)),
      decimal(candidate.log_prob),
      length,
      `${decimal(candidate.log_prob)} / ${model.decoding.scoring === "wu" ? `((5 + ${length}) / 6)` : length}^${a} = ${decimal(score)}`,
    ]),
  );
}

/**
 * Whether more than one hypothesis was needed.
 *
 * @param {Trace} trace
 * @param {Candidate[]} answer
 * @param {Translation} translation
 * @param {Translation} greedy
 */
function comparison(trace, answer, translation, greedy) {
  const worst = answer.reduce((lowest, candidate) => {
    const rank = trace.steps.find((step) => step.includes(candidate))?.indexOf(candidate) ?? 0;
    return Math.max(lowest, rank);
  }, 0);
  const way = worst
    ? `The answer was ranked as low as ${worst + 1}: a search that keeps only the best hypothesis would have lost it.`
    : "The answer was the best candidate at every step.";
  const other =
    greedy.text === translation.text
      ? "Greedy search finds the same sentence."
      : `Greedy search writes “${greedy.text}” instead.`;
  return `${way} ${other}`;
}
