/** The chapter about the feed-forward sub-layer and the probabilities of the next token. */

import { fill, h } from "../../element.js";
import { picker } from "./controls.js";
import { heatMap } from "./heatmap.js";
import { bar, formula, heading, inTheCode, note, paragraph, table, token } from "./prose.js";
import { stage } from "./stage.js";
import { Trace } from "./trace.js";
import { Matrix, sum } from "./vectors.js";

/** @import { Model } from "../../types.js" */
import { decimal, percent } from "../../numbers.js";
import { t } from "../../texts.js";
/** @import { Chapter } from "./chapter.js" */
/** @import { Lesson, Steps } from "./lesson.js" */

/** @param {Model} model */
function activationOf({ architecture }) {
  if (architecture.activation === "relu") return "max(0, x W₁ + b₁)";
  return `${architecture.activation}(x W₁ + b₁)`;
}

/** @type {Record<string, string>} */
const SUMS = { pre: "y = x + FFN(norm(x))", post: "y = norm(x + FFN(x))", "residual-post": "y = x + norm(FFN(x))" };

/** @type {Chapter} */
export const output = {
  name: "output",
  title: t("tour.output.feedForwardAndOutput"),
  text: (model) => [
    paragraph(
      t("tour.output.feedForward", {
        width: Number(model.architecture.d_model),
        inner: Number(model.architecture.decoder_d_ff ?? model.architecture.d_ff),
      }),
    ),
    formula(`FFN(x) = ${activationOf(model)} W₂ + b₂;   ${SUMS[model.architecture.norm] ?? SUMS.pre}`),
    paragraph(
      t("tour.output.logits", {
        vocabulary: Number(model.architecture.target_vocab_size),
        tied: model.architecture.tie_output ? t("tour.output.tied") : "",
      }),
    ),
    formula(t("tour.output.softmax")),
    inTheCode("model/network/layers.py", "model/network/transformer.py"),
  ],
  live: (lesson) =>
    h(
      "div",
      {},
      stage(async () => [await feedForward(lesson)]).element,
      stage(async () => [await nextToken(lesson)]).element,
    ),
};

/** @param {Lesson} lesson */
async function feedForward(lesson) {
  const steps = await lesson.steps({ kind: "cross", layer: lesson.size("cross").layers - 1, head: 0 });
  const first = Math.min(1, steps.queries.length - 1);
  const picture = h("div");
  /** @param {number} row */
  const choose = (row) => fill(picture, vectors(steps, row));
  choose(first);
  return h(
    "div",
    {},
    heading(t("tour.output.theLastFeedForwardNetwork")),
    picker(t("tour.output.tokenThatTheDecoderReads"), steps.queries, first, choose),
    picture,
  );
}

/**
 * @param {Steps} steps
 * @param {number} row
 */
function vectors(steps, row) {
  const rows = [steps.matrix("result").row(row), steps.matrix("feed_forward").row(row)];
  const matrix = Matrix.from(2, rows[0].length, (part, column) => rows[part][column]);
  return heatMap(t("tour.output.vectorsOf", { token: steps.queries[row] }), matrix, ["x", "FFN"]);
}

/** @param {Lesson} lesson */
async function nextToken(lesson) {
  const { search } = await lesson.search();
  const trace = new Trace(search);
  const { target } = await lesson.tokens();
  const [best] = trace.ranked(lesson.model, lesson.options.lengthPenalty, trace.numGiven(target));
  if (!best) return note(t("tour.output.theSearchHasNoCandidates"));
  const path = trace.path(best.candidate);
  const bars = h("div");

  /** @param {number} position */
  function choose(position) {
    const parent = position ? path[position - 1].id : 0;
    const candidates = trace.steps
      .flat()
      .filter((candidate) => candidate.parent === parent)
      .sort((a, b) => b.log_prob - a.log_prob);
    const shares = candidates.map((candidate) => trace.probability(candidate));
    const rest = Math.max(0, 1 - sum(shares));
    const others = Number(lesson.model.architecture.target_vocab_size) - candidates.length;
    const written = position ? trace.text(path[position - 1]) : "";
    fill(
      bars,
      table(
        written ? t("tour.output.candidatesAfter", { written }) : t("tour.output.candidatesForTheFirstToken"),
        [t("beam-tree.token"), t("tour.output.logProbability"), t("tour.output.probability")],
        [
          ...candidates.map((candidate, index) => [
            h("span", {}, token(candidate.token), candidate === path[position] ? t("tour.output.inTheAnswer") : ""),
            decimal(Math.log(shares[index])),
            bar(shares[index], percent(shares[index], { exact: true })),
          ]),
          [t("tour.output.otherTokens", { others }), "", bar(rest, percent(rest, { exact: true }))],
        ],
      ),
    );
  }

  choose(0);
  return h(
    "div",
    {},
    heading(t("tour.output.theNextToken")),
    picker(
      t("tour.output.tokenOfTheAnswer"),
      path.map((candidate) => candidate.token),
      0,
      choose,
    ),
    bars,
    note(t("tour.output.considered")),
  );
}
