"""How tests get around the page."""

from __future__ import annotations

from urllib.parse import urlencode

from playwright.sync_api import Locator, Page, expect

VIEWS = ("translate", "attention", "tour")
SENTENCE = "My little brother has forgotten his keys."


def open_view(page: Page, view: str = VIEWS[0], *, text: str = "", source: str = "en", target: str = "de") -> Locator:
    """Open a view by its address, and wait until it is shown; gives the element that it fills.

    Args:
        page: An open page.
        view: Name of the view.
        text: If there is one, the address contains it and the languages, as in a shared link. The service's answers
            are waited for.
        source: Language of the text.
        target: Language of the translation.
    """
    query = f"?{urlencode({'source': source, 'target': target, 'text': text})}" if text else ""
    page.goto(f"/#/{view}{query}")
    main = shown(page, view)
    if text:
        answered(main, view)
    return main


def answered(main: Locator, view: str) -> None:
    """Wait until a view shows all that it asks the service about its text."""
    last = {"translate": ".linked-details", "attention": ".beam-box", "tour": ".stage"}[view]
    expect(main.locator(last).first).to_be_visible()
    expect(main.locator("[aria-busy=true]")).to_have_count(0)


def shown(page: Page, view: str) -> Locator:
    """Wait until a view is shown; gives the element that it fills."""
    expect(page.locator("nav a[aria-current=page]")).to_have_attribute("href", f"#/{view}")
    main = page.locator("main")
    expect(main.locator("h1")).to_be_attached()
    return main
