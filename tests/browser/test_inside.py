"""Looking inside a translation: linked words, unsure and missing ones, alternatives, other choices at a word."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from tests.browser.accessibility import assert_accessible, in_each_scheme
from tests.browser.chromium import Watch
from tests.browser.translating import MARKUP, answer, asked, assert_no_markup, output, problem, source
from tests.browser.views import open_view

BOOK, CAMERA = "I bought a new book.", "I am currently looking for a camera."
BUCH, BUECHER = "Ich habe ein neues Buch gekauft.", "Ich habe mir ein neues Buch gekauft."

# For each mark behind the text area the word of the text area that is in front of it, and how much colour the mark has.
MARKED = """(kind) => [...document.querySelectorAll(`.source-mirror .mark.${kind}`)].map((mark) => {
  const { left, top, width, height } = mark.getBoundingClientRect();
  const { offset, offsetNode } = document.caretPositionFromPoint(left + width / 2, top + height / 2);
  const before = /\\S*$/u.exec(offsetNode.value.slice(0, offset))[0];
  const word = before + /^\\S*/u.exec(offsetNode.value.slice(offset))[0];
  return { word, shade: parseFloat(mark.style.getPropertyValue("--shade")) };
})"""

# The middle of a word of the text area, by its mark: the test hovers what a person sees there.
POINT_OF = """(text) => {
  const source = document.querySelector(".source-text textarea");
  const box = source.getBoundingClientRect();
  for (let y = box.top + 4; y < box.bottom; y += 6) {
    for (let x = box.left + 4; x < box.right; x += 4) {
      const caret = document.caretPositionFromPoint(x, y);
      const start = source.value.indexOf(text) + Math.floor(text.length / 2);
      if (caret?.offsetNode === source && caret.offset === start) return [x, y];
    }
  }
  return null;
}"""

SHARE = "(bar) => bar.style.getPropertyValue('--share')"
TINT = "(element) => getComputedStyle(element).backgroundColor"

# A translation of many words, of which no service is asked.
LONG = """async (count) => {
  const { LinkedTexts } = await import("/page/views/linked-texts.js");
  const source = document.createElement("textarea");
  const wrapper = document.createElement("div");
  wrapper.className = "source-text";
  wrapper.append(source);
  const linked = new LinkedTexts({ source, request: null, onSteered() {}, announce() {}, limits() {} });
  document.querySelector("main").replaceChildren(wrapper, linked.element, linked.details);
  const text = Array.from({ length: count }, (_, index) => `word${index}`).join(" ");
  source.value = text;
  const spans = [...text.matchAll(/\\S+/g)].map(({ 0: word, index }) => [index, index + word.length]);
  linked.show({
    text, source: "en", target: "de", finish_reason: "stop", score: null, alternatives: [], model: null, detected: null,
    // The first source word is linked with every word, the others with none.
    alignment: spans.map((target) => ({ source: spans[0], target, weight: 0.5 })),
    confidence: {
      score: 0.5, words: spans.map((target) => ({ target, probability: 0.1 })), uncovered: spans.slice(1, 50),
    },
  }, text);
}"""


def look_into(page: Page, text: str = BOOK) -> None:
    """Translate a text, and wait until its words are there."""
    open_view(page, text=text)
    expect(page.locator(".linked-details .confidence")).to_be_visible()


def word(page: Page, text: str) -> Locator:
    """A word of the translation."""
    return output(page).locator(".word").filter(has_text=re.compile(f"^{re.escape(text)}$")).first


def lit(page: Page) -> list[str]:
    """The words of the translation that are lit up."""
    return output(page).locator(".word.lit").all_text_contents()


def marked(page: Page, kind: str) -> list[dict[str, Any]]:
    """The words of the text that are marked."""
    marks: list[dict[str, Any]] = page.evaluate(MARKED, kind)
    return marks


def percent(share: float) -> str:
    """A share as the page writes it."""
    return f"{100 * share:.0f} %"


def sure(answered: dict[str, Any]) -> dict[str, float]:
    """The probability of each word of a translation."""
    words = answered["confidence"]["words"]
    return {answered["text"][slice(*word["target"])].strip(".,!?"): word["probability"] for word in words}


def linked(answered: dict[str, Any], text: str = BOOK) -> dict[tuple[str, str], float]:
    """The weight of each link of a translation, by the words."""
    return {
        (text[slice(*link["source"])], answered["text"][slice(*link["target"])]): link["weight"]
        for link in answered["alignment"]
    }


def hover_source(page: Page, text: str) -> None:
    """Move the pointer over a word of the text."""
    x, y = page.evaluate(POINT_OF, text)
    page.mouse.move(x, y)


def tip(page: Page) -> Locator:
    """What is said of the word that is looked at."""
    return page.locator("[role=tooltip]")


def choices(page: Page) -> Locator:
    """What the search considered at the word that was clicked."""
    return page.get_by_role("dialog", name=re.compile("^Instead of")).locator(".choice")


def test_a_word_of_the_translation_lights_up_its_counterparts_by_weight(
    page: Page, screenshot: Callable[[str], None]
) -> None:
    look_into(page)
    translation = answer(page, BOOK)
    word(page, "Buch").hover()
    expect(tip(page)).to_have_text(
        f"{percent(sure(translation)['Buch'])} sure. From “book” ({percent(linked(translation)['book', 'Buch'])})."
    )
    assert lit(page) == ["Buch"]
    [book] = marked(page, "lit")
    screenshot("inside-hover")
    word(page, "Ich").hover()
    expect(tip(page)).to_contain_text("From “I”")
    [me] = marked(page, "lit")
    assert (book["word"], me["word"]) == ("book.", "I")
    assert 0 < me["shade"] < book["shade"] < 100
    page.mouse.move(0, 0)
    expect(tip(page)).to_be_hidden()
    assert lit(page) == []
    assert marked(page, "lit") == []


def test_a_word_of_the_text_lights_up_all_its_counterparts(page: Page) -> None:
    look_into(page)
    hover_source(page, "bought")
    weights = linked(answer(page, BOOK))
    both = sorted(((weights["bought", target], target) for target in ("habe", "gekauft")), reverse=True)
    expect(tip(page)).to_have_text(
        f"Translated as {', '.join(f'“{target}” ({percent(weight)})' for weight, target in both)}."
    )
    assert lit(page) == ["habe", "gekauft"]
    assert [mark["word"] for mark in marked(page, "lit")] == ["bought"]
    page.mouse.move(0, 0)
    expect(output(page).locator(".lit")).to_have_count(0)


def test_the_word_at_the_caret_lights_up_its_counterparts(page: Page) -> None:
    look_into(page)
    source(page).focus()
    source(page).press("Home")
    expect(word(page, "Ich")).to_have_class(re.compile(r"\blit\b"))
    source(page).press("End")
    source(page).press("ArrowLeft")
    expect(word(page, "Buch")).to_have_class(re.compile(r"\blit\b"))
    assert lit(page) == ["Buch"]
    # A text that is being changed has no links until it is translated.
    source(page).press("Backspace")
    expect(output(page).locator(".lit")).to_have_count(0)
    assert marked(page, "lit") == []


def test_marks_stay_at_their_words_behind_emoji_in_wrapped_lines_and_when_the_window_changes(page: Page) -> None:
    look_into(page, f"Hello 😀 my friend!\n\n{BOOK} {CAMERA} {BOOK}")
    for width in (1280, 360):
        page.set_viewport_size({"width": width, "height": 740})
        word(page, "Freund").hover()
        assert [mark["word"] for mark in marked(page, "lit")] == ["friend!"]
        word(page, "Kamera").hover()
        assert [mark["word"] for mark in marked(page, "lit")] == ["camera."]
        assert [mark["word"] for mark in marked(page, "uncovered")] == ["am"]


def test_unsure_words_are_tinted_unlike_spelling_mistakes_and_say_how_sure_the_model_is(page: Page) -> None:
    look_into(page, CAMERA)
    translation = answer(page, CAMERA)
    share = {name: percent(probability) for name, probability in sure(translation).items()}
    for name, rest in (("derzeit", "very unsure."), ("eine", "unsure.")):
        word(page, name).hover()
        expect(tip(page)).to_contain_text(f"{share[name]} sure, {rest}")
        assert word(page, name).evaluate("(element) => getComputedStyle(element).textDecorationLine") == "none"
    page.mouse.move(0, 0)
    tints = [word(page, name).evaluate(TINT) for name in ("Ich", "eine", "derzeit")]
    assert tints[0] == "rgba(0, 0, 0, 0)"
    assert len(set(tints)) == 3
    # What the tip says describes the word that has the focus.
    word(page, "derzeit").click()
    page.keyboard.press("Escape")
    expect(word(page, "derzeit")).to_be_focused()
    expect(word(page, "derzeit")).to_have_accessible_description(re.compile(f"^{share['derzeit']} sure"))
    confidence = percent(translation["confidence"]["score"])
    expect(page.locator(".linked-details .confidence")).to_contain_text(f": {confidence}")
    expect(page.get_by_role("list", name="Legend")).to_contain_text("unsure under 50 %")


def test_in_a_text_of_several_sentences_unsure_words_are_marked_only_while_their_sentence_is_looked_at(
    page: Page, screenshot: Callable[[str], None]
) -> None:
    look_into(page, f"{BOOK} {CAMERA} {BOOK}")
    sentences = output(page).locator(".sentence")
    expect(sentences).to_have_count(3)
    expect(sentences.nth(0)).to_have_text(BUCH)
    page.mouse.move(0, 0)
    assert word(page, "derzeit").evaluate(TINT) == "rgba(0, 0, 0, 0)"
    screenshot("inside-sentences")
    word(page, "derzeit").hover()
    assert sentences.nth(1).evaluate(TINT) == "rgba(0, 0, 0, 0)"
    sentences.nth(1).locator(".word").first.hover()
    assert word(page, "derzeit").evaluate(TINT) != "rgba(0, 0, 0, 0)"
    expect(page.get_by_text("The model's own estimate")).to_be_visible()
    expect(page.get_by_role("list", name="Legend")).to_contain_text("A sentence is marked by the mean of its words")


def test_words_that_were_left_out_are_hatched_and_named(page: Page) -> None:
    look_into(page, CAMERA)
    assert [mark["word"] for mark in marked(page, "uncovered")] == ["am"]
    image = "(element) => getComputedStyle(element).backgroundImage"
    assert "repeating-linear-gradient" in page.locator(".mark.uncovered").evaluate(image)
    expect(page.get_by_text("Possibly left out: “am”.")).to_be_visible()
    hover_source(page, "am")
    expect(tip(page)).to_contain_text("Possibly left out of the translation.")


def test_protected_words_are_named_and_not_called_unsure(page: Page) -> None:
    look_into(page, "Please see https://example.org/x now.")
    expect(page.get_by_text("Protected: “https://example.org/x” unchanged")).to_be_visible()
    word(page, "https://example.org/x").hover()
    expect(tip(page)).to_have_text("Protected: unchanged.")
    assert [mark["word"] for mark in marked(page, "lit")] == ["https://example.org/x"]
    expect(word(page, "https://example.org/x")).not_to_have_class(re.compile("unsure"))


def test_an_alternative_is_compared_with_the_best_and_can_be_taken_and_given_back(
    page: Page, screenshot: Callable[[str], None]
) -> None:
    look_into(page)
    page.get_by_text("Other translations").click()
    best, second = (page.locator(".alternatives .choice").nth(index) for index in range(2))
    expect(best).to_have_attribute("aria-pressed", "true")
    translation = answer(page, BOOK)
    expect(best).to_contain_text(f"−{-translation['score']:.3f}")
    expect(second.locator("ins")).to_have_text("mir")
    expect(second.locator(".share")).to_have_text(f"−{-translation['alternatives'][0]['score']:.3f}")
    screenshot("inside-alternatives")
    second.focus()
    page.keyboard.press("Enter")
    expect(output(page)).to_have_text(BUECHER)
    expect(second).to_have_attribute("aria-pressed", "true")
    expect(second).to_be_focused()
    # Its words are linked as well.
    word(page, "Buch").hover()
    expect(tip(page)).to_contain_text("From “book”")
    page.get_by_role("button", name="Back to the model's own").click()
    expect(output(page)).to_have_text(BUCH)
    expect(page.get_by_role("button", name="Back to the model's own")).to_be_hidden()


def test_a_word_shows_what_the_search_considered_and_another_choice_translates_from_there(
    page: Page, screenshot: Callable[[str], None]
) -> None:
    look_into(page)
    bodies = asked(page)
    word(page, "ein").click()
    expect(choices(page)).not_to_have_count(0)
    assert bodies[-1]["target_prefix"] == "Ich habe"
    assert bodies[-1]["return_search"] is True
    assert bodies[-1]["beam_size"] == 8
    ein, mir = choices(page).nth(0), choices(page).nth(1)
    expect(ein).to_have_attribute("aria-current", "true")
    expect(ein).to_contain_text("ein neues Buch gekauft.")
    first = answer(page, **bodies[-1])["search"][0]["hypotheses"][0]
    assert float(ein.locator(".bar").evaluate(SHARE)) <= math.exp(first["log_prob"]) + 1e-6
    words = choices(page).locator("strong").all_text_contents()
    assert len(words) == len(set(words)) > 2
    expect(mir).to_contain_text("mir ein neues Buch gekauft.")
    shares = choices(page).evaluate_all(
        "(all) => all.map((one) => one.querySelector('.bar').style.getPropertyValue('--share'))"
    )
    assert [float(share) for share in shares] == sorted((float(share) for share in shares), reverse=True)
    screenshot("inside-choices")
    mir.click()
    expect(output(page)).to_have_text(BUECHER)
    assert bodies[-1]["target_prefix"] == "Ich habe mir"
    expect(choices(page)).to_have_count(0)
    expect(word(page, "mir")).to_be_focused()
    # The rest of the page has the new translation, too.
    page.get_by_role("button", name="Copy", exact=True).click()
    assert page.evaluate("() => navigator.clipboard.readText()") == BUECHER
    page.get_by_role("button", name="Back to the model's own").click()
    expect(output(page)).to_have_text(BUCH)


def test_a_word_among_the_choices_is_whole_and_has_one_probability(page: Page) -> None:
    tokens = [  # id, parent, text, probability of all tokens so far
        (1, 0, " Ti", 0.5), (2, 0, " T", 0.2), (3, 0, " Pl", 0.1),
        (4, 1, "sche", 0.3), (5, 1, "ger", 0.1), (6, 2, "ische", 0.15),
        (7, 4, ".", 0.3), (8, 5, " da", 0.1), (9, 6, ".", 0.15),
    ]  # fmt: skip
    candidates = [
        {"id": id, "parent": parent, "text": text, "log_prob": math.log(share), "kept": True, "finished": False}
        for id, parent, text, share in tokens
    ]
    open_view(page)
    found = page.evaluate(
        """async (hypotheses) => {
      const { choicesOf } = await import("/page/views/candidates.js");
      return choicesOf({ search: [{ step: 0, hypotheses }] }).map(({ text, probability }) => [text, probability]);
    }""",
        candidates,
    )
    assert [text for text, _ in found] == [" Tische", " Tiger"]
    assert [round(share, 6) for _, share in found] == [0.45, 0.1]


def test_of_several_sentences_only_the_one_of_the_word_is_translated_again(page: Page) -> None:
    text = f"Where is the station? {BOOK}\n\n{CAMERA}"
    look_into(page, text)
    before = output(page).inner_text()
    assert BUCH in before
    bodies = asked(page)
    word(page, "Ich").click()
    expect(choices(page).first).to_have_attribute("aria-current", "true")
    assert bodies[-1]["text"] == BOOK
    assert "target_prefix" not in bodies[-1]
    page.keyboard.press("Escape")
    word(page, "ein").click()
    choices(page).nth(1).click()
    expect(page.locator(".linked-details .confidence")).to_contain_text("changed sentence")
    assert (bodies[-1]["text"], bodies[-1]["target_prefix"]) == (BOOK, "Ich habe mir")
    assert output(page).inner_text() == before.replace(BUCH, BUECHER)
    # Words behind the sentence have kept their counterparts.
    word(page, "Kamera").hover()
    expect(tip(page)).to_contain_text("From “camera”")
    assert [mark["word"] for mark in marked(page, "lit")] == ["camera."]
    page.get_by_role("button", name="Back to the model's own").click()
    assert output(page).inner_text() == before


def test_the_words_are_one_stop_of_the_tab_key_and_work_by_arrow_keys(page: Page) -> None:
    look_into(page)
    assert output(page).locator("[tabindex='0']").count() == 1
    word(page, "Ich").focus()
    for key, name in (("ArrowRight", "habe"), ("End", "gekauft"), ("ArrowLeft", "Buch"), ("Home", "Ich")):
        page.keyboard.press(key)
        expect(word(page, name)).to_be_focused()
        expect(word(page, name)).to_have_role("button")
    assert output(page).locator("[tabindex='0']").count() == 1
    assert [mark["word"] for mark in marked(page, "lit")] == ["I"]
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Copy", exact=True)).to_be_focused()
    page.keyboard.press("Shift+Tab")
    expect(word(page, "Ich")).to_be_focused()


def test_another_choice_is_made_by_keyboard_and_escape_gives_the_focus_back(page: Page) -> None:
    look_into(page)
    word(page, "Ich").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    expect(choices(page).first).to_be_focused()
    page.keyboard.press("ArrowDown")
    expect(choices(page).nth(1)).to_be_focused()
    page.keyboard.press("Escape")
    expect(choices(page)).to_have_count(0)
    expect(word(page, "habe")).to_be_focused()
    page.keyboard.press("Enter")
    expect(choices(page).first).to_be_focused()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Back to the model's own")).to_be_visible()
    expect(output(page)).not_to_have_text(BUCH)
    expect(output(page).locator("[data-word='1']")).to_be_focused()


def test_a_problem_at_a_word_is_told_in_its_box(page: Page, watch: Watch) -> None:
    watch.expect("status of 503")

    def refuse(route: Route) -> None:
        if (route.request.post_data_json or {}).get("return_search"):
            route.fulfill(**problem(503, "not_ready", "The service is restarting."))
        else:
            route.continue_()

    page.route("**/translate", refuse)
    look_into(page)
    word(page, "Buch").click()
    expect(page.get_by_role("dialog", name="Instead of “Buch”")).to_contain_text("The service is restarting.")
    expect(output(page)).to_have_text(BUCH)


def test_markup_in_texts_stays_text_everywhere(page: Page) -> None:
    look_into(page, f"{MARKUP} {BOOK}")
    page.get_by_text("Other translations").click()
    hover_source(page, "onerror")
    expect(tip(page)).to_be_visible()
    output(page).locator(".word").last.click()
    expect(choices(page).first).to_be_visible()
    assert_no_markup(page)


def test_the_box_of_choices_and_the_alternatives_meet_wcag(page: Page, screenshot: Callable[[str], None]) -> None:
    look_into(page, CAMERA)
    page.get_by_text("Other translations").click()
    hover_source(page, "currently")
    assert_accessible(page, "hovered")
    word(page, "derzeit").click()
    expect(choices(page).first).to_be_focused()
    for scheme in in_each_scheme(page):
        screenshot(f"inside-{scheme}")
        assert_accessible(page, scheme)


def test_the_box_of_choices_stays_inside_a_phone(page: Page, screenshot: Callable[[str], None]) -> None:
    page.set_viewport_size({"width": 320, "height": 640})
    look_into(page, f"{BOOK} {BOOK} {BOOK} {BOOK}")
    output(page).locator(".word").last.click()
    expect(choices(page).first).to_be_visible()
    box = page.get_by_role("dialog").bounding_box()
    assert box
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 320
    assert box["y"] >= 0
    assert box["y"] + box["height"] <= 640
    screenshot("inside-phone")


def test_a_long_translation_gets_its_words_where_they_are_seen(page: Page) -> None:
    open_view(page)
    page.evaluate(LONG, 8000)
    words = page.locator(".target-words .word")
    assert 200 <= words.count() < 4000
    page.locator(".linked-details").scroll_into_view_if_needed()
    expect(words.last).to_have_text("word7999")
    # Words without a link say so, and one with a link to every word does no harm.
    words.last.hover()
    expect(tip(page)).to_contain_text("From “word0” (50 %).")
    assert len(page.locator(".source-mirror .lit").all()) == 1


def test_words_are_found_without_their_punctuation_and_in_scripts_without_spaces(page: Page) -> None:
    open_view(page)
    words = """async ([text, language]) => {
      const words = new (await import("/page/views/words.js")).Words(text, language);
      return Array.from(words.units, (_, word) => words.string(word));
    }"""
    assert page.evaluate(words, ["“Don’t” call (555-0199) – 😀!", "en"]) == ["Don’t", "call", "555-0199", "😀"]
    assert page.evaluate(words, ["我喜欢看书。", "zh"]) == ["我", "喜欢", "看书"]


@pytest.mark.parametrize(
    ("estimates", "text", "name"),
    [
        ("right", BOOK, "Probability that the meaning is right: "),
        ("right", f"{BOOK} {CAMERA}", "Share of the text that is probably right in meaning: "),
        (None, BOOK, "Confidence in the translation: "),
    ],
)
def test_a_score_is_called_a_probability_only_if_it_is_one(
    estimates: str | None, text: str, name: str, page: Page
) -> None:
    def with_estimate(route: Route) -> None:
        answer = route.fetch()
        body = answer.json()
        for model in body["models"]:
            model["card"]["confidence"]["estimates"] = estimates
        route.fulfill(response=answer, json=body)

    page.route("**/models", with_estimate)
    look_into(page, text)
    expect(page.locator(".linked-details .confidence")).to_contain_text(name)
