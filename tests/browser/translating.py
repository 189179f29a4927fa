"""How tests use the view "translate"."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from urllib.parse import urljoin

from playwright.sync_api import Locator, Page, Route, expect

from tests.browser.views import wait_for

MARKUP = "<img src=x onerror=alert(1)>"
"""A text that would act if it were parsed as HTML; it names no file that could be loaded."""


def source(page: Page) -> Locator:
    """Where the text is typed."""
    return page.get_by_label("Text to translate")


def output(page: Page) -> Locator:
    """The pane of the translation."""
    return page.get_by_role("region", name="Translation", exact=True)


def translation(page: Page) -> Locator:
    """The translation itself."""
    return output(page).locator(".target-words")


def choose(page: Page, name: str, label: str) -> None:
    """Choose from a list, by what is written there."""
    page.get_by_role("combobox", name=name, exact=True).select_option(label=label)


def open_options(page: Page) -> None:
    """Show the options."""
    page.locator(".options summary").click()


def translated(page: Page, text: str, expected: str) -> None:
    """Type a text, and wait until its translation contains a text."""
    source(page).fill(text)
    wait_for(page, "main .target-words", expected)
    expect(translation(page)).to_contain_text(expected)


def asked(page: Page) -> list[dict[str, Any]]:
    """The bodies of the page's requests for translations, from now on."""
    bodies: list[dict[str, Any]] = []

    def note(request: Any) -> None:
        if request.url.endswith("/translate") and request.method == "POST":
            bodies.append(request.post_data_json)

    page.on("request", note)
    return bodies


def answer(page: Page, text: str, **fields: Any) -> dict[str, Any]:
    """The service's translation of an English text into German, as the page asks for it.

    Args:
        page: A page of the service.
        text: The text.
        fields: Other fields of the request.
    """
    body = {"text": text, "source": "en", "target": "de", "decoding": "beam", "beam_size": 4, "num_hypotheses": 4}
    details = {"return_scores": True, "return_alignment": True, "return_confidence": True}
    response = page.request.post(urljoin(page.url, "/translate"), data={**body, **details, **fields})
    result: dict[str, Any] = response.json()["translations"][0]
    return result


def change_models(page: Page, change: Callable[[dict[str, Any]], None]) -> None:
    """Let the service describe its models differently, before the page is opened."""

    def answer(route: Route) -> None:
        response = route.fetch()
        body = response.json()
        for model in body["models"]:
            change(model)
        route.fulfill(response=response, json=body)

    page.route("**/models", answer)


def assert_no_markup(page: Page) -> None:
    """Nothing was parsed as HTML."""
    assert page.locator("main img, main script").count() == 0


def problem(status: int, code: str, detail: str) -> dict[str, Any]:
    """An answer of the service that is an error, for ``Route.fulfill``."""
    body = {"title": "A title", "status": status, "code": code, "detail": detail}
    return {"status": status, "content_type": "application/problem+json", "body": json.dumps(body)}
