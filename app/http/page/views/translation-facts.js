/** Facts about a whole translation: the pivot language, confidence, omissions and protected spans. */

import { Characters } from "../characters.js";
import { h } from "../element.js";
import { languageName } from "../languages.js";
import { percent } from "../numbers.js";
import { LEVELS } from "./levels.js";
import { t } from "../texts.js";

/** @import { Span, Translation } from "../types.js" */
/** @import { Child } from "../element.js" */

/** Maximum number of words that are listed; the marks show all. */
const MAX_NAMED = 12;

/**
 * The facts about a translation.
 *
 * @param {Translation} translation
 * @param {string} sourceText
 * @param {{ isPart: boolean, numSentences: number, estimatesRight: boolean }} shown `isPart`: whether the score belongs to the
 *   sentence that was changed last; `estimatesRight`: whether it is the probability that the meaning is right.
 * @returns {HTMLElement[]}
 */
export function factsOf({ confidence, integrity, via, model }, sourceText, { isPart, numSentences, estimatesRight }) {
  const source = new Characters(sourceText);
  const quote = (/** @type {Span} */ span) => t("shared.quote", { text: source.slice(...span) });
  /** @type {HTMLElement[]} */
  const facts = [];
  if (via)
    facts.push(
      fact(
        t("translation-facts.via", { language: languageName(via.language) }),
        t("translation-facts.twoModels", { first: via.model, second: model }),
      ),
    );
  if (confidence) {
    // The product of two models' scores is not measured.
    const label = scoreLabel(isPart, numSentences > 1, estimatesRight && !via);
    facts.push(score(confidence.score, label), legend(confidence.uncovered !== null, numSentences > 1));
    if (confidence.uncovered?.length) {
      facts.push(
        fact(
          t("translation-facts.possiblyLeftOut"),
          listed(confidence.uncovered.map(quote)),
          t("translation-facts.hardlyPredicted"),
        ),
      );
    }
  }
  if (integrity?.numbers?.length) {
    const numbers = listed(integrity.numbers.map((number) => quote(number.source)));
    facts.push(fact(t("translation-facts.numbers"), numbers, t("translation-facts.respelled")));
  }
  if (integrity?.spans.length) {
    const { spans, status } = integrity;
    const outcome =
      status === "intact" ? t("translation-facts.unchangedPlacedByTheModel") : t("translation-facts.restored");
    facts.push(fact(t("translation-facts.protected"), listed(spans.map((span) => quote(span.source))), outcome));
  }
  return facts;
}

/**
 * What a score is called, and what it means.
 *
 * @param {boolean} isPart
 * @param {boolean} hasSentences
 * @param {boolean} estimatesRight
 * @returns {{ name: string, meaning: string }}
 */
function scoreLabel(isPart, hasSentences, estimatesRight) {
  if (!estimatesRight) {
    const name = isPart ? t("translation-facts.confidenceOfSentence") : t("translation-facts.confidence");
    return { name, meaning: t("translation-facts.estimate") };
  }
  const meaning = t("translation-facts.estimateRight");
  if (isPart) return { name: t("translation-facts.rightOfSentence"), meaning };
  return { name: hasSentences ? t("translation-facts.rightOfText") : t("translation-facts.right"), meaning };
}

/**
 * @param {number} share
 * @param {{ name: string, meaning: string }} label
 */
function score(share, { name, meaning }) {
  const bar = h("span", { class: "bar", "aria-hidden": "true" });
  bar.style.setProperty("--share", String(share));
  return h(
    "p",
    { class: "confidence", title: meaning },
    name,
    h("strong", {}, percent(share)),
    bar,
    h("span", { class: "muted" }, t("translation-facts.ownEstimate")),
  );
}

/**
 * @param {boolean} isCoverageKnown
 * @param {boolean} hasSentences Whether sentences are marked.
 */
function legend(isCoverageKnown, hasSentences) {
  return h(
    "ul",
    { class: "legend", "aria-label": t("translation-facts.legend") },
    ...LEVELS.toReversed().map(({ below, name, label }) =>
      h(
        "li",
        {},
        h("span", { class: `sample ${name}` }, label),
        t("translation-facts.under", { bound: percent(below) }),
      ),
    ),
    hasSentences && h("li", {}, t("translation-facts.sentences")),
    isCoverageKnown &&
      h(
        "li",
        {},
        h("span", { class: "sample uncovered" }, t("translation-facts.sourceWord")),
        t("translation-facts.possiblyLeftOut2"),
      ),
    h(
      "li",
      {},
      h("span", { class: "sample lit" }, t("translation-facts.counterpart")),
      t("translation-facts.darkerForStrongerLinks"),
    ),
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
  return names.slice(0, MAX_NAMED).join(", ") + (more > 0 ? t("translation-facts.andMore", { more }) : "");
}
