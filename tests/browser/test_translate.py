"""The view "translate": texts, languages, options, glossaries."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import unquote_plus

import pytest
from playwright.sync_api import Page, Route, expect

from tests.browser.accessibility import assert_accessible, in_each_scheme
from tests.browser.chromium import Watch
from tests.browser.translating import (
    MARKUP,
    asked,
    assert_no_markup,
    change_models,
    choose,
    open_options,
    output,
    problem,
    source,
    translated,
    translation,
)
from tests.browser.views import open_view, shown
from tests.server import Server

BOOK, STATION, CINEMA = "I bought a new book.", "Where is the station?", "We are going to the cinema tonight."
BUCH, BAHNHOF = "Ich habe ein neues Buch gekauft.", "Wo ist der Bahnhof?"

# Keeps the events of a stream back until the test releases them one by one.
HOLD_EVENTS = """() => {
  const ask = window.fetch;
  window.fetch = async (...request) => {
    const response = await ask(...request);
    if (!response.headers.get("content-type").includes("ndjson")) return response;
    const lines = (await response.text()).split("\\n").filter(Boolean);
    const body = new ReadableStream({
      start(controller) {
        window.releaseEvent = () => {
          const line = lines.shift();
          if (line) controller.enqueue(new TextEncoder().encode(`${line}\\n`));
          else controller.close();
        };
      },
    });
    return new Response(body, { headers: response.headers });
  };
}"""


@pytest.fixture
def glossary(service: Server) -> Iterator[str]:
    """Name of a stored glossary for English and German."""
    headers = {"Authorization": "DeepL-Auth-Key tests"}
    body = {
        "name": f"Stored {MARKUP}",
        "source_lang": "en",
        "target_lang": "de",
        "entries": "book\tWerk",
        "entries_format": "tsv",
    }
    product = service.client.post("/v2/glossaries", json=body, headers=headers).json()
    yield product["name"]
    service.client.delete(f"/v2/glossaries/{product['glossary_id']}", headers=headers)


def test_a_text_is_translated_while_it_is_typed_and_its_language_detected(
    page: Page, screenshot: Callable[[str], None]
) -> None:
    open_view(page)
    bodies = asked(page)
    source(page).press_sequentially(BOOK, delay=10)
    expect(translation(page)).to_have_text(BUCH)
    expect(page.get_by_text(re.compile(r"Detected English, \d+ % sure"))).to_be_visible()
    # The target followed the detected language: it was English before.
    expect(page.get_by_role("combobox", name="Translate to")).to_have_value("de")
    assert bodies[-1]["text"] == BOOK
    assert len(bodies) < len(BOOK), "each key is a request"
    screenshot("translate")


def test_sentences_are_shown_as_they_come(page: Page) -> None:
    open_view(page)
    choose(page, "Translate to", "German")
    page.evaluate(HOLD_EVENTS)
    source(page).fill(f"{BOOK}  {STATION}\n{CINEMA}")
    page.wait_for_function("() => window.releaseEvent")
    release = "() => window.releaseEvent()"
    page.evaluate(release)
    expect(translation(page)).to_have_text(BUCH)
    expect(output(page)).to_have_attribute("aria-busy", "true")
    page.evaluate(release)
    # Whitespace between sentences is that of the source.
    expect(translation(page)).to_have_text(f"{BUCH}  {BAHNHOF}", use_inner_text=True)
    page.evaluate(release)
    expect(translation(page)).to_contain_text(f"{BUCH}  {BAHNHOF}\nWir gehen", use_inner_text=True)
    for _ in ("translation", "done", "end"):
        page.evaluate(release)
    expect(output(page)).to_have_attribute("aria-busy", "false")


def test_typing_cancels_the_request_before(page: Page) -> None:
    open_view(page)
    choose(page, "Translate to", "German")
    cancelled: list[str] = []
    page.on("requestfailed", lambda request: cancelled.append(str(request.post_data)))
    page.route(
        "**/translate", lambda route: None if STATION not in (route.request.post_data or "") else route.continue_()
    )
    with page.expect_request("**/translate"):
        source(page).fill(BOOK)
    translated(page, STATION, BAHNHOF)
    assert len(cancelled) == 1
    assert BOOK in cancelled[0]


def test_details_are_asked_for_after_the_translation_and_cancelled_by_typing(page: Page) -> None:
    open_view(page)
    choose(page, "Translate to", "German")
    bodies = asked(page)
    cancelled: list[str] = []
    page.on("requestfailed", lambda request: cancelled.append(str(request.post_data)))

    def hold_details(route: Route) -> None:
        if "return_confidence" not in (route.request.post_data or ""):
            route.continue_()

    page.route("**/translate", hold_details)
    with page.expect_request(lambda request: "return_confidence" in (request.post_data or "")):
        translated(page, BOOK, BUCH)
    assert ["return_confidence" in body for body in bodies] == [False, True]
    translated(page, STATION, BAHNHOF)
    assert len(cancelled) == 1
    assert BOOK in cancelled[0]
    assert "return_confidence" in cancelled[0]


def test_a_slow_translation_says_that_it_is_under_way(page: Page) -> None:
    page.clock.install()
    open_view(page)
    page.route("**/translate", lambda route: None)
    with page.expect_request("**/translate"):
        source(page).fill(BOOK)
        page.clock.run_for(300)
    expect(output(page)).to_have_attribute("aria-busy", "true")
    page.clock.run_for(5000)
    expect(page.get_by_text("Still translating …")).to_be_visible()


def test_an_error_is_shown_in_its_place_and_the_text_stays(page: Page, watch: Watch) -> None:
    watch.expect("429")
    open_view(page)
    detail = f"The queue is full {MARKUP}"
    page.route("**/translate", lambda route: route.fulfill(**problem(429, "queue_full", detail)))
    source(page).fill(BOOK)
    expect(page.get_by_role("alert")).to_have_text(detail)
    expect(source(page)).to_have_value(BOOK)
    assert_no_markup(page)
    page.unroute("**/translate")
    page.get_by_role("button", name="Try again").click()
    expect(translation(page)).to_have_text(BUCH)
    expect(page.get_by_role("alert")).to_have_count(0)


def test_a_lost_connection_is_told_without_the_translation_of_an_earlier_text(page: Page, watch: Watch) -> None:
    watch.expect("ERR_FAILED")
    open_view(page)
    translated(page, BOOK, BUCH)
    page.route("**/translate", lambda route: route.abort())
    source(page).fill(f"{BOOK} {STATION}")
    expect(page.get_by_role("alert")).to_have_text("The service cannot be reached. Is it running?")
    expect(translation(page)).to_be_empty()


def test_languages_are_swapped_together_with_the_texts(page: Page) -> None:
    open_view(page)
    translated(page, STATION, BAHNHOF)
    page.get_by_role("button", name="Swap the languages").click()
    expect(page.get_by_role("combobox", name="Translate from")).to_have_value("de")
    expect(page.get_by_role("combobox", name="Translate to")).to_have_value("en")
    expect(source(page)).to_have_value(BAHNHOF)
    expect(translation(page)).to_have_text(re.compile("^Where.* the station"))


def test_a_text_in_the_chosen_target_language_is_noticed(page: Page) -> None:
    open_view(page)
    choose(page, "Translate to", "German")
    source(page).fill("Ich habe das Buch noch nicht gelesen.")
    expect(page.get_by_role("alert")).to_have_text("The text is already in German.")
    page.get_by_role("button", name="Translate it into English").click()
    expect(translation(page)).to_contain_text("book")


def test_the_languages_offered_are_those_of_the_models(page: Page) -> None:
    def change(model: dict[str, Any]) -> None:
        model["pairs"] = [["de", "en"], ["en", "de"], ["fr", "de"]]

    change_models(page, change)
    open_view(page)
    options = page.get_by_role("combobox", name="Translate from").locator("option")
    assert options.all_inner_texts() == ["Detect language", "English", "French", "German"]
    choose(page, "Translate from", "French")
    expect(page.get_by_role("combobox", name="Translate to").locator("option")).to_have_text(["German"])
    # Nothing is translated into French.
    choose(page, "Translate from", "German")
    choose(page, "Translate to", "English")
    expect(page.get_by_role("button", name="Swap the languages")).to_be_enabled()


def test_languages_of_a_model_for_many_are_named_with_their_script_where_it_matters(page: Page) -> None:
    codes = ["deu_Latn", "eng_Latn", "zho_Hans", "zho_Hant"]
    change_models(page, lambda model: model.update(pairs=[], languages=codes))
    open_view(page)
    options = page.get_by_role("combobox", name="Translate to").locator("option")
    assert options.all_inner_texts() == ["Chinese", "English", "German", "Traditional Chinese"]
    expect(page.get_by_role("combobox", name="Translate to")).to_have_value("eng_Latn")
    choose(page, "Translate from", "German")
    expect(source(page)).to_have_attribute("lang", "de")
    assert options.all_inner_texts() == ["Chinese", "English", "Traditional Chinese"]
    expect(page.get_by_role("button", name="Wo ist der Bahnhof?")).to_be_visible()


def test_an_example_fills_an_empty_page(page: Page) -> None:
    open_view(page)
    page.get_by_role("button", name=STATION).click()
    expect(source(page)).to_have_value(STATION)
    expect(translation(page)).to_have_text(BAHNHOF)
    expect(page.get_by_role("button", name=BOOK)).to_have_count(0)
    page.get_by_role("button", name="Clear").click()
    expect(translation(page)).to_have_text("")
    expect(page.get_by_role("button", name=BOOK)).to_be_visible()


def test_the_search_is_chosen_within_the_bounds_of_the_model(page: Page) -> None:
    open_view(page)
    bodies = asked(page)
    open_options(page)
    width = page.get_by_role("slider", name="Width of the beam")
    assert (width.get_attribute("min"), width.get_attribute("max")) == ("1", "16")
    translated(page, BOOK, BUCH)
    assert (bodies[-1]["decoding"], bodies[-1]["beam_size"]) == ("beam", 4)
    with page.expect_request(lambda request: '"beam_size":2' in (request.post_data or "")):
        width.fill("2")
    with page.expect_request(lambda request: '"greedy"' in (request.post_data or "")):
        page.get_by_label("Greedy").check()
    assert "beam_size" not in bodies[-1]
    expect(width).to_be_disabled()
    expect(page.locator(".options summary")).to_contain_text("greedy search")


def test_the_form_of_address_is_offered_where_the_model_knows_one(page: Page) -> None:
    open_view(page)
    open_options(page)
    expect(page.get_by_label("Form of address")).to_be_hidden()
    change_models(page, lambda model: model["capabilities"].update(formality=["de"]))
    page.reload()
    page.route("**/translate", lambda route: route.abort("aborted"))
    open_options(page)
    choose(page, "Translate from", "German")
    expect(page.get_by_label("Form of address")).to_be_hidden()
    choose(page, "Translate from", "English")
    choose(page, "Form of address", "Informal")
    with page.expect_request("**/translate") as request:
        source(page).fill(BOOK)
    assert '"formality":"informal"' in (request.value.post_data or "")


def test_what_became_of_typed_terms_is_shown(page: Page, screenshot: Callable[[str], None]) -> None:
    open_view(page)
    open_options(page)
    choose(page, "Glossary", "Terms typed here")
    # The first field of the table has the focus.
    for key in ("book", "Tab", "Werk", "Enter", "tram", "Tab", MARKUP):
        page.keyboard.press(key) if key in ("Tab", "Enter") else page.keyboard.type(key)
    translated(page, BOOK, "Ich habe ein neues Werk gekauft.")
    terms = page.get_by_role("list", name="Glossary terms").get_by_role("listitem")
    expect(terms).to_have_text(["book → Werk ✓ used by the model", "tram not in the text"])
    screenshot("translate-terms")
    page.get_by_role("button", name="Remove the term").first.click()
    expect(translation(page)).to_have_text(BUCH)
    page.get_by_label("Term", exact=True).fill("book")
    expect(translation(page)).to_contain_text(MARKUP)
    assert_no_markup(page)


def test_a_stored_glossary_is_used_with_its_languages(page: Page, glossary: str) -> None:
    open_view(page)
    open_options(page)
    choose(page, "Translate to", "German")
    choose(page, "Glossary", f"{glossary} (1 term)")
    expect(page.get_by_role("combobox", name="Translate from")).to_have_value("en")
    translated(page, BOOK, "Ich habe ein neues Werk gekauft.")
    expect(page.get_by_role("list", name="Glossary terms")).to_contain_text("book → Werk")
    assert_no_markup(page)
    choose(page, "Translate from", "German")
    expect(page.get_by_role("combobox", name="Glossary", exact=True)).to_have_value("")


def test_a_text_that_is_too_long_is_not_sent_and_can_be_translated_as_a_file(page: Page) -> None:
    change_models(page, lambda model: model["limits"].update(max_text_characters=20))
    open_view(page)
    bodies = asked(page)
    source(page).fill("😀" * 20)
    expect(page.get_by_text("20 / 20")).to_be_visible()
    source(page).fill(f"{BOOK} {STATION}")
    expect(page.get_by_role("status").first).to_contain_text("too long by 22 characters: up to 20 can")
    page.get_by_role("button", name="Translate it as a file").click()
    expect(page.get_by_role("list", name="Files")).to_contain_text("Translated")
    assert not [body for body in bodies if BOOK in body["text"]]


def test_the_translation_is_copied(page: Page) -> None:
    open_view(page)
    translated(page, BOOK, BUCH)
    page.get_by_role("button", name="Copy", exact=True).click()
    expect(page.get_by_role("button", name="Copied", exact=True)).to_be_visible()
    assert page.evaluate("() => navigator.clipboard.readText()") == BUCH


def test_a_shared_link_brings_text_and_choices_back_and_the_service_logs_no_text(page: Page, service: Server) -> None:
    open_view(page)
    open_options(page)
    page.get_by_label("Greedy").check()
    text = f"{BOOK}\n{MARKUP} 50% & more?"
    translated(page, text, BUCH)
    page.get_by_role("button", name="Copy link").click()
    expect(page.get_by_role("button", name="Copied", exact=True)).to_be_visible()
    link = page.evaluate("() => navigator.clipboard.readText()")
    address, _, fragment = link.partition("#")
    assert "book" not in address
    assert BOOK in unquote_plus(fragment)

    page.goto("about:blank")
    logged = len(service.lines)
    page.goto(link)
    shown(page, "translate")
    expect(source(page)).to_have_value(text)
    expect(translation(page)).to_contain_text(BUCH)
    expect(page.get_by_label("Greedy")).to_be_checked()
    assert_no_markup(page)
    expect(page.locator(".linked-details")).to_be_visible()
    assert any('"/translate"' in line for line in service.lines[logged:])
    assert not [line for line in service.lines if "book" in line or "Buch" in line]
    assert page.evaluate("() => location.hash") == "#/translate"


def test_markup_as_a_text_is_shown_as_text(page: Page) -> None:
    open_view(page)
    translated(page, f"{MARKUP} {BOOK}", MARKUP)
    expect(page.locator(".linked-details")).to_be_visible()
    expect(translation(page)).to_contain_text(MARKUP)
    assert_no_markup(page)


@pytest.mark.parametrize(("link", "view"), [("Show attention", "attention"), ("How it works", "tour")])
def test_other_views_are_opened_with_the_sentence_at_the_caret(page: Page, link: str, view: str) -> None:
    script = f"""export function {view}View(page) {{
      const element = document.createElement("h1");
      return {{ element, show() {{ element.textContent = page.store.get().sentence; }} }};
    }}"""
    page.route(f"**/views/{view}.js", lambda route: route.fulfill(content_type="text/javascript", body=script))
    open_view(page)
    text = f"😀 {BOOK} {STATION} {CINEMA}"
    translated(page, text, BAHNHOF)
    expect(output(page)).to_have_attribute("aria-busy", "false")
    position = "(area, position) => area.setSelectionRange(position, position)"
    source(page).evaluate(position, text.index(STATION) + 3)
    page.locator("main").get_by_role("link", name=link).click()
    expect(shown(page, view)).to_have_text(STATION)
    page.get_by_role("link", name="Translate", exact=True).click()
    shown(page, "translate")
    expect(source(page)).to_have_value(text)
    expect(translation(page)).to_contain_text(BAHNHOF)


def test_a_text_is_translated_with_the_keyboard_alone(page: Page) -> None:
    open_view(page)

    def tab_to(name: str) -> None:
        for _ in range(30):
            page.keyboard.press("Tab")
            if name in page.evaluate(
                "() => document.activeElement.getAttribute('aria-label') || document.activeElement.textContent"
            ):
                return
        raise AssertionError(f"the focus never comes to {name}")

    tab_to("Translate to")
    page.keyboard.type("German")
    tab_to("Text to translate")
    page.keyboard.type(STATION)
    page.keyboard.press("Control+Enter")
    expect(translation(page)).to_have_text(BAHNHOF)
    tab_to("Options")
    page.keyboard.press("Enter")
    tab_to("Width of the beam")
    page.keyboard.press("ArrowRight")
    expect(page.get_by_text("5 hypotheses")).to_be_visible()


def test_a_translation_with_options_and_terms_meets_wcag(page: Page, screenshot: Callable[[str], None]) -> None:
    open_view(page)
    open_options(page)
    choose(page, "Glossary", "Terms typed here")
    page.get_by_label("Term", exact=True).fill("book")
    page.get_by_label("Its translation").fill("Werk")
    translated(page, f"{BOOK} {STATION}", "Werk")
    expect(page.locator(".linked-details")).to_be_visible()
    for scheme in in_each_scheme(page):
        screenshot(f"translate-{scheme}")
        assert_accessible(page, scheme)


def test_a_pair_in_two_legs_is_offered_and_names_the_pivot_language(page: Page) -> None:
    def describe(route: Route) -> None:
        response = route.fetch()
        body = response.json()
        body["models"].append({**body["models"][0], "name": "french", "pairs": [["fr", "en"]]})
        route.fulfill(
            response=response, json={**body, "pivot": {"language": "en", "pairs": [["fr", "de"]], "languages": []}}
        )

    def translate(route: Route) -> None:
        body: Any = route.request.post_data_json
        assert (body["source"], body["target"], body.get("beam_size", 4)) == ("fr", "de", 4)
        response = route.fetch(post_data=json.dumps({**body, "source": "en"}))
        model = '"model":"verso-en-de"'
        via = '"via":{"language":"en","model":"french"}'
        route.fulfill(response=response, body=response.text().replace(model, f"{model},{via}"))

    page.route("**/models", describe)
    page.route("**/translate", translate)
    open_view(page)
    choose(page, "Translate from", "French")
    expect(page.get_by_role("combobox", name="Translate to", exact=True).locator("option")).to_have_text(
        ["English", "German"]
    )
    choose(page, "Translate to", "German")
    translated(page, BOOK, BUCH)
    expect(page.locator("main")).to_contain_text("Via English: translated by french, then by verso-en-de.")
    page.goto("/#/tour")
    expect(shown(page, "tour")).to_contain_text("No single model translates these languages.")


def test_nothing_of_an_earlier_translation_stays_beside_an_error(page: Page, watch: Watch) -> None:
    watch.expect("status of 503")
    open_view(page, text=BOOK)
    expect(page.locator(".confidence")).to_be_visible()
    page.route("**/translate", lambda route: route.fulfill(**problem(503, "queue_full", "Too busy.")))
    source(page).fill("Where is the station?")
    expect(output(page).locator("..").get_by_role("alert")).to_have_text("Too busy.")
    expect(translation(page)).to_be_empty()
    expect(page.locator(".confidence")).to_be_hidden()
    expect(page.get_by_role("button", name="Copy", exact=True)).to_be_hidden()


def test_a_text_in_another_language_than_the_stated_one_is_noticed(page: Page) -> None:
    open_view(page)
    choose(page, "Translate from", "German")
    source(page).fill("Where is the station, and when does the next train leave?")
    page.get_by_role("button", name="Translate from English").click()
    expect(translation(page)).to_contain_text("Bahnhof")
    expect(page.get_by_role("combobox", name="Translate from")).to_have_value("en")
    expect(page.get_by_text("The text looks like")).to_be_hidden()


def test_a_text_in_a_language_that_no_model_translates_is_noticed(page: Page) -> None:
    open_view(page)
    choose(page, "Translate from", "German")
    source(page).fill("Où est la gare, et quand part le prochain train ?")
    expect(page.get_by_text("The text looks like French, which no model here translates.")).to_be_visible()
    choose(page, "Translate from", "Detect language")
    alert = output(page).locator("..").get_by_role("alert")
    expect(alert).to_contain_text("probably French")
    expect(translation(page)).to_be_empty()
