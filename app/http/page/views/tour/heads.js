/** The chapter about all heads and layers. */

import { h } from "../../element.js";
import { choice } from "./controls.js";
import { picture } from "./heatmap.js";
import { KINDS } from "./lesson.js";
import { formula, inTheCode, note, paragraph } from "./prose.js";
import { stage } from "./stage.js";
import { Matrix } from "./vectors.js";

/** @import { Chapter, Focus } from "./chapter.js" */
/** @import { Kind } from "../../types.js" */
/** @import { Lesson } from "./lesson.js" */

/** @type {Chapter} */
export const heads = {
  name: "heads",
  title: "All heads, all layers",
  text: ({ architecture }) => [
    paragraph(
      `A layer has ${architecture.num_heads} heads side by side. Each has its own projections, so each can look for` +
        " something else: the previous token, the verb, the word that is translated next. Their outputs are" +
        " concatenated and projected back to the width C.",
    ),
    paragraph(
      `Layers are stacked: ${architecture.encoder_layers} in the encoder, ${architecture.decoder_layers} in the decoder.` +
        " Each reads the output of the layer before it, so deeper layers compare what tokens mean in this sentence. In" +
        " cross-attention the decoder's tokens attend to the encoder's output, the memory.",
    ),
    formula("MultiHead(x) = [head₀, head₁, …] W_output"),
    inTheCode("model/network/attention.py", "model/network/layers.py"),
  ],
  live: (lesson, focus) => {
    const grid = stage(async () => [await gridOf(lesson, focus)]);
    return h(
      "div",
      {},
      choice("Attention", Object.entries(KINDS), focus.head.kind, (chosen) => {
        focus.head = { ...focus.head, kind: /** @type {Kind} */ (chosen) };
        grid.redraw();
      }),
      grid.element,
      note(
        "Rows are the tokens that attend, columns those that are attended to, both in the order of the sentence. Choose a" +
          " head to see its numbers.",
      ),
      h("p", {}, h("a", { href: "#/attention" }, "Explore the weights of your sentence"), "."),
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
      const name = `layer ${layer}, head ${head}`;
      const open = () => {
        focus.head = { kind, layer, head };
        focus.open("head");
      };
      const map = picture(Matrix.of(weights, [layer, head]), `Weights of ${name}`, 1);
      grid.append(h("button", { type: "button", class: "map", onclick: open }, map, h("span", {}, name)));
    }
  }
  grid.style.setProperty("--heads", String(numHeads));
  return grid;
}
