"""How tests get around the page."""

from __future__ import annotations

from urllib.parse import urlencode

from playwright.sync_api import Locator, Page, expect

from tests.browser.chromium import PATIENCE_MS

# Playwright looks less and less often, once a second at last.
LOOK_OFTEN = """([selector, text, busy, patience]) => new Promise((resolve) => {
  const end = performance.now() + patience;
  const look = () => {
    const shown = [...document.querySelectorAll(selector)].some((one) => one.textContent.includes(text));
    if ((shown && !(busy && document.querySelector(busy))) || performance.now() > end) resolve(null);
    else setTimeout(look, 10);
  };
  look();
})"""

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
    wait_for(page, f"nav a[aria-current=page][href='#/{view}']")
    main = shown(page, view)
    if text:
        answered(main, view)
    return main


def answered(main: Locator, view: str) -> None:
    """Wait until a view shows all that it asks the service about its text."""
    last = {"translate": ".linked-details", "attention": ".beam-box", "tour": ".stage"}[view]
    wait_for(main.page, f"main {last}", busy="main [aria-busy=true]")
    expect(main.locator(last).first).to_be_visible()
    expect(main.locator("[aria-busy=true]")).to_have_count(0)


def wait_for(page: Page, selector: str, text: str = "", busy: str = "") -> None:
    """Wait as long as there is no element with a text; whether there is one at last, ``expect`` says.

    Args:
        page: The page.
        selector: CSS that selects the element.
        text: A part of its text.
        busy: CSS of what there must not be.
    """
    page.evaluate(LOOK_OFTEN, [selector, text, busy, PATIENCE_MS])


def shown(page: Page, view: str) -> Locator:
    """Wait until a view is shown; gives the element that it fills."""
    expect(page.locator("nav a[aria-current=page]")).to_have_attribute("href", f"#/{view}")
    main = page.locator("main")
    expect(main.locator("h1")).to_be_attached()
    return main
