/** Facts about a whole translation: the pivot language, confidence, omissions and protected spans. */

import { Characters } from "../characters.js";
import { h } from "../element.js";
import { languageName } from "../languages.js";
import { percent } from "../numbers.js";
import { LEVELS } from "./levels.js";

/** @import { Span, Translation } from "../types.js" */
/** @import { Child } from "../element.js" */

/** Maximum number of words that are listed; the marks show all. */
const MAX_NAMED = 12;

/**
 * The facts about a translation.
 *
 * @param {Translation} translation
 * @param {string} sourceText
 * @param {boolean} isPart Whether the score belongs to the sentence that was changed last.
 * @returns {HTMLElement[]}
 */
export function factsOf({ confidence, integrity, via, model }, sourceText, isPart) {
  const source = new Characters(sourceText);
  const quote = (/** @type {Span} */ span) => `“${source.slice(...span)}”`;
  /** @type {HTMLElement[]} */
  const facts = [];
  if (via) facts.push(fact(`Via ${languageName(via.language)}:`, `translated by ${via.model}, then by ${model}.`));
  if (confidence) {
    facts.push(score(confidence.score, isPart), legend(confidence.uncovered !== null));
    if (confidence.uncovered?.length) {
      facts.push(
        fact(
          "Possibly left out:",
          listed(confidence.uncovered.map(quote)),
          ". The translation hardly predicts this part.",
        ),
      );
    }
  }
  if (integrity) {
    const { spans, status } = integrity;
    const outcome =
      status === "intact"
        ? " unchanged, placed by the model."
        : " unchanged; spans that the model lost were restored by alignment.";
    facts.push(fact("Protected:", listed(spans.map((span) => quote(span.source))), outcome));
  }
  return facts;
}

/**
 * @param {number} share
 * @param {boolean} isPart
 */
function score(share, isPart) {
  const bar = h("span", { class: "bar", "aria-hidden": "true" });
  bar.style.setProperty("--share", String(share));
  return h(
    "p",
    { class: "confidence", title: "Estimated probability that the translation is adequate" },
    isPart ? "Confidence in the changed sentence: " : "Confidence in the translation: ",
    h("strong", {}, percent(share)),
    bar,
  );
}

/** @param {boolean} isCoverageKnown */
function legend(isCoverageKnown) {
  return h(
    "ul",
    { class: "legend", "aria-label": "Legend" },
    ...LEVELS.toReversed().map(({ below, name, label }) =>
      h("li", {}, h("span", { class: `sample ${name}` }, label), ` under ${percent(below)}`),
    ),
    isCoverageKnown && h("li", {}, h("span", { class: "sample uncovered" }, "source word"), " possibly left out"),
    h("li", {}, h("span", { class: "sample lit" }, "counterpart"), ", darker for stronger links"),
  );
}

/**
 * @param {string} title
 * @param {...Child} children
 */
function fact(title, ...children) {
  return h("p", { class: "fact" }, h("strong", {}, title), " ", ...children);
}

/** @param {string[]} names */
function listed(names) {
  const more = names.length - MAX_NAMED;
  return names.slice(0, MAX_NAMED).join(", ") + (more > 0 ? ` and ${more} more` : "");
}
