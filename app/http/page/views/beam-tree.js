/**
 * A search as a tree from left to right, a column for each step: a picture, and the same as a table.
 */

import { fill, h, svg } from "../element.js";
import { decimal, percent } from "../numbers.js";
import { BeamSearch, fate } from "./beam-search.js";
import { t } from "../texts.js";

/** @import { SearchStep } from "../types.js" */
/** @import { Hypothesis } from "./beam-search.js" */

const ROW = 44;
const BOX = 34;
const GAP = 30;
const MARGIN = 10;
const START = 16;
const CHARACTER = 8;
const NARROWEST = 56;
const MAX_CHARACTERS = 18;
const COLUMNS = [
  t("beam-tree.step"),
  t("beam-tree.token"),
  t("beam-tree.probability"),
  t("beam-tree.logProbability"),
  t("beam-tree.state"),
  t("beam-tree.hypothesis"),
];

/** The tree of a search. Its hypotheses can be selected with the pointer or the arrow keys. */
export class BeamTree {
  /** @type {BeamSearch | null} */
  #search = null;
  /** @type {Map<Hypothesis, SVGGElement>} */
  #boxes = new Map();
  /** @type {Map<Hypothesis, SVGPathElement>} */
  #lines = new Map();
  /** @type {Hypothesis | null} The described hypothesis. */
  #current = null;
  #dropped = h("input", { type: "checkbox", onchange: () => this.#draw() });
  #picture = h("div", { class: "beam-frame" });
  #detail = h("dl", { class: "beam-detail" });
  #rows = h("tbody");
  #table = h(
    "details",
    { ontoggle: () => this.#fillTable() },
    h("summary", {}, t("beam-tree.theSearchAsATable")),
    h(
      "div",
      { class: "weight-table", tabindex: 0, role: "region", "aria-label": t("beam-tree.theSearchAsATable") },
      h(
        "table",
        {},
        h("thead", {}, h("tr", {}, ...COLUMNS.map((name) => h("th", { scope: "col" }, name)))),
        this.#rows,
      ),
    ),
  );
  #content = h(
    "div",
    {},
    h("p", { class: "muted" }, t("beam-tree.about")),
    h(
      "div",
      { class: "row beam-legend" },
      h("label", { class: "check" }, this.#dropped, t("beam-tree.showDroppedHypotheses")),
      h("span", { class: "beam-key best" }, t("beam-tree.theTranslation")),
      h("span", { class: "beam-key" }, t("beam-tree.kept")),
      h("span", { class: "beam-key dropped" }, t("beam-tree.dropped")),
      h("span", {}, t("beam-tree.finished")),
    ),
    this.#picture,
    this.#detail,
    this.#table,
  );
  #note = h("p", { class: "muted" });

  constructor() {
    this.element = h(
      "section",
      { class: "card beam", "aria-labelledby": "beam-title" },
      h("h2", { id: "beam-title" }, t("beam-tree.theSearch")),
      this.#note,
      this.#content,
    );
    this.explain("");
  }

  /** Shows a message instead of a tree. @param {string} reason */
  explain(reason) {
    this.#search = null;
    this.#content.hidden = true;
    this.#note.hidden = false;
    fill(this.#note, reason);
  }

  /**
   * Shows a search.
   *
   * @param {SearchStep[]} steps
   * @param {string} translation
   */
  show(steps, translation) {
    this.#search = new BeamSearch(steps, translation);
    this.#content.hidden = false;
    this.#note.hidden = true;
    this.#current = this.#search.answer ?? this.#search.hypotheses[0] ?? null;
    fill(this.#rows);
    this.#fillTable();
    this.#draw();
  }

  /** Fills the table once it is open: a long search has many rows. */
  #fillTable() {
    if (!this.#search || !this.#table.open || this.#rows.rows.length) return;
    fill(this.#rows, ...this.#search.hypotheses.map((hypothesis) => h("tr", {}, ...tableCells(hypothesis))));
  }

  #draw() {
    const search = this.#search;
    if (!search) return;
    const rows = search.rows(this.#dropped.checked);
    if (this.#current && !rows.has(this.#current)) this.#current = search.answer;
    const shown = search.hypotheses.filter((hypothesis) => rows.has(hypothesis));
    const left = columnsOf(shown, search.numSteps);
    const place = (/** @type {Hypothesis} */ hypothesis) => ({
      x: left[hypothesis.step],
      y: MARGIN + (rows.get(hypothesis) ?? 0) * ROW,
      width: left[hypothesis.step + 1] - left[hypothesis.step] - GAP,
    });
    this.#lines = new Map(
      shown.map((hypothesis) => [
        hypothesis,
        line(hypothesis, place(hypothesis), hypothesis.parent && place(hypothesis.parent)),
      ]),
    );
    this.#boxes = new Map(shown.map((hypothesis) => [hypothesis, this.#box(hypothesis, place(hypothesis))]));
    const width = left[search.numSteps] - GAP + MARGIN;
    const height = MARGIN * 2 + (Math.max(0, ...rows.values()) + 1) * ROW - (ROW - BOX);
    fill(
      this.#picture,
      svg(
        "svg",
        {
          role: "tree",
          "aria-label": t("beam-tree.keys"),
          width,
          height,
          viewBox: `0 0 ${width} ${height}`,
          onkeydown: (/** @type {KeyboardEvent} */ event) => this.#move(event),
        },
        svg("g", { "aria-hidden": "true" }, svg("circle", { cx: START / 2 + 2, cy: MARGIN + BOX / 2, r: 5 })),
        // The lines of the translation are last, and so on top.
        svg("g", { "aria-hidden": "true" }, ...bestLast(this.#lines)),
        ...bestLast(this.#boxes),
      ),
    );
    this.#describe(this.#current);
  }

  /**
   * @param {Hypothesis} hypothesis
   * @param {{ x: number, y: number, width: number }} place
   */
  #box(hypothesis, { x, y, width }) {
    const { candidate } = hypothesis;
    const token = candidate.finished ? `■ ${displayed(hypothesis)}` : displayed(hypothesis);
    const score = decimal(candidate.log_prob, 2);
    return svg(
      "g",
      {
        class: classOf("beam-box", hypothesis),
        role: "treeitem",
        tabindex: -1,
        "aria-level": hypothesis.step + 1,
        "aria-selected": "false",
        "aria-label": [
          t("beam-tree.nodeScore", { token, score }),
          t("beam-tree.step2", { step: hypothesis.step }),
          fate(hypothesis),
          t("beam-tree.probabilityOfTheToken", { probability: percent(hypothesis.probability, { exact: true }) }),
          t("beam-tree.hypothesis2", { text: hypothesis.text }),
        ].join("; "),
        transform: `translate(${x} ${y})`,
        onpointerenter: () => this.#describe(hypothesis),
        onfocus: () => this.#describe(hypothesis),
      },
      svg("rect", { width, height: BOX, rx: 7 }),
      svg("text", { x: width / 2, y: 15, class: "beam-token" }, token),
      svg("text", { x: width / 2, y: 28, class: "beam-score" }, score),
    );
  }

  /** Marks a hypothesis and its ancestors, and shows its numbers. @param {Hypothesis | null} hypothesis */
  #describe(hypothesis) {
    for (const shape of [...this.#boxes.values(), ...this.#lines.values()]) shape.classList.remove("path");
    const before = this.#current && this.#boxes.get(this.#current);
    before?.setAttribute("tabindex", "-1");
    before?.setAttribute("aria-selected", "false");
    this.#current = hypothesis;
    if (!hypothesis) return;
    for (let node = /** @type {Hypothesis | null} */ (hypothesis); node; node = node.parent) {
      this.#boxes.get(node)?.classList.add("path");
      this.#lines.get(node)?.classList.add("path");
    }
    const now = this.#boxes.get(hypothesis);
    now?.setAttribute("tabindex", "0");
    now?.setAttribute("aria-selected", "true");
    const { candidate } = hypothesis;
    const facts = [
      [t("beam-tree.hypothesis"), hypothesis.text || "(empty)"],
      [t("beam-tree.state"), fate(hypothesis)],
      [t("beam-tree.logProbability"), decimal(candidate.log_prob, 4)],
      [t("beam-tree.probability"), percent(Math.exp(candidate.log_prob), { exact: true })],
      [t("beam-tree.lastToken"), `${candidate.token}, ${percent(hypothesis.probability, { exact: true })}`],
    ];
    fill(
      this.#detail,
      ...facts.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", { dir: "auto" }, value))),
    );
  }

  /** @param {KeyboardEvent} event */
  #move(event) {
    const current = this.#current;
    if (!current) return;
    const within = [...this.#boxes.keys()].filter(({ step }) => step === current.step);
    const rowOrder = within.sort((a, b) => this.#top(a) - this.#top(b));
    const index = rowOrder.indexOf(current);
    const children = current.children.filter((child) => this.#boxes.has(child));
    /** @type {Record<string, Hypothesis | null | undefined>} */
    const targets = {
      ArrowLeft: current.parent,
      ArrowRight: children.find(({ best }) => best) ?? children[0],
      ArrowUp: rowOrder[index - 1],
      ArrowDown: rowOrder[index + 1],
    };
    if (!(event.key in targets)) return;
    event.preventDefault();
    const target = targets[event.key];
    const box = target && this.#boxes.get(target);
    box?.focus();
    box?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }

  /** @param {Hypothesis} hypothesis */
  #top(hypothesis) {
    return this.#boxes.get(hypothesis)?.transform.baseVal.getItem(0).matrix.f ?? 0;
  }
}

/**
 * The left edge of each step's column, and of the one behind the last.
 *
 * @param {Hypothesis[]} shown
 * @param {number} numSteps
 */
function columnsOf(shown, numSteps) {
  const widths = new Array(numSteps).fill(NARROWEST);
  for (const hypothesis of shown) {
    const characters = [...displayed(hypothesis)].length + (hypothesis.candidate.finished ? 2 : 0);
    widths[hypothesis.step] = Math.max(widths[hypothesis.step], characters * CHARACTER + 16);
  }
  const left = [MARGIN + START + GAP];
  for (const width of widths) left.push(left[left.length - 1] + width + GAP);
  return left;
}

/** A token as its box shows it. @param {Hypothesis} hypothesis */
function displayed({ candidate }) {
  const characters = [...candidate.token];
  return characters.length > MAX_CHARACTERS ? `${characters.slice(0, MAX_CHARACTERS - 1).join("")}…` : candidate.token;
}

/**
 * The line from a hypothesis' parent, or from the beginning.
 *
 * @param {Hypothesis} hypothesis
 * @param {{ x: number, y: number }} to
 * @param {{ x: number, y: number, width: number } | null} from
 */
function line(hypothesis, to, from) {
  const start = from ? { x: from.x + from.width, y: from.y + BOX / 2 } : { x: START, y: MARGIN + BOX / 2 };
  const end = { x: to.x, y: to.y + BOX / 2 };
  const middle = end.x - GAP / 2;
  const path = `M${start.x} ${start.y} H${end.x - GAP} C${middle} ${start.y} ${middle} ${end.y} ${end.x} ${end.y}`;
  return svg("path", { class: classOf("beam-line", hypothesis), d: path });
}

/**
 * @param {string} base
 * @param {Hypothesis} hypothesis
 */
function classOf(base, { best, candidate }) {
  return [base, best && "best", !candidate.kept && "dropped", candidate.finished && "finished"]
    .filter(Boolean)
    .join(" ");
}

/**
 * @template {SVGElement} S
 * @param {Map<Hypothesis, S>} shapes
 * @returns {S[]}
 */
function bestLast(shapes) {
  const entries = [...shapes].sort(([a], [b]) => Number(a.best) - Number(b.best));
  return entries.map(([, shape]) => shape);
}

/** @param {Hypothesis} hypothesis */
function tableCells(hypothesis) {
  const { candidate, step, probability, text } = hypothesis;
  const values = [
    candidate.token,
    percent(probability, { exact: true }),
    decimal(candidate.log_prob, 4),
    fate(hypothesis),
    text,
  ];
  return [h("th", { scope: "row" }, step), ...values.map((value) => h("td", {}, value))];
}
