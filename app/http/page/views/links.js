/** The links between the words of two texts. The service links parts of words; here they are grouped by word. */

/** @import { AlignmentLink } from "../types.js" */
/** @import { Words } from "./words.js" */

/** @typedef {{ word: number, weight: number }} Link  A word of the other text, and the weight of its strongest link. */

/**
 * The links of each word, strongest first. A word without any is not in the maps.
 *
 * @param {Words} source
 * @param {Words} target
 * @param {AlignmentLink[]} alignment
 * @returns {{ ofSource: Map<number, Link[]>, ofTarget: Map<number, Link[]> }}
 */
export function linkWords(source, target, alignment) {
  /** @type {Map<number, Map<number, number>>} */
  const ofSource = new Map();
  /** @type {Map<number, Map<number, number>>} */
  const ofTarget = new Map();
  for (const link of alignment) {
    const targets = target.within(link.target);
    for (const from of source.within(link.source)) {
      for (const to of targets) {
        keepStrongest(ofSource, from, to, link.weight);
        keepStrongest(ofTarget, to, from, link.weight);
      }
    }
  }
  return { ofSource: listed(ofSource), ofTarget: listed(ofTarget) };
}

/**
 * @param {Map<number, Map<number, number>>} links
 * @param {number} from
 * @param {number} to
 * @param {number} weight
 */
function keepStrongest(links, from, to, weight) {
  const weights = links.get(from) ?? new Map();
  weights.set(to, Math.max(weights.get(to) ?? 0, weight));
  links.set(from, weights);
}

/**
 * @param {Map<number, Map<number, number>>} links
 * @returns {Map<number, Link[]>}
 */
function listed(links) {
  return new Map(
    [...links].map(([from, weights]) => [
      from,
      [...weights].map(([word, weight]) => ({ word, weight })).sort((a, b) => b.weight - a.weight),
    ]),
  );
}
