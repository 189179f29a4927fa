/** The chapter about all heads and layers. */

import { h } from "../../element.js";
import { choice } from "./controls.js";
import { picture } from "./heatmap.js";
import { KINDS } from "./lesson.js";
import { formula, inTheCode, note, paragraph } from "./prose.js";
import { stage } from "./stage.js";
import { Matrix } from "./vectors.js";
import { t } from "../../texts.js";

/** @import { Chapter, Focus } from "./chapter.js" */
/** @import { Kind } from "../../types.js" */
/** @import { Lesson } from "./lesson.js" */

/** @type {Chapter} */
export const heads = {
  name: "heads",
  title: t("tour.heads.allHeadsAllLayers"),
  text: ({ architecture }) => [
    paragraph(t("tour.heads.beside", { num_heads: architecture.num_heads })),
    paragraph(
      t("tour.heads.stacked", {
        encoder_layers: architecture.encoder_layers,
        decoder_layers: architecture.decoder_layers,
      }),
    ),
    formula("MultiHead(x) = [head₀, head₁, …] W_output"),
    inTheCode("model/network/attention.py", "model/network/layers.py"),
  ],
  live: (lesson, focus) => {
    const grid = stage(async () => [await gridOf(lesson, focus)]);
    return h(
      "div",
      {},
      choice(t("main.attention"), Object.entries(KINDS), focus.head.kind, (chosen) => {
        focus.head = { ...focus.head, kind: /** @type {Kind} */ (chosen) };
        grid.redraw();
      }),
      grid.element,
      note(t("tour.heads.reading")),
      h("p", {}, h("a", { href: "#/attention" }, t("tour.heads.exploreTheWeightsOfYour")), "."),
    );
  },
};

/**
 * A picture of each head; a row for each layer.
 *
 * @param {Lesson} lesson
 * @param {Focus} focus
 */
async function gridOf(lesson, focus) {
  const { kind } = focus.head;
  const weights = await lesson.weights(kind);
  const [numLayers, numHeads] = weights.shape;
  const grid = h("div", { class: "heads" });
  for (let layer = 0; layer < numLayers; layer += 1) {
    for (let head = 0; head < numHeads; head += 1) {
      const name = t("tour.heads.layerHead", { layer, head });
      const open = () => {
        focus.head = { kind, layer, head };
        focus.open("head");
      };
      const map = picture(Matrix.of(weights, [layer, head]), t("tour.heads.weightsOf", { name }), 1);
      grid.append(h("button", { type: "button", class: "map", onclick: open }, map, h("span", {}, name)));
    }
  }
  grid.style.setProperty("--heads", String(numHeads));
  return grid;
}
