/** The chapter about embeddings and positions. */

import { fill, h } from "../../element.js";
import { picker } from "./controls.js";
import { heatMap } from "./heatmap.js";
import { formula, heading, inTheCode, note, paragraph, table } from "./prose.js";
import { stage } from "./stage.js";
import { dot, Matrix } from "./vectors.js";

/** @import { Model } from "../../types.js" */
import { decimal } from "../../numbers.js";
import { t } from "../../texts.js";
/** @import { Chapter } from "./chapter.js" */
/** @import { Steps } from "./lesson.js" */

/** Columns whose numbers are written out. */
const NUM_COLUMNS = 6;

/** The types of position vectors. @type {Record<string, { text: string, formulas: string[] }>} */
const LAYOUTS = {
  interleaved: {
    text: t("tour.positions.interleaved"),
    formulas: ["position(p, 2i) = sin(p / 10000^(2i / C))", "position(p, 2i + 1) = cos(p / 10000^(2i / C))"],
  },
  halves: {
    text: t("tour.positions.halves"),
    formulas: ["position(p, i) = sin(p / 10000^(2i / C))", "position(p, C/2 + i) = cos(p / 10000^(2i / C))"],
  },
  tensor2tensor: {
    text: t("tour.positions.halves"),
    formulas: [
      "position(p, i) = sin(p / 10000^(i / (C/2 − 1)))",
      "position(p, C/2 + i) = cos(p / 10000^(i / (C/2 − 1)))",
    ],
  },
  learned: {
    text: t("tour.positions.learned"),
    formulas: [t("tour.positions.learnedFormula")],
  },
};

/** @type {Chapter} */
export const positions = {
  name: "positions",
  title: t("tour.positions.embeddingAndPositionalEncoding"),
  text: ({ architecture }) => [
    paragraph(
      t("tour.positions.embedding", {
        width: architecture.d_model,
        scaled: architecture.scale_embedding ? t("tour.positions.scaled") : "",
      }),
    ),
    paragraph(LAYOUTS[architecture.positions]?.text ?? t("tour.positions.kind", { positions: architecture.positions })),
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
        heading(t("tour.positions.reading")),
        heatMap(t("tour.positions.positionVectors"), position, tokens),
        heatMap(t("tour.positions.embeddings"), embedding, tokens, { limit }),
        heatMap(t("tour.positions.embeddingPosition"), total, tokens, { limit }),
        note(t("tour.positions.pointAtCell")),
        oneToken(steps, lesson.model),
        heading(t("tour.positions.howSimilarAreTwoPositions")),
        heatMap(t("tour.positions.cosineOfTheAngleBetween"), similarity(position), tokens, {
          limit: 1,
          columns: tokens,
        }),
        note(
          lesson.model.architecture.positions === "learned"
            ? t("tour.positions.learnedNeighbours")
            : t("tour.positions.neighbours"),
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
        t("tour.positions.firstNumbers", { token: steps.queries[row], row }),
        [t("tour.head.column"), ...columns.map(String)],
        [
          [t("tour.positions.embedding2"), ...columns.map((column) => decimal(embedding.at(row, column)))],
          [t("tour.positions.position"), ...columns.map((column) => decimal(position.at(row, column)))],
          ...(expected.includes(null)
            ? []
            : [[t("tour.positions.byTheFormula"), ...expected.map((value) => decimal(Number(value)))]]),
          [
            t("tour.head.sum"),
            ...columns.map((column) => decimal(embedding.at(row, column) + position.at(row, column))),
          ],
        ],
      ),
    );
  }

  const first = Math.min(1, steps.queries.length - 1);
  choose(first);
  return h(
    "div",
    {},
    heading(t("tour.positions.oneTokenSVector")),
    picker(t("beam-tree.token"), steps.queries, first, choose),
    numbers,
  );
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
