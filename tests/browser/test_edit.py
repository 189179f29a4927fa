"""The view "edit": a translated file, sentence by sentence."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Browser, Locator, Page, Route, expect

from tests.browser.accessibility import assert_accessible, in_each_scheme, tab_stops
from tests.browser.chromium import Watch, watched_page
from tests.browser.test_documents import choose_files, downloaded, files, text_file
from tests.browser.translating import MARKUP, assert_no_markup, problem
from tests.browser.views import open_view

TEXT = "# My garden\n\nI bought a *new* book. Where is the station?\n\nDo not forget {name}.\n"
GERMAN = {"edit": "Übersetzung bearbeiten", "confirmed": "0 von 4 bestätigt"}


def open_edit(page: Page, text: str = TEXT, name: str = "garden.md") -> None:
    """Translate a file, and open its translation."""
    open_view(page)
    choose_files(page, text_file(name, text))
    files(page).get_by_role("button", name="Edit translation").click()
    expect(rows(page).first).to_be_visible()


def rows(page: Page) -> Locator:
    """The sentences."""
    return page.get_by_role("list", name="Sentences").get_by_role("listitem")


def field(page: Page, number: int) -> Locator:
    """The translation of a sentence, by its number from 1."""
    return page.get_by_role("textbox", name=f"Translation of sentence {number}", exact=True)


def saved(page: Page) -> None:
    """Wait until everything is saved."""
    expect(page.locator(".edit-save")).to_have_text("Saved")


def edited_file(page: Page) -> tuple[str, str]:
    """Name and content of the file with the edits."""
    return downloaded(page, page.get_by_role("button", name="Download"))


def test_a_translation_is_edited_confirmed_with_the_keyboard_and_downloaded(
    page: Page, screenshot: Callable[[str], None]
) -> None:
    open_edit(page)
    expect(page.get_by_role("heading", level=1)).to_contain_text("garden.md")
    expect(page.locator(".edit-progress")).to_have_text("0 of 4 confirmed")
    expect(rows(page).nth(1).locator(".row-source")).to_have_text("I bought a {1}new{/1} book.")
    field(page, 1).focus()
    page.keyboard.press("Control+Enter")
    expect(field(page, 2)).to_be_focused()
    field(page, 2).fill("Das ist mein {1}neues{/1} Buch.")
    expect(rows(page).nth(1)).to_contain_text("Edited")
    page.keyboard.press("Control+Enter")
    expect(field(page, 3)).to_be_focused()
    expect(page.locator(".edit-progress")).to_have_text("2 of 4 confirmed")
    saved(page)
    screenshot("edit")
    name, content = edited_file(page)
    assert name == "garden.de.md"
    assert content.startswith("# Mein Garten\n\nDas ist mein *neues* Buch. Wo ist der Bahnhof?\n")
    page.reload()
    expect(field(page, 2)).to_have_value("Das ist mein {1}neues{/1} Buch.")
    expect(page.locator(".edit-progress")).to_have_text("2 of 4 confirmed")
    rows(page).nth(1).get_by_role("button", name="Undo edit").click()
    expect(field(page, 2)).to_have_value(re.compile(r"Ich habe ein \{1\}neues\{/1\} Buch gekauft\."))
    expect(page.locator(".edit-progress")).to_have_text("1 of 4 confirmed")


def test_only_unconfirmed_sentences_are_shown_on_request_and_the_last_one_ends_the_list(page: Page) -> None:
    open_edit(page)
    rows(page).nth(0).get_by_role("button", name="Confirm").click()
    saved(page)
    page.get_by_label("Only unconfirmed").check()
    expect(rows(page)).to_have_count(3)
    for number in (2, 3, 4):
        field(page, number).press("Control+Enter")
    expect(page.get_by_text("All sentences are confirmed.")).to_be_visible()
    expect(page.get_by_role("button", name="Download")).to_be_focused()
    expect(page.locator(".edit-progress")).to_have_text("4 of 4 confirmed")
    page.get_by_label("Only unconfirmed").uncheck()
    expect(rows(page)).to_have_count(4)
    rows(page).nth(2).get_by_role("button", name="Reopen").click()
    expect(page.locator(".edit-progress")).to_have_text("3 of 4 confirmed")


def test_what_cannot_be_saved_is_said_at_its_row_and_the_rest_is_saved(page: Page, watch: Watch) -> None:
    watch.expect("status of 422")
    open_edit(page)
    field(page, 2).fill("Ein Buch.")
    expect(rows(page).nth(1).get_by_role("alert")).to_have_text("These markers of the source are missing: {1} {/1}")
    expect(rows(page).nth(1).get_by_role("button", name="Confirm")).to_be_disabled()
    rows(page).nth(1).get_by_role("button", name="Insert them here").click()
    expect(field(page, 2)).to_have_value("Ein Buch.{1}{/1}")
    expect(rows(page).nth(1).get_by_role("alert")).to_be_empty()
    field(page, 4).fill("Vergiss ihn nicht.")
    field(page, 3).fill("Wo ist\nder Bahnhof?")
    expect(field(page, 3)).to_have_value("Wo ist der Bahnhof?")
    expect(rows(page).nth(3).get_by_role("alert")).to_contain_text("lacks the placeholder {name}")
    saved(page)
    _, content = edited_file(page)
    assert "Ein Buch." in content and "{name}" in content
    field(page, 4).fill("Vergiss {name} nicht.")
    expect(rows(page).nth(3).get_by_role("alert")).to_be_empty()
    saved(page)


def test_a_sentence_that_is_refused_after_it_was_confirmed_and_left_out_is_shown_again(
    page: Page, watch: Watch
) -> None:
    watch.expect("status of 422")
    open_edit(page)
    page.get_by_label("Only unconfirmed").check()
    expect(rows(page)).to_have_count(4)
    field(page, 4).fill("Vergiss ihn nicht.")
    field(page, 4).press("Control+Enter")
    expect(rows(page).nth(3).get_by_role("alert")).to_contain_text("The translation lacks the placeholder {name}")
    expect(rows(page).nth(3)).to_be_visible()


def test_a_sentence_that_was_not_translated_is_marked(page: Page, screenshot: Callable[[str], None]) -> None:
    """The model may translate everything, so the service's answer is changed."""

    def leave(route: Route) -> None:
        response = route.fetch()
        body = response.json()
        for sentence in body["sentences"][:2]:
            sentence["translation"] = sentence["source"]
        route.fulfill(response=response, json=body)

    page.route("**/sentences?*", leave)
    open_edit(page)
    expect(rows(page).nth(0).locator(".row-state")).to_have_text("Not translated")
    expect(rows(page).nth(1).locator(".row-state")).to_have_text("Not translated")
    expect(rows(page).nth(2).locator(".row-state")).to_have_text("Machine")
    for scheme in in_each_scheme(page):
        screenshot(f"edit-untranslated-{scheme}")
        assert_accessible(page, scheme)


def test_a_service_that_is_away_is_said_and_asked_again(page: Page, watch: Watch) -> None:
    watch.expect("ERR_FAILED")
    open_edit(page)
    page.route("**/sentences", lambda route: route.abort())
    field(page, 1).fill("Unser Garten")
    expect(page.locator(".edit-save")).to_contain_text("Not saved")
    page.unroute("**/sentences")
    page.get_by_role("button", name="Save again").click()
    saved(page)
    assert edited_file(page)[1].startswith("# Unser Garten")


def test_a_long_document_is_loaded_in_pages(page: Page) -> None:
    lines = "\n\n".join(f"{number} books." for number in range(1, 121))
    open_edit(page, lines, "long.txt")
    expect(page.locator(".edit-progress")).to_have_text("0 of 120 confirmed")
    assert rows(page).count() < 120
    field(page, 50).press("Control+Enter")
    expect(field(page, 51)).to_be_focused()
    for _ in range(3):
        page.get_by_role("contentinfo").scroll_into_view_if_needed()
    expect(rows(page)).to_have_count(120)
    expect(page.get_by_role("button", name="Show more sentences")).to_be_hidden()


def test_a_document_that_is_gone_says_so_and_leads_back(page: Page, watch: Watch) -> None:
    watch.expect("404")
    page.goto(f"/#/edit/{'0' * 32}")
    expect(page.get_by_role("alert").first).to_contain_text("There is no document")
    page.get_by_role("link", name="Back to the files").click()
    expect(page.get_by_label("Text to translate")).to_be_visible()


def test_texts_and_names_of_files_are_never_markup(page: Page) -> None:
    open_edit(page, f"The cat sees {MARKUP} there.\n", f"{MARKUP}.txt")
    expect(rows(page).first).to_contain_text(MARKUP)
    assert_no_markup(page)


def test_the_view_meets_wcag_and_the_keyboard_reaches_every_control(
    page: Page, screenshot: Callable[[str], None]
) -> None:
    open_edit(page)
    field(page, 2).fill("Ein Buch.")
    field(page, 3).press("Control+Enter")
    saved(page)
    for scheme in in_each_scheme(page):
        screenshot(f"edit-{scheme}")
        assert_accessible(page, scheme)
    field(page, 2).fill("Das {1}neue{/1} Buch.")
    saved(page)
    page.reload()
    expect(rows(page)).to_have_count(4)
    stops = tab_stops(page)
    first = stops.index("Translation of sentence 1")
    assert stops[first : first + 5] == [
        *("Translation of sentence 1", "✓Confirm"),
        *("Translation of sentence 2", "↺Undo edit", "✓Confirm"),
    ]


@pytest.mark.parametrize("width", [320, 390])
def test_the_view_fits_on_a_phone_in_german(browser: Browser, watch: Watch, width: int) -> None:
    with watched_page(browser, watch, viewport=(width, 700), language="de-DE") as page:
        open_view(page)
        page.locator("input[type=file]").set_input_files(text_file("garden.md", TEXT))
        page.get_by_role("button", name=GERMAN["edit"]).click()
        expect(page.locator(".edit-progress")).to_have_text(GERMAN["confirmed"])
        expect(page.locator(".edit-row textarea").first).to_be_visible()
        assert page.evaluate("() => document.documentElement.scrollWidth") <= width
        assert_accessible(page, str(width))
    assert not watch.unexpected(), "\n".join(watch.unexpected())


def test_a_change_is_sent_although_the_view_is_left_at_once(page: Page) -> None:
    sent: list[str] = []

    def note(route: Route) -> None:
        sent.append(route.request.method)
        route.continue_()

    open_edit(page)
    page.route("**/sentences", note)
    field(page, 1).fill("Unser Garten")
    with page.expect_response("**/sentences"):
        page.get_by_role("link", name="Attention", exact=True).click()
    assert sent == ["PATCH"]


def test_sentences_of_another_key_ask_for_it(page: Page, watch: Watch) -> None:
    watch.expect("status of 401")
    open_edit(page)
    page.route("**/sentences", lambda route: route.fulfill(**problem(401, "key_required", "A key is required.")))
    field(page, 1).fill("Unser Garten")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.unroute("**/sentences")
    page.get_by_label("API key").fill("a key")
    page.get_by_role("button", name="Use the key").click()
    expect(field(page, 1)).to_have_value("Unser Garten")
    saved(page)
