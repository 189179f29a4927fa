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
import { t } from "../../texts.js";
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
    text: t("tour.residual.preNorm"),
    before: "input",
    after: "normed",
  },
  post: {
    formula: "y = norm(x + f(x))",
    text: t("tour.residual.postNorm"),
    before: "residual",
    after: "result",
  },
  "residual-post": {
    formula: "y = x + norm(f(x))",
    text: t("tour.residual.residualPostNorm"),
    before: "output",
    after: "normed_output",
  },
};

/** The names of the steps. @type {Record<string, string>} */
const NAMES = {
  input: t("tour.residual.inputX"),
  normed: "norm(x)",
  output: t("tour.residual.outputF"),
  normed_output: "norm(f)",
  residual: t("tour.head.sum"),
  result: t("tour.residual.resultY"),
};

/** @param {Model} model */
function normOf({ architecture }) {
  return NORMS[architecture.norm] ?? NORMS.pre;
}

/** @type {Chapter} */
export const residual = {
  name: "residual",
  title: t("tour.residual.residualConnectionAndNorm"),
  text: (model) => [
    paragraph(t("tour.residual.connection")),
    paragraph(t("tour.residual.norm")),
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
      heading(t("tour.residual.inputOutput")),
      vectors(t("tour.residual.theThreeVectors"), steps, ["input", added, "residual"], row),
      firstNumbers(steps, ["input", added, "residual"], row),
      heading(t("tour.residual.theNorm")),
      norm(steps, model, row),
    );
  }

  choose(first);
  return h("div", {}, picker(t("beam-tree.token"), steps.queries, first, choose), numbers);
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
    t("tour.residual.of", { name, token: steps.queries[row] }),
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
    t("tour.residual.theFirstOfColumns", { count: columns.length, width }),
    [t("tour.head.column"), ...columns.map(String)],
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
    [t("tour.residual.before", { name: NAMES[before] }), vector],
    ["(x − mean) / √(variance + ε)", standard],
    [t("tour.residual.afterGainAndBias", { name: NAMES[after] }), steps.matrix(after).row(row)],
  ];
  return table(
    t("tour.residual.meanAndVarianceOf", { token: steps.queries[row] }),
    ["", t("tour.residual.mean"), t("tour.residual.variance"), t("tour.residual.column"), t("tour.residual.column2")],
    stages.map(([name, numbers]) => {
      const { mean: m, variance: v } = moments(numbers);
      return [name, decimal(m), decimal(v), decimal(numbers[0]), decimal(numbers[1])];
    }),
  );
}
