"""How tests get around the page."""

from __future__ import annotations

from playwright.sync_api import Locator, Page, expect

VIEWS = ("translate", "attention", "tour")


def open_view(page: Page, view: str = VIEWS[0]) -> Locator:
    """Open a view by its address, and wait until it is shown; gives the element that it fills."""
    page.goto(f"/#/{view}")
    return shown(page, view)


def shown(page: Page, view: str) -> Locator:
    """Wait until a view is shown; gives the element that it fills."""
    expect(page.locator("nav a[aria-current=page]")).to_have_attribute("href", f"#/{view}")
    main = page.locator("main")
    expect(main.locator("h1")).to_be_attached()
    return main
