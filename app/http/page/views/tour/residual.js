/** The chapter about residual connections and layer normalisation. */

import { fill, h } from "../../element.js";
import { headChoice } from "./choosing.js";
import { picker } from "./controls.js";
import { heatMap } from "./heatmap.js";
import { formula, heading, inTheCode, paragraph, table } from "./prose.js";
import { stage } from "./stage.js";
import { Matrix, moments } from "./vectors.js";

/** @import { Model } from "../../types.js" */
import { decimal } from "../../numbers.js";
/** @import { Chapter } from "./chapter.js" */
/** @import { Steps } from "./lesson.js" */

const NUM_COLUMNS = 4;

/**
 * Where an architecture normalises: the formula, what is said about it, and the steps before and after the norm.
 *
 * @type {Record<string, { formula: string, text: string, before: string, after: string }>}
 */
const NORMS = {
  pre: {
    formula: "y = x + f(norm(x))",
    text:
      "This model is pre-norm: the input of a sub-layer is normalised, and its output is added to the original vector." +
      " The vectors that run through the layers are never normalised themselves; after the last layer there is one more norm.",
    before: "input",
    after: "normed",
  },
  post: {
    formula: "y = norm(x + f(x))",
    text: "This model is post-norm, as in the original paper: the sum of input and output is normalised.",
    before: "residual",
    after: "result",
  },
  "residual-post": {
    formula: "y = x + norm(f(x))",
    text: "This model is residual-post-norm: the output of a sub-layer is normalised before it is added.",
    before: "output",
    after: "normed_output",
  },
};

/** The names of the steps. @type {Record<string, string>} */
const NAMES = {
  input: "input x",
  normed: "norm(x)",
  output: "output f",
  normed_output: "norm(f)",
  residual: "sum",
  result: "result y",
};

/** @param {Model} model */
function normOf({ architecture }) {
  return NORMS[architecture.norm] ?? NORMS.pre;
}

/** @type {Chapter} */
export const residual = {
  name: "residual",
  title: "Residual connection and norm",
  text: (model) => [
    paragraph(
      "A sub-layer f does not replace a vector but adds to it: this is the residual connection. What a layer does not" +
        " change passes through, and in training the gradient finds a direct way back through all layers.",
    ),
    paragraph(
      "Layer normalisation subtracts a vector's mean from each number and divides by the standard deviation. Mean 0" +
        " and variance 1 keep the numbers in a range that the next product can use. A learned gain and bias then scale and" +
        " move them.",
    ),
    paragraph(normOf(model).text),
    formula(normOf(model).formula),
    formula("norm(x) = gain · (x − mean) / √(variance + ε) + bias"),
    inTheCode("model/network/layers.py", "model/network/norms.py"),
  ],
  live: (lesson, focus) => {
    const sums = stage(async () => [sublayer(await lesson.steps({ ...focus.head, head: 0 }), lesson.model)]);
    return h("div", {}, headChoice(lesson, focus, { heads: false }, sums.redraw), sums.element);
  },
};

/**
 * @param {Steps} steps
 * @param {Model} model
 */
function sublayer(steps, model) {
  const numbers = h("div");
  const first = Math.min(1, steps.queries.length - 1);
  const added = steps.has("normed_output") ? "normed_output" : "output";

  /** @param {number} row */
  function choose(row) {
    fill(
      numbers,
      heading("Input + output"),
      vectors("The three vectors", steps, ["input", added, "residual"], row),
      firstNumbers(steps, ["input", added, "residual"], row),
      heading("The norm"),
      norm(steps, model, row),
    );
  }

  choose(first);
  return h("div", {}, picker("Token", steps.queries, first, choose), numbers);
}

/**
 * @param {string} name
 * @param {Steps} steps
 * @param {string[]} parts
 * @param {number} row
 */
function vectors(name, steps, parts, row) {
  const rows = parts.map((part) => steps.matrix(part).row(row));
  const matrix = Matrix.from(rows.length, rows[0].length, (part, column) => rows[part][column]);
  return heatMap(
    `${name} of ${steps.queries[row]}`,
    matrix,
    parts.map((part) => NAMES[part]),
  );
}

/**
 * @param {Steps} steps
 * @param {string[]} parts The last one is the sum of the others.
 * @param {number} row
 */
function firstNumbers(steps, parts, row) {
  const width = steps.matrix("input").columns;
  const columns = [...Array(Math.min(NUM_COLUMNS, width)).keys()];
  return table(
    `The first ${columns.length} of ${width} columns`,
    ["Column", ...columns.map(String)],
    parts.map((part) => [NAMES[part], ...columns.map((column) => decimal(steps.matrix(part).at(row, column)))]),
  );
}

/**
 * @param {Steps} steps
 * @param {Model} model
 * @param {number} row
 */
function norm(steps, model, row) {
  const { before, after } = normOf(model);
  const vector = steps.matrix(before).row(row);
  const { mean, variance } = moments(vector);
  const epsilon = Number(model.architecture.layer_norm_eps);
  const standard = vector.map((value) => (value - mean) / Math.sqrt(variance + epsilon));
  /** @type {[string, number[]][]} */
  const stages = [
    [`before: ${NAMES[before]}`, vector],
    ["(x − mean) / √(variance + ε)", standard],
    [`after gain and bias: ${NAMES[after]}`, steps.matrix(after).row(row)],
  ];
  return table(
    `Mean and variance of ${steps.queries[row]}`,
    ["", "mean", "variance", "column 0", "column 1"],
    stages.map(([name, numbers]) => {
      const { mean: m, variance: v } = moments(numbers);
      return [name, decimal(m), decimal(v), decimal(numbers[0]), decimal(numbers[1])];
    }),
  );
}
