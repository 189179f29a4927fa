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
  title: "Feed-forward and output",
  text: (model) => [
    paragraph(
      "After attention, a feed-forward network changes each position by itself: a projection from the width" +
        ` ${model.architecture.d_model} to ${model.architecture.decoder_d_ff ?? model.architecture.d_ff}, an activation` +
        " function, and a projection back. Attention moves information between positions; the feed-forward network processes" +
        " each position.",
    ),
    formula(`FFN(x) = ${activationOf(model)} W₂ + b₂;   ${SUMS[model.architecture.norm] ?? SUMS.pre}`),
    paragraph(
      `The decoder's last vector is multiplied with a vector for each of the ${model.architecture.target_vocab_size} target` +
        ` tokens${model.architecture.tie_output ? " (here the embeddings themselves: the weights are tied)" : ""}. These` +
        " logits become probabilities by a softmax over the vocabulary.",
    ),
    formula("P(next token) = softmax(x W_vocabulary + b)"),
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
    heading("The last feed-forward network"),
    picker("Token that the decoder reads", steps.queries, first, choose),
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
  return heatMap(`Vectors of ${steps.queries[row]}`, matrix, ["x", "FFN"]);
}

/** @param {Lesson} lesson */
async function nextToken(lesson) {
  const { search } = await lesson.search();
  const trace = new Trace(search);
  const { target } = await lesson.tokens();
  const [best] = trace.ranked(lesson.model, lesson.options.lengthPenalty, trace.numGiven(target));
  if (!best) return note("The search has no candidates.");
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
        written ? `Candidates after “${written}”` : "Candidates for the first token",
        ["Token", "log-probability", "probability"],
        [
          ...candidates.map((candidate, index) => [
            h("span", {}, token(candidate.token), candidate === path[position] ? " in the answer" : ""),
            decimal(Math.log(shares[index])),
            bar(shares[index], percent(shares[index], { exact: true })),
          ]),
          [`the other ${others} tokens`, "", bar(rest, percent(rest, { exact: true }))],
        ],
      ),
    );
  }

  choose(0);
  return h(
    "div",
    {},
    heading("The next token"),
    picker(
      "Token of the answer",
      path.map((candidate) => candidate.token),
      0,
      choose,
    ),
    bars,
    note("These are the tokens that the search considered at this point."),
  );
}
