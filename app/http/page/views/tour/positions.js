/** The chapter about embeddings and positions. */

import { fill, h } from "../../element.js";
import { picker } from "./controls.js";
import { heatMap } from "./heatmap.js";
import { formula, heading, inTheCode, note, paragraph, table } from "./prose.js";
import { stage } from "./stage.js";
import { dot, Matrix } from "./vectors.js";

/** @import { Model } from "../../types.js" */
import { decimal } from "../../numbers.js";
/** @import { Chapter } from "./chapter.js" */
/** @import { Steps } from "./lesson.js" */

/** Columns whose numbers are written out. */
const NUM_COLUMNS = 6;

/** The types of position vectors. @type {Record<string, { text: string, formulas: string[] }>} */
const LAYOUTS = {
  interleaved: {
    text:
      "In this model an even column holds a sine and the odd column beside it the cosine of the same angle. The" +
      " frequency falls from left to right: the first columns change with every position, the last ones hardly at all.",
    formulas: ["position(p, 2i) = sin(p / 10000^(2i / C))", "position(p, 2i + 1) = cos(p / 10000^(2i / C))"],
  },
  halves: {
    text:
      "In this model the left half of the columns holds sines and the right half the cosines of the same angles. In" +
      " each half the frequency falls from left to right.",
    formulas: ["position(p, i) = sin(p / 10000^(2i / C))", "position(p, C/2 + i) = cos(p / 10000^(2i / C))"],
  },
  tensor2tensor: {
    text:
      "In this model the left half of the columns holds sines and the right half the cosines of the same angles. In" +
      " each half the frequency falls from left to right.",
    formulas: [
      "position(p, i) = sin(p / 10000^(i / (C/2 − 1)))",
      "position(p, C/2 + i) = cos(p / 10000^(i / (C/2 − 1)))",
    ],
  },
  learned: {
    text: "In this model the position vectors are weights: they were learned in training, like the embeddings.",
    formulas: ["position(p) = row p of a learned table"],
  },
};

/** @type {Chapter} */
export const positions = {
  name: "positions",
  title: "Embedding and positional encoding",
  text: ({ architecture }) => [
    paragraph(
      `Every token id is a row of the embedding table: a vector of ${architecture.d_model} numbers (the width C, also` +
        ` called d_model).${architecture.scale_embedding ? " It is multiplied by √C." : ""} The same token has the same` +
        " embedding at every position, and attention ignores the order of tokens. Therefore the vector of the" +
        " token's position is added.",
    ),
    paragraph(
      LAYOUTS[architecture.positions]?.text ?? `The type of the position vectors is ${architecture.positions}.`,
    ),
    formula(`x = embedding(token)${architecture.scale_embedding ? " · √C" : ""} + position(p)`),
    ...(LAYOUTS[architecture.positions]?.formulas ?? []).map(formula),
    inTheCode("model/network/embeddings.py"),
  ],
  live: (lesson) =>
    stage(async () => {
      const steps = await lesson.steps({ kind: "encoder", layer: 0, head: 0 });
      const embedding = steps.matrix("embedding");
      const position = steps.matrix("position");
      const total = embedding.plus(position);
      const limit = Math.max(embedding.limit, total.limit);
      const tokens = steps.queries;
      return [
        heading("A row for each token, a column for each of the vector's numbers"),
        heatMap("Position vectors", position, tokens),
        heatMap("Embeddings", embedding, tokens, { limit }),
        heatMap("Embedding + position", total, tokens, { limit }),
        ...(steps.has("embedded") ? [heatMap("The sum after its norm", steps.matrix("embedded"), tokens)] : []),
        note("Point at a cell, or choose one with the arrow keys, to read its number."),
        oneToken(steps, lesson.model),
        heading("How similar are two positions?"),
        heatMap("Cosine of the angle between position vectors", similarity(position), tokens, {
          limit: 1,
          columns: tokens,
        }),
        note(
          lesson.model.architecture.positions === "learned"
            ? "What the model has learned about neighbours is visible next to the diagonal."
            : "Neighbours have similar vectors, and the similarity depends on the distance only. That lets attention" +
                " learn “the previous token”.",
        ),
      ];
    }).element,
};

/**
 * The vector of one token in numbers.
 *
 * @param {Steps} steps
 * @param {Model} model
 */
function oneToken(steps, model) {
  const embedding = steps.matrix("embedding");
  const position = steps.matrix("position");
  const numbers = h("div", { class: "vector" });

  /** @param {number} row */
  function choose(row) {
    const columns = [...Array(Math.min(NUM_COLUMNS, embedding.columns)).keys()];
    const expected = columns.map((column) => byFormula(model, row, column));
    fill(
      numbers,
      table(
        `The first numbers of ${steps.queries[row]} at position ${row}`,
        ["Column", ...columns.map(String)],
        [
          ["embedding", ...columns.map((column) => decimal(embedding.at(row, column)))],
          ["position", ...columns.map((column) => decimal(position.at(row, column)))],
          ...(expected.includes(null) ? [] : [["by the formula", ...expected.map((value) => decimal(Number(value)))]]),
          ["sum", ...columns.map((column) => decimal(embedding.at(row, column) + position.at(row, column)))],
        ],
      ),
    );
  }

  const first = Math.min(1, steps.queries.length - 1);
  choose(first);
  return h("div", {}, heading("One token's vector"), picker("Token", steps.queries, first, choose), numbers);
}

/**
 * What the formula says about a number of a position vector; null where there is none.
 *
 * @param {Model} model
 * @param {number} row
 * @param {number} column
 */
function byFormula({ architecture }, row, column) {
  const width = architecture.d_model;
  const position = row + Number(architecture.position_offset ?? 0);
  if (architecture.positions === "interleaved") {
    const angle = position / 10000 ** ((column - (column % 2)) / width);
    return column % 2 ? Math.cos(angle) : Math.sin(angle);
  }
  if (architecture.positions === "halves" || architecture.positions === "tensor2tensor") {
    const half = width / 2;
    const exponent = (column % half) / (architecture.positions === "halves" ? half : half - 1);
    const angle = position / 10000 ** exponent;
    return column < half ? Math.sin(angle) : Math.cos(angle);
  }
  return null;
}

/** @param {Matrix} position */
function similarity(position) {
  const rows = Array.from({ length: position.rows }, (_, index) => position.row(index));
  // A vector of zeros is like no other.
  const lengths = rows.map((row) => Math.sqrt(dot(row, row)) || 1);
  return Matrix.from(
    rows.length,
    rows.length,
    (one, other) => dot(rows[one], rows[other]) / (lengths[one] * lengths[other]),
  );
}
