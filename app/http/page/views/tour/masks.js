/** The chapter about the causal mask and the padding mask. */

import { h } from "../../element.js";
import { decimal } from "../../numbers.js";
import { numbered } from "./controls.js";
import { formula, heading, inTheCode, note, paragraph, table, token } from "./prose.js";
import { stage } from "./stage.js";
import { t } from "../../texts.js";

/** @import { Chapter } from "./chapter.js" */
/** @import { Steps } from "./lesson.js" */

/** Maximum number of tokens shown; the rest of the mask looks the same. */
const MAX_TOKENS = 12;

/** @type {Chapter} */
export const masks = {
  name: "masks",
  title: t("tour.masks.masks"),
  text: () => [
    paragraph(t("tour.masks.causal")),
    paragraph(t("tour.masks.padding")),
    formula(t("tour.masks.formula")),
    inTheCode("model/network/masks.py"),
  ],
  live: (lesson) => {
    if (!lesson.kinds.includes("decoder")) {
      return stage(async () => [note(t("masks.recurrent")), ...padding((await lesson.tokens()).source)]).element;
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
        numbered(t("head-grid.layer"), layers, 0, (layer) => {
          head.layer = layer;
          scores.redraw();
        }),
        numbered(t("tour.choosing.head"), heads, 0, (number) => {
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
    heading(t("tour.masks.theCausalMaskOnYour")),
    note(t("tour.masks.decoderReads")),
    table(t("tour.masks.scores"), ["", ...tokens], rows),
    ...(cut ? [note(t("tour.masks.firstTokens", { shown: tokens.length, count: steps.queries.length }))] : []),
  ];
}

/** @param {string[]} source */
function padding(source) {
  const tokens = source.slice(0, MAX_TOKENS);
  const short = Math.max(1, Math.floor(tokens.length / 2));
  return [
    heading(t("tour.masks.thePaddingMask")),
    table(
      t("tour.masks.batch", { short }),
      [t("tour.masks.position"), ...tokens.map((_, position) => String(position))],
      [
        [t("tour.masks.yourSentence"), ...tokens.map(token)],
        [t("tour.masks.mayBeAttendedTo"), ...tokens.map(() => "yes")],
        [
          t("tour.masks.theOtherOne"),
          ...tokens.map((_, position) =>
            position < short ? "token" : h("span", { class: "muted" }, t("tour.masks.padding2")),
          ),
        ],
        [t("tour.masks.mayBeAttendedTo"), ...tokens.map((_, position) => (position < short ? "yes" : "no"))],
      ],
    ),
  ];
}
