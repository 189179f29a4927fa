/** The chapter about beam search. */

import { fill, h } from "../../element.js";
import { choice } from "./controls.js";
import { bar, formula, heading, inTheCode, note, paragraph, table, token } from "./prose.js";
import { stage } from "./stage.js";
import { Trace } from "./trace.js";

/** @import { Candidate, Model, Translation } from "../../types.js" */
import { decimal, percent } from "../../numbers.js";
import { t } from "../../texts.js";
/** @import { Chapter } from "./chapter.js" */
/** @import { Lesson, SearchOptions } from "./lesson.js" */

const MAX_BEAM_SIZE = 8;
const LENGTH_PENALTIES = [0, 0.5, 1, 1.5, 2];

/** @type {Chapter} */
export const beam = {
  name: "beam",
  title: t("attention-form.beamSearch"),
  text: ({ decoding }) => [
    paragraph(t("tour.beam.greedy")),
    paragraph(t("tour.beam.hypotheses")),
    paragraph(t("tour.beam.penalty")),
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
          t("tour.beam.beamSizeK"),
          withLabels([...new Set([...sizes, options.beamSize])]),
          String(options.beamSize),
          (size) => {
            options.beamSize = Number(size);
            searched.redraw();
          },
        ),
        choice(t("tour.beam.lengthPenaltyA"), withLabels(penalties), String(options.lengthPenalty), (penalty) => {
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
    heading(t("tour.beam.stepByStep")),
    steps(trace, answer),
    heading(t("tour.beam.theFinishedHypotheses")),
    finishedOnes(trace, ranked.slice(0, options.beamSize), options, lesson.model),
    ...(hasTwins(trace) ? [note(t("tour.beam.twins"))] : []),
    h("p", {}, t("tour.beam.theAnswer"), h("strong", { class: "answer", dir: "auto" }, translation.text)),
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
    "aria-label": t("beam-tree.step"),
    oninput: () => show(0),
  });
  const label = h("output", {});
  const back = h("button", { type: "button", onclick: () => show(-1) }, t("stepper.stepBack"));
  const on = h("button", { type: "button", onclick: () => show(1) }, t("tour.beam.nextStep"));
  const candidates = h("div");

  /** @param {number} by */
  function show(by) {
    const step = Math.min(Math.max(Number(slider.value) + by, 0), last);
    slider.value = String(step);
    // Its focus would be lost if it were disabled.
    back.setAttribute("aria-disabled", String(step === 0));
    on.setAttribute("aria-disabled", String(step === last));
    fill(label, t("stepper.stepOf", { step: step + 1, count: last + 1 }));
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
    t("tour.beam.candidates", { step: step + 1 }),
    [
      t("tour.beam.rank"),
      t("tour.beam.soFar"),
      t("tour.beam.token"),
      t("tour.beam.pToken"),
      t("tour.beam.sumOfLogP"),
      "",
    ],
    (trace.steps[step] ?? []).map((candidate, rank) => {
      const parent = trace.byId.get(candidate.parent);
      const probability = trace.probability(candidate);
      return [
        rank + 1,
        h("span", { class: "words", dir: "auto" }, parent ? trace.text(parent) : t("tour.beam.theBeginning")),
        token(candidate.token),
        bar(probability, percent(probability, { exact: true })),
        decimal(candidate.log_prob),
        `${fate(candidate)}${answer.includes(candidate) ? t("tour.beam.leadsToTheAnswer") : ""}`,
      ];
    }),
  );
}

/** @param {Candidate} candidate */
function fate({ kept, finished }) {
  if (finished) return kept ? t("beam-search.finished") : t("tour.beam.finishedNotBest");
  return kept ? t("beam-tree.kept") : t("beam-tree.dropped");
}

/**
 * @param {Trace} trace
 * @param {ReturnType<Trace["ranked"]>} ranked
 * @param {SearchOptions} options
 * @param {Model} model
 */
function finishedOnes(trace, ranked, { beamSize, lengthPenalty: a }, model) {
  return table(
    t("tour.beam.finished", { beamSize }),
    [t("tour.beam.sentence"), t("tour.beam.sumOfLogP"), "L", t("tour.beam.score")],
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
  const way = worst ? t("tour.beam.answerRank", { rank: worst + 1 }) : t("tour.beam.answerBest");
  const other =
    greedy.text === translation.text
      ? t("tour.beam.sameAsGreedy")
      : t("tour.beam.otherThanGreedy", { text: greedy.text });
  return `${way} ${other}`;
}
