"""The languages of the page itself."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Browser, Page, expect

from app.http.routes.page import PAGE
from tests.browser.chromium import Watch, watched_page
from tests.browser.translating import source, translated
from tests.browser.views import SENTENCE, VIEWS, open_view

KEY = re.compile(r'^  "(?P<key>[^"]+)":\s*"(?P<text>(?:[^"\\]|\\.)*)",$', re.MULTILINE)
USED = re.compile(r'"([a-z-]+(?:\.[a-zA-Z0-9-]+)+)"')
PLACEHOLDER = re.compile(r"\{\w+\}")
WORDS = re.compile(r'(?:"|`|> *)[A-Z][a-z]+(?: [a-z]+)+[^"`<]*(?:"|`|<)')
"""A text of several words that begins with a capital letter, in quotes or between tags."""
NO_TEXTS = {"chosen-sentence.js"}
"""Example sentences in the languages that are translated."""


def texts(language: str) -> dict[str, str]:
    """The texts of a language by key."""
    return {
        match["key"]: match["text"]
        for name in (f"{language}.js", f"{language}-tour.js")
        for match in KEY.finditer((PAGE / "texts" / name).read_text(encoding="utf-8"))
    }


def test_every_language_has_the_same_texts_with_the_same_placeholders() -> None:
    english, german = texts("en"), texts("de")
    assert len(english) > 300
    assert english.keys() == german.keys()
    for key, text in english.items():
        assert sorted(PLACEHOLDER.findall(text)) == sorted(PLACEHOLDER.findall(german[key])), key
        assert german[key].strip() or not text.strip(), key


def test_every_text_is_used_and_every_used_text_exists() -> None:
    code = [path for path in PAGE.rglob("*.js") if path.parent.name != "texts"]
    used = {key for path in code for key in USED.findall(path.read_text(encoding="utf-8"))}
    english = set(texts("en"))
    assert english <= used
    assert {key for key in used if key.split(".")[0] in {known.split(".")[0] for known in english}} <= english | {
        key for key in used if key.startswith("verso.")
    }


def test_no_text_is_written_outside_the_files_of_texts() -> None:
    for path in PAGE.rglob("*.*"):
        if path.suffix not in {".js", ".html", ".css"} or path.parent.name == "texts" or path.name in NO_TEXTS:
            continue
        text = re.sub(r"/\*.*?\*/|//[^\n]*|<noscript>.*?</noscript>", "", path.read_text(encoding="utf-8"), flags=re.S)
        assert not WORDS.findall(text), path


@pytest.mark.parametrize("view", VIEWS)
def test_a_german_browser_sees_the_page_in_german_and_can_switch_to_english_for_good(
    browser: Browser, watch: Watch, view: str
) -> None:
    with watched_page(browser, watch, language="de-AT") as page:
        open_view(page, view, text=SENTENCE)
        expect(page.locator("html")).to_have_attribute("lang", "de")
        expect(page.get_by_role("link", name="Übersetzen", exact=True).first).to_be_visible()
        expect(
            page.get_by_role("combobox", name="Übersetzen in") if view == VIEWS[0] else page.locator("h1")
        ).to_be_visible()
        page.get_by_role("button", name="English").click()
        expect(page.locator("html")).to_have_attribute("lang", "en")
        expect(page.get_by_role("link", name="Translate", exact=True).first).to_be_visible()
        page.reload()
        expect(page.get_by_role("button", name="Deutsch")).to_be_visible()
    assert not watch.unexpected(), "\n".join(watch.unexpected())


def test_numbers_are_written_as_the_language_does(browser: Browser, watch: Watch) -> None:
    with watched_page(browser, watch, language="de-DE") as page:
        open_view(page, "attention", text=SENTENCE)
        expect(page.locator(".chip-weight").first).to_have_text(re.compile(r"^0,\d{3}$"))
        page.goto("/#/translate")
        expect(page.locator(".count")).to_contain_text(re.compile(r"\d+ / \d+\.\d{3}"))
    assert not watch.unexpected(), "\n".join(watch.unexpected())


def test_a_text_and_the_options_survive_a_reload_until_they_are_cleared(page: Page) -> None:
    open_view(page)
    translated(page, "Where is the station?", "Bahnhof")
    page.reload()
    expect(source(page)).to_have_value("Where is the station?")
    expect(page.locator(".target-words")).to_contain_text("Bahnhof")
    page.get_by_role("button", name="Clear", exact=True).click()
    page.reload()
    expect(source(page)).to_have_value("")
