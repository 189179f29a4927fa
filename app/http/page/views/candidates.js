/** The words that a beam search considered behind a prefix. */

/** @import { Translation } from "../types.js" */

/**
 * @typedef {object} Choice One word.
 * @property {string} text The word, with a space before it unless it continues what is before.
 * @property {number} probability Of the word, given what is before it.
 * @property {string} continuation The rest of the best translation that begins with it; empty if the search found none.
 * @property {boolean} isEnd Whether the sentence ends here.
 */

/**
 * A hypothesis as a node of the tree of the search.
 *
 * @typedef {object} Node
 * @property {string} text All tokens up to here.
 * @property {string} word The word at the beginning of the text.
 * @property {number} probability Of all tokens up to here.
 * @property {number} score The mean log-probability: sums favour short sentences.
 * @property {number} steps
 * @property {boolean} finished
 * @property {Node[]} children
 */

const WITHOUT_SPACES =
  /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}\p{Script=Myanmar}]/u;

/**
 * The word at the beginning of a text, without the marks behind it. In scripts without spaces it is the first token.
 *
 * @param {string} text
 * @param {string} [token] The first token.
 */
export function wordAtStart(text, token = "") {
  const piece = /^\s*(\S*)/u.exec(text)?.[1] ?? "";
  if (token && WITHOUT_SPACES.test(token)) return token.trim();
  return piece.replace(/\p{P}+$/u, "") || piece;
}

/**
 * The words that come first, the most probable first. A word is joined from its tokens, and is listed once even if the
 * search wrote it in several ways.
 *
 * @param {Translation} translation With `search`.
 * @returns {Choice[]}
 */
export function choicesOf({ search = [] }) {
  const roots = treeOf(search.flatMap(({ hypotheses }) => hypotheses));
  /** @type {Map<string, Choice & { score: number }>} */
  const choices = new Map();
  for (const root of roots) {
    if (root.finished) {
      choices.set("", { text: "", probability: root.probability, continuation: "", isEnd: true, score: 0 });
    } else collect(root, choices);
  }
  return [...choices.values()]
    .filter(({ probability }) => probability > 0)
    .sort((a, b) => b.probability - a.probability);
}

/**
 * @param {import("../types.js").Candidate[]} candidates Each behind its parent.
 * @returns {Node[]} The first step's.
 */
function treeOf(candidates) {
  /** @type {Map<number, Node>} */
  const nodes = new Map();
  /** @type {Node[]} */
  const roots = [];
  /** @type {Map<number, string>} By node, the token that it begins with. */
  const first = new Map();
  for (const { id, parent, text, log_prob, finished } of candidates) {
    const before = nodes.get(parent);
    const own = (before?.text ?? "") + text;
    const token = first.get(parent) ?? text;
    const steps = (before?.steps ?? 0) + 1;
    const node = {
      text: own,
      word: wordAtStart(own, token),
      probability: Math.exp(log_prob),
      score: log_prob / steps,
      steps,
      finished,
      children: [],
    };
    nodes.set(id, node);
    // A token that is only the space before a word begins none yet.
    if (token.trim()) first.set(id, token);
    if (before) before.children.push(node);
    else roots.push(node);
  }
  return roots;
}

/**
 * Adds the words that end at a hypothesis or behind it. Where the search did not go on, the word is not known to end.
 *
 * @param {Node} node
 * @param {Map<string, Choice & { score: number }>} choices By word.
 */
function collect(node, choices) {
  const goingOn = node.children.filter(({ word }) => word !== node.word);
  for (const child of goingOn) collect(child, choices);
  if (!node.word || goingOn.length === node.children.length) return;
  const best = node.children.filter((child) => !goingOn.includes(child)).flatMap(finishedFrom);
  const [end] = best.sort((one, other) => other.score - one.score);
  const text = node.text.slice(0, node.text.indexOf(node.word) + node.word.length);
  const probability = node.probability - goingOn.reduce((sum, child) => sum + child.probability, 0);
  const known = choices.get(node.word);
  const isBetter = end && end.score > (known?.score ?? Number.NEGATIVE_INFINITY);
  choices.set(node.word, {
    text: known?.text ?? text,
    probability: Math.max(0, probability) + (known?.probability ?? 0),
    continuation: isBetter ? end.text.slice(text.length) : (known?.continuation ?? ""),
    isEnd: false,
    score: isBetter ? end.score : (known?.score ?? Number.NEGATIVE_INFINITY),
  });
}

/**
 * The hypotheses that end at a node or behind it.
 *
 * @param {Node} node
 * @returns {Node[]}
 */
function finishedFrom(node) {
  /** @type {Node[]} */
  const found = [];
  // Not by recursion: sentences are long.
  const left = [node];
  for (let next = left.pop(); next; next = left.pop()) {
    if (next.finished) found.push(next);
    left.push(...next.children);
  }
  return found;
}

/**
 * A beginning of a translation with one more word.
 *
 * @param {string} before The beginning, without trailing whitespace.
 * @param {string} text
 */
export function extended(before, text) {
  return (before + text).trim();
}
