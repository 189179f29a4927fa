/** The chapter about one head of attention, computed step by step. */

import { fill, h } from "../../element.js";
import { decimal } from "../../numbers.js";
import { picker } from "./controls.js";
import { headChoice } from "./choosing.js";
import { heatMap } from "./heatmap.js";
import { bar, formula, heading, inTheCode, note, paragraph, table, token } from "./prose.js";
import { stage } from "./stage.js";
import { dot, sum } from "./vectors.js";

/** @import { Chapter } from "./chapter.js" */
/** @import { Steps } from "./lesson.js" */

/** Columns and tokens whose numbers are written out; the others are added up. */
const NUM_COLUMNS = 4;
const NUM_VALUES = 3;
const NUM_VALUE_COLUMNS = 2;

/** @type {Chapter} */
export const head = {
  name: "head",
  title: "One head, step by step",
  text: () => [
    paragraph(
      "Attention lets a position use information from other positions. Each head projects the vectors to queries, keys" +
        " and values of width D, which is C divided by the number of heads. The query of a token is compared with" +
        " the key of every token: the dot product q · k measures how well they match.",
    ),
    paragraph(
      "Dot products grow with the width, so they are divided by √D. A mask sets the scores of hidden positions to −∞." +
        " The softmax turns the scores into weights between 0 and 1 whose sum is 1. The head's output is the sum of the" +
        " values, each times its weight.",
    ),
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
    picker("Query: the token that attends", steps.queries, query, (chosen) => {
      query = chosen;
      draw();
    }),
    heading("1. Query times key"),
    picker("Key: a token that it is compared with", steps.keys, key, (chosen) => {
      key = chosen;
      draw();
    }),
    product,
    h(
      "details",
      {},
      h("summary", {}, "All queries, keys and values"),
      heatMap("Queries", steps.matrix("query"), steps.queries),
      heatMap("Keys", steps.matrix("key"), steps.keys),
      heatMap("Values", steps.matrix("value"), steps.keys),
    ),
    rest,
    note(
      "All numbers come from the running model. They are rounded for display, so the last digit of a sum may differ by" +
        " one or two.",
    ),
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
      `q of ${steps.queries[query]} times k of ${steps.keys[key]}`,
      ["Column", ...columns.map(String), `the other ${others.length}`, "sum"],
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
    masked[key] === -Infinity ? "hidden: −∞" : decimal(masked[key]),
    bar(weights[key], decimal(weights[key])),
  ]);
  return [
    heading("2. Divide by √D, mask, softmax"),
    formula(
      `D = ${q.length}, √D = ${decimal(Math.sqrt(q.length))}; weight = exp(score) / sum of exp(score) over all keys`,
    ),
    table(
      `Weights of ${steps.queries[query]}`,
      ["Key", "q · k", "q · k / √D", "after the mask", "weight"],
      [...rows, ["sum", "", "", "", decimal(sum(weights))]],
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
    heading("3. Add up the values"),
    table(
      `Weight × value, column by column, of the first ${columns.length} of ${mixed.length} columns`,
      ["Token", "weight", ...columns.map((column) => `column ${column}`)],
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
                `the other ${others.length}`,
                decimal(sum(others.map((key) => weights[key]))),
                ...columns.map((column) => part(others, column)),
              ],
            ]
          : []),
        ["the head's answer", decimal(sum(weights)), ...columns.map((column) => decimal(mixed[column]))],
      ],
    ),
  ];
}
