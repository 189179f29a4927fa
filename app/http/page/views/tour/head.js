/** The chapter about one head of attention, computed step by step. */

import { fill, h } from "../../element.js";
import { decimal } from "../../numbers.js";
import { picker } from "./controls.js";
import { headChoice } from "./choosing.js";
import { heatMap } from "./heatmap.js";
import { bar, formula, heading, inTheCode, note, paragraph, table, token } from "./prose.js";
import { stage } from "./stage.js";
import { dot, sum } from "./vectors.js";
import { t } from "../../texts.js";

/** @import { Chapter } from "./chapter.js" */
/** @import { Steps } from "./lesson.js" */

/** Columns and tokens whose numbers are written out; the others are added up. */
const NUM_COLUMNS = 4;
const NUM_VALUES = 3;
const NUM_VALUE_COLUMNS = 2;

/** @type {Chapter} */
export const head = {
  name: "head",
  title: t("tour.head.oneHeadStepByStep"),
  text: () => [
    paragraph(t("tour.head.projections")),
    paragraph(t("tour.head.softmax")),
    formula("Attention(Q, K, V) = softmax(Q Kᵀ / √D + mask) V"),
    inTheCode("model/network/attention.py"),
  ],
  live: (lesson, focus) => {
    const computation = stage(async () => [oneHead(await lesson.steps(focus.head))]);
    return h("div", {}, headChoice(lesson, focus, {}, computation.redraw), computation.element);
  },
};

/** @param {Steps} steps */
function oneHead(steps) {
  let query = Math.min(1, steps.queries.length - 1);
  let key = Math.min(2, steps.keys.length - 1);
  const product = h("div");
  const rest = h("div");

  function draw() {
    fill(product, ...dotProduct(steps, query, key));
    fill(rest, ...softmax(steps, query), ...values(steps, query));
  }

  draw();
  return h(
    "div",
    {},
    picker(t("tour.head.queryTheTokenThatAttends"), steps.queries, query, (chosen) => {
      query = chosen;
      draw();
    }),
    heading(t("tour.head.queryTimesKey")),
    picker(t("tour.head.keyATokenThatIt"), steps.keys, key, (chosen) => {
      key = chosen;
      draw();
    }),
    product,
    h(
      "details",
      {},
      h("summary", {}, t("tour.head.allQueriesKeysAndValues")),
      heatMap(t("tour.head.queries"), steps.matrix("query"), steps.queries),
      heatMap(t("tour.head.keys"), steps.matrix("key"), steps.keys),
      heatMap(t("tour.head.values"), steps.matrix("value"), steps.keys),
    ),
    rest,
    note(t("tour.head.rounded")),
  );
}

/**
 * @param {Steps} steps
 * @param {number} query
 * @param {number} key
 */
function dotProduct(steps, query, key) {
  const q = steps.matrix("query").row(query);
  const k = steps.matrix("key").row(key);
  const products = q.map((value, column) => value * k[column]);
  const columns = [...Array(Math.min(NUM_COLUMNS, q.length)).keys()];
  const others = products.slice(columns.length);
  return [
    table(
      t("tour.head.product", { query: steps.queries[query], key: steps.keys[key] }),
      [
        t("tour.head.column"),
        ...columns.map(String),
        t("tour.head.others", { count: others.length }),
        t("tour.head.sum"),
      ],
      [
        ["q", ...columns.map((column) => decimal(q[column])), "…", ""],
        ["k", ...columns.map((column) => decimal(k[column])), "…", ""],
        ["q × k", ...columns.map((column) => decimal(products[column])), decimal(sum(others)), decimal(dot(q, k))],
      ],
    ),
  ];
}

/**
 * @param {Steps} steps
 * @param {number} query
 */
function softmax(steps, query) {
  const scores = steps.matrix("scores").row(query);
  const masked = steps.matrix("masked").row(query);
  const weights = steps.matrix("weights").row(query);
  const q = steps.matrix("query").row(query);
  const rows = steps.keys.map((name, key) => [
    token(name),
    decimal(dot(q, steps.matrix("key").row(key))),
    decimal(scores[key]),
    masked[key] === -Infinity ? t("tour.head.hidden") : decimal(masked[key]),
    bar(weights[key], decimal(weights[key])),
  ]);
  return [
    heading(t("tour.head.divideByDMaskSoftmax")),
    formula(t("tour.head.weightFormula", { width: q.length, root: decimal(Math.sqrt(q.length)) })),
    table(
      t("tour.head.weightsOf", { query: steps.queries[query] }),
      [t("tour.head.key"), "q · k", "q · k / √D", t("tour.head.afterTheMask"), t("tour.head.weight")],
      [...rows, [t("tour.head.sum"), "", "", "", decimal(sum(weights))]],
    ),
  ];
}

/**
 * @param {Steps} steps
 * @param {number} query
 */
function values(steps, query) {
  const weights = steps.matrix("weights").row(query);
  const value = steps.matrix("value");
  const mixed = steps.matrix("mixed").row(query);
  const columns = [...Array(Math.min(NUM_VALUE_COLUMNS, mixed.length)).keys()];
  const ranked = [...weights.keys()].sort((a, b) => weights[b] - weights[a]);
  const largest = ranked.slice(0, NUM_VALUES);
  const others = ranked.slice(NUM_VALUES);
  /** @param {number[]} keys @param {number} column */
  const part = (keys, column) => decimal(sum(keys.map((key) => weights[key] * value.at(key, column))));
  return [
    heading(t("tour.head.addUpTheValues")),
    table(
      t("tour.head.weightedValues", { count: columns.length, width: mixed.length }),
      [t("beam-tree.token"), t("tour.head.weight"), ...columns.map((column) => t("tour.head.column2", { column }))],
      [
        ...largest.map((key) => [
          token(steps.keys[key]),
          decimal(weights[key]),
          ...columns.map(
            (column) => `${decimal(weights[key])} × ${decimal(value.at(key, column))} = ${part([key], column)}`,
          ),
        ]),
        ...(others.length
          ? [
              [
                t("tour.head.others", { count: others.length }),
                decimal(sum(others.map((key) => weights[key]))),
                ...columns.map((column) => part(others, column)),
              ],
            ]
          : []),
        [t("tour.head.theHeadSAnswer"), decimal(sum(weights)), ...columns.map((column) => decimal(mixed[column]))],
      ],
    ),
  ];
}
