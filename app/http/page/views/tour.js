/**
 * A tour of the Transformer, with the running model and one sentence.
 */

import { fill, h } from "../element.js";
import { languageName } from "../languages.js";
import { beamSize, optionFields } from "../option-fields.js";
import { sentenceOf } from "../chosen-sentence.js";
import { beam } from "./tour/beam.js";
import { head } from "./tour/head.js";
import { heads } from "./tour/heads.js";
import { repaint } from "./tour/heatmap.js";
import { Lesson } from "./tour/lesson.js";
import { masks } from "./tour/masks.js";
import { output } from "./tour/output.js";
import { positions } from "./tour/positions.js";
import { residual } from "./tour/residual.js";
import { subwords } from "./tour/subwords.js";
import { t } from "../texts.js";

/** @import { Choices, Page, View } from "../types.js" */
/** @import { Chapter, Focus } from "./tour/chapter.js" */

/** @type {Chapter[]} In the order in which data passes through the model. */
const CHAPTERS = [subwords, positions, head, heads, residual, masks, output, beam];

/**
 * The view.
 *
 * @param {Page} page
 * @returns {View}
 */
export function tourView(page) {
  const contents = tableOfContents();
  const article = h("article", { class: "card chapter" });
  const sentence = sentenceForm(page, renew);
  let chapter = CHAPTERS[0];
  /** @type {Lesson | null} */
  let lesson = null;
  let isShown = false;
  /** @type {Focus} */
  const focus = { head: { kind: "encoder", layer: 0, head: 0 }, open: (name) => page.open(`tour/${name}`) };

  function draw() {
    contents.mark(chapter);
    if (lesson) fill(article, ...chapterParts(chapter, lesson, focus));
    else fill(article, h("p", { class: "notice" }, t("tour.noSingleModelTranslatesThese")));
  }

  function renew() {
    lesson?.close();
    lesson = lessonOf(page);
    sentence.show(lesson);
    draw();
  }

  /** @type {(keyof Choices)[]} */
  const relevant = ["source", "target", "text", "sentence", "beamSize", "formality"];
  let isOutdated = true;
  function outdate() {
    if (isShown) renew();
    else isOutdated = true;
  }

  page.store.subscribe((_choices, changed) => {
    if (relevant.some((name) => changed.has(name))) outdate();
  });
  addEventListener("verso:key-given", outdate);
  addEventListener("verso:theme", () => repaint(article));

  return {
    element: h(
      "section",
      { class: "tour", "aria-labelledby": "tour-title" },
      h("h1", { id: "tour-title" }, t("tour.howATransformerTranslatesYour")),
      sentence.element,
      h("div", { class: "pages" }, contents.element, article),
    ),
    show(part) {
      const requested = CHAPTERS.find(({ name }) => name === part) ?? CHAPTERS[0];
      const moves = isShown && requested !== chapter;
      chapter = requested;
      isShown = true;
      if (isOutdated) renew();
      else if (moves || !article.firstChild) draw();
      isOutdated = false;
      if (moves) article.querySelector("h2")?.focus();
    },
    hide() {
      isShown = false;
    },
  };
}

function tableOfContents() {
  const list = h("ol");
  const links = CHAPTERS.map(({ name, title }, index) => h("a", { href: `#/tour/${name}` }, `${index + 1}. ${title}`));
  fill(list, ...links.map((link) => h("li", {}, link)));
  return {
    element: h("nav", { class: "contents", "aria-label": t("tour.chapters") }, list),
    /** @param {Chapter} chapter */
    mark(chapter) {
      for (const link of links) {
        if (link.hash === `#/tour/${chapter.name}`) {
          link.setAttribute("aria-current", "step");
          // On a narrow page the list is one line that scrolls.
          list.scrollLeft = link.offsetLeft - list.offsetLeft - 16;
        } else link.removeAttribute("aria-current");
      }
    },
  };
}

/**
 * @param {Chapter} chapter
 * @param {Lesson} lesson
 * @param {Focus} focus
 */
function chapterParts(chapter, lesson, focus) {
  const index = CHAPTERS.indexOf(chapter);
  const before = CHAPTERS[index - 1];
  const after = CHAPTERS[index + 1];
  return [
    h("h2", { tabindex: -1 }, `${index + 1}. ${chapter.title}`),
    h("div", { class: "prose" }, ...chapter.text(lesson.model)),
    chapter.live(lesson, focus),
    h(
      "nav",
      { class: "turn", "aria-label": t("tour.previousAndNextChapter") },
      before && h("a", { href: `#/tour/${before.name}`, rel: "prev" }, `← ${before.title}`),
      after && h("a", { href: `#/tour/${after.name}`, rel: "next" }, `${after.title} →`),
    ),
  ];
}

/**
 * The form for the sentence. Its languages are those of all views.
 *
 * @param {Page} page
 * @param {() => void} askAgain Called for the same sentence: a failed request may succeed now.
 */
function sentenceForm(page, askAgain) {
  const input = h("input", { name: "sentence", autocomplete: "off", required: true, dir: "auto" });
  const pair = h("p", { class: "muted" });
  const form = h(
    "form",
    {
      class: "card sentence",
      onsubmit: (/** @type {Event} */ event) => {
        event.preventDefault();
        const sentence = input.value.trim();
        if (sentence && sentence !== page.store.get().sentence) page.store.set({ sentence });
        else askAgain();
        page.announce(t("tour.theTourNowShowsThis"));
      },
    },
    h("label", { class: "choice" }, t("tour.subwords.yourSentence"), input),
    h("button", { class: "primary" }, t("tour.show")),
    pair,
  );
  return {
    element: form,
    /** @param {Lesson | null} lesson */
    show(lesson) {
      if (!lesson) return;
      input.value = lesson.sentence;
      const { source, target } = lesson.fields;
      const from = source === "auto" ? t("tour.theDetectedLanguage") : languageName(String(source));
      fill(pair, t("tour.languages", { name: lesson.model.name, from, target: languageName(String(target)) }));
      pair.append(h("a", { href: "#/translate" }, t("main.translate")), ".");
    },
  };
}

/**
 * The current sentence, and the model that translates it.
 *
 * @param {Page} page
 * @returns {Lesson | null} Null if no single model translates the pair.
 */
function lessonOf({ store, languages }) {
  const choices = store.get();
  const model = languages.model(choices.source, choices.target);
  if (!model || languages.hasTwoLegs(choices.source, choices.target)) return null;
  const source = languages.exampleSource(choices);
  const { sentence, isExample } = sentenceOf(choices, source);
  const { formality } = optionFields(choices, languages);
  const fields = {
    source: isExample ? source : choices.source,
    target: choices.target,
    ...(formality && { formality }),
  };
  return new Lesson(model, sentence, fields, {
    beamSize: beamSize({ ...choices, decoding: "beam" }, languages),
    lengthPenalty: model.decoding.length_penalty,
  });
}
