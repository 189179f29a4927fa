/** The chapter about the causal mask and the padding mask. */

import { h } from "../../element.js";
import { decimal } from "../../numbers.js";
import { numbered } from "./controls.js";
import { formula, heading, inTheCode, note, paragraph, table, token } from "./prose.js";
import { stage } from "./stage.js";

/** @import { Chapter } from "./chapter.js" */
/** @import { Steps } from "./lesson.js" */

/** Maximum number of tokens shown; the rest of the mask looks the same. */
const MAX_TOKENS = 12;

/** @type {Chapter} */
export const masks = {
  name: "masks",
  title: "Masks",
  text: () => [
    paragraph(
      "The decoder writes from left to right, so no position may see a later one: it would see the answer that it has to" +
        " predict. The causal mask sets the scores of later positions to −∞. The softmax turns them into weights of exactly" +
        " 0. So all positions of a known translation can be computed at once, which is how the model is trained.",
    ),
    paragraph(
      "Sentences of a batch are padded to the same length. The padding mask hides the padding from every position, so a" +
        " sentence has the same translation in any batch.",
    ),
    formula("mask(t, s) = 0 where t may attend to s, −∞ elsewhere; causal: s ≤ t"),
    inTheCode("model/network/masks.py"),
  ],
  live: (lesson) => {
    if (!lesson.kinds.includes("decoder")) {
      return stage(async () => [
        note("The decoder of this model is recurrent: it reads a token after the other, and needs no causal mask."),
        ...padding((await lesson.tokens()).source),
      ]).element;
    }
    const head = { kind: /** @type {const} */ ("decoder"), layer: 0, head: 0 };
    const scores = stage(async () => [...causal(await lesson.steps(head)), ...padding((await lesson.tokens()).source)]);
    const { layers, heads } = lesson.size("decoder");
    return h(
      "div",
      {},
      h(
        "div",
        { class: "row choices" },
        numbered("Layer", layers, 0, (layer) => {
          head.layer = layer;
          scores.redraw();
        }),
        numbered("Head", heads, 0, (number) => {
          head.head = number;
          scores.redraw();
        }),
      ),
      scores.element,
    );
  },
};

/** @param {Steps} steps */
function causal(steps) {
  const masked = steps.matrix("masked");
  const tokens = steps.queries.slice(0, MAX_TOKENS);
  const hidden = h("span", { class: "hidden" }, decimal(-Infinity));
  const rows = tokens.map((name, row) => [
    token(name),
    ...tokens.map((_, column) =>
      masked.at(row, column) === -Infinity ? hidden.cloneNode(true) : decimal(masked.at(row, column), 2),
    ),
  ]);
  const cut = steps.queries.length > tokens.length;
  return [
    heading("The causal mask on your sentence"),
    note("The decoder reads the start marker and the translation so far."),
    table("Scores after the mask; a row for each token that attends", ["", ...tokens], rows),
    ...(cut ? [note(`The first ${tokens.length} of ${steps.queries.length} tokens are shown.`)] : []),
  ];
}

/** @param {string[]} source */
function padding(source) {
  const tokens = source.slice(0, MAX_TOKENS);
  const short = Math.max(1, Math.floor(tokens.length / 2));
  return [
    heading("The padding mask"),
    table(
      `A batch of your sentence and one of ${short} tokens`,
      ["Position", ...tokens.map((_, position) => String(position))],
      [
        ["your sentence", ...tokens.map(token)],
        ["may be attended to", ...tokens.map(() => "yes")],
        [
          "the other one",
          ...tokens.map((_, position) => (position < short ? "token" : h("span", { class: "muted" }, "padding"))),
        ],
        ["may be attended to", ...tokens.map((_, position) => (position < short ? "yes" : "no"))],
      ],
    ),
  ];
}
