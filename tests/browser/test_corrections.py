"""Corrections on the page: sentences that are confirmed come back, marked, until they are taken back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import pytest
from playwright.sync_api import Browser, Locator, Page, Route, expect

from app.settings import AUTO
from tests.browser.accessibility import assert_accessible, in_each_scheme, tab_stops
from tests.browser.chromium import Watch, watched_page
from tests.browser.test_documents import choose_files, files, text_file
from tests.browser.test_edit import field, open_edit, rows, saved
from tests.browser.translating import translation
from tests.browser.views import answered, open_view
from tests.server import Server, served


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The service with the shipped model, which keeps corrections."""
    with served(Path(AUTO), VERSO_DATA_DIR=str(tmp_path_factory.mktemp("data")), VERSO_SUGGESTIONS="on") as running:
        yield running


def marks(page: Page) -> Locator:
    """What came from the memory."""
    return page.get_by_role("list", name="From the translation memory")


def open_rows(page: Page) -> None:
    """Show the sentences of the translation."""
    page.get_by_text("Correct sentences").click()


def store(page: Page, source: str, target: str) -> None:
    """Store a correction."""
    body: dict[str, Any] = {"units": [{"source": source, "target": target}], "source": "en", "target": "de"}
    assert page.request.post(urljoin(page.url, "/memories/corrections/units"), data=body).ok


def test_a_confirmed_sentence_comes_back_marked_and_is_taken_back(
    page: Page, screenshot: Callable[[str], None]
) -> None:
    open_view(page, text="Close the lid. Where is the station?")
    expect(marks(page)).to_be_hidden()
    open_rows(page)
    field(page, 1).fill("Deckel zu!")
    expect(rows(page).nth(0)).to_contain_text("Edited")
    page.keyboard.press("Control+Enter")
    expect(translation(page)).to_contain_text("Deckel zu! Wo ist der Bahnhof?")
    expect(marks(page).get_by_role("listitem")).to_have_count(1)
    expect(marks(page)).to_contain_text("“Close the lid.” from memory")
    expect(field(page, 2)).to_be_focused()
    expect(rows(page).nth(0)).to_contain_text("Confirmed")
    screenshot("corrections")
    page.reload()
    expect(translation(page)).to_contain_text("Deckel zu!")
    page.get_by_role("button", name="Take back “Close the lid.”").click()
    expect(marks(page)).to_be_hidden()
    expect(translation(page)).not_to_contain_text("Deckel zu!")
    expect(translation(page)).to_contain_text("Wo ist der Bahnhof?")


def test_what_is_typed_in_another_row_stays_while_the_text_is_translated_again(page: Page) -> None:
    open_view(page, text="Open the window. Lock the door.")
    open_rows(page)
    field(page, 2).fill("Tür zu")
    field(page, 1).fill("Fenster auf!")
    rows(page).nth(0).get_by_role("button", name="Confirm").click()
    expect(marks(page)).to_contain_text("“Open the window.” from memory")
    expect(field(page, 2)).to_have_value("Tür zu")
    expect(rows(page).nth(1)).to_contain_text("Edited")


def test_a_similar_sentence_is_marked_with_its_score(page: Page) -> None:
    open_view(page)
    store(page, "We have 3 new books.", "Drei neue Bücher haben wir: 3.")
    open_view(page, text="We have 4 new books.")
    expect(marks(page)).to_contain_text("“We have 4 new books.”")
    expect(marks(page)).to_contain_text("95 % similar")


def test_a_text_that_is_stored_as_a_whole_is_not_said_to_be_in_the_target_language(page: Page) -> None:
    open_view(page)
    store(page, "It is late. We go home.", "Spät ist es, heim geht es.")
    page.get_by_label("Text to translate").fill("It is late. We go home.")
    expect(translation(page)).to_contain_text("Spät ist es")
    expect(marks(page)).to_contain_text("from memory")
    expect(page.get_by_text("The text is already in")).to_have_count(0)
    open_rows(page)
    expect(rows(page)).to_have_count(1)
    expect(field(page, 1)).to_have_value("Spät ist es, heim geht es.")


def test_a_correction_that_cannot_be_stored_is_said(page: Page, watch: Watch) -> None:
    watch.expect("ERR_FAILED")
    open_view(page, text="The bird sings.")
    open_rows(page)
    page.route("**/units", lambda route: route.abort())
    field(page, 1).fill("Piep.")
    field(page, 1).press("Control+Enter")
    expect(page.locator(".corrections > .notice")).to_contain_text("cannot be reached")
    expect(field(page, 1)).to_have_value("Piep.")


def test_nothing_is_shown_if_the_service_keeps_no_corrections(page: Page) -> None:
    def forget(route: Route) -> None:
        response = route.fetch()
        body = response.json()
        assert body.pop("corrections") is True
        route.fulfill(response=response, json=body)

    page.route("**/models", forget)
    with page.expect_request("**/translate") as sent:
        open_view(page, text="The tree is old.")
    assert "memory" not in (sent.value.post_data_json or {})
    expect(page.locator(".corrections")).to_have_count(0)


def test_a_confirmed_sentence_of_a_file_is_used_for_the_next_file(page: Page) -> None:
    text = "The cook is tired.\n\nThe soup is cold.\n"
    open_edit(page, text, "menu.txt")
    expect(page.get_by_text("Confirmed translations are stored")).to_be_visible()
    field(page, 1).fill("Der Koch ist platt.")
    field(page, 1).press("Control+Enter")
    saved(page)
    open_view(page)
    choose_files(page, text_file("next.txt", text))
    expect(files(page).get_by_text("Translated, 1 from memory")).to_be_visible()


def test_corrections_meet_wcag_and_the_keyboard_reaches_every_control(
    page: Page, screenshot: Callable[[str], None]
) -> None:
    open_view(page)
    store(page, "The house is big.", "Riesig ist es.")
    open_view(page, text="The house is big. The garden is small.")
    open_rows(page)
    field(page, 2).fill("")
    expect(rows(page).nth(1).get_by_role("alert")).to_have_text("The translation is empty.")
    for scheme in in_each_scheme(page):
        screenshot(f"corrections-{scheme}")
        assert_accessible(page, scheme)
    page.reload()  # the Tab key begins at the top of the page
    answered(page.get_by_role("main"), "translate")
    expect(marks(page)).to_be_visible()
    page.locator("details.correct").evaluate("(details) => { details.open = true; }")
    expect(rows(page)).to_have_count(2)
    stops = tab_stops(page)
    assert {"Take back “The house is big.”", "Translation of sentence 1", "Translation of sentence 2"} <= set(stops)


def test_corrections_fit_on_a_phone_in_german(browser: Browser, watch: Watch) -> None:
    with watched_page(browser, watch, viewport=(320, 700), language="de-DE") as page:
        open_view(page)
        store(page, "The street is very long.", "Die Straße nimmt kein Ende.")
        open_view(page, text="The street is very long. It rains.")
        page.get_by_text("Sätze korrigieren").click()
        expect(page.get_by_text("aus dem Speicher")).to_be_visible()
        assert page.evaluate("() => document.documentElement.scrollWidth") <= 320
        assert_accessible(page, "German")
    assert not watch.unexpected(), "\n".join(watch.unexpected())
