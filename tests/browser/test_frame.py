"""The frame of the page: what it loads and costs, its navigation, its look for everybody."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from tests.browser.accessibility import assert_accessible, in_each_scheme, tab_stops
from tests.browser.chromium import Watch, watched_page
from tests.browser.translating import translation
from tests.browser.views import SENTENCE, VIEWS, open_view, shown
from tests.browser.wire import is_of_the_page, measured

MAX_BYTES = 175_000
NARROW = 320

TOO_WIDE = """() => [...document.querySelectorAll("body *")]
  .filter((element) => element.getBoundingClientRect().right > innerWidth + 1)
  .map((element) => `${element.tagName} ${element.className}`)"""


def test_the_first_view_is_that_of_translations_and_every_link_of_the_navigation_opens_its_view(
    page: Page, screenshot: Callable[[str], None]
) -> None:
    page.goto("/")
    shown(page, "translate")
    for view in VIEWS:
        page.locator(f"nav a[href='#/{view}']").click()
        shown(page, view)
        screenshot(f"frame-{view}")
    page.go_back()
    shown(page, VIEWS[-2])


def test_the_footer_of_the_shipped_model_names_the_line_that_serves_better_ones(page: Page) -> None:
    open_view(page)
    expect(page.locator("footer")).to_contain_text("verso-en-de: 6+2 layers")
    expect(page.locator("footer code")).to_have_text("VERSO_MODELS=firefox:en-de,firefox:de-en make serve")


def test_the_api_page_is_one_link_away(page: Page) -> None:
    open_view(page)
    page.get_by_role("link", name="API", exact=True).click()
    expect(page.locator("#swagger-ui .opblock").first).to_be_visible()


def test_the_api_page_is_dark_with_the_system_short_and_leads_back(
    page: Page, screenshot: Callable[[str], None]
) -> None:
    page.emulate_media(color_scheme="dark")
    page.goto("/docs")
    translate = page.locator("#swagger-ui .opblock").filter(has_text="/translate").first
    translate.locator(".opblock-summary-control").click()
    expect(translate.locator(".responses-inner")).to_be_visible()
    screenshot("docs-dark")
    dark = page.locator("body, html").first.evaluate("(html) => getComputedStyle(html).backgroundColor")
    assert max(int(part) for part in dark.removeprefix("rgb(").removesuffix(")").split(", ")) < 64
    assert translate.evaluate("(block) => block.offsetHeight") < 4500
    page.emulate_media(color_scheme="light")
    expect(page.locator("html")).not_to_have_class("dark-mode")
    page.get_by_role("link", name="← Verso").click()
    shown(page, "translate")


@pytest.mark.parametrize("language", ["en", "de"])
def test_no_language_is_cut_and_chapters_come_first_on_a_phone(browser: Browser, watch: Watch, language: str) -> None:
    with watched_page(browser, watch, viewport=(NARROW, 640), language=language) as page:
        open_view(page)
        for select in page.locator(".language-bar select").all():
            assert select.bounding_box()["width"] > 200  # type: ignore[index]
        open_view(page, "tour")
        chapters, chapter = page.locator(".contents"), page.locator(".chapter")
        assert chapters.bounding_box()["y"] < chapter.bounding_box()["y"]  # type: ignore[index]
    assert not watch.unexpected(), "\n".join(watch.unexpected())


def test_a_visit_of_all_views_takes_less_than_175_kb_of_files(page: Page) -> None:
    with measured(page) as sizes:
        for view in VIEWS:
            open_view(page, view)
        page.wait_for_load_state("networkidle")
    files = {url: size for url, size in sizes.items() if is_of_the_page(url)}
    assert len(files) > len(VIEWS)
    assert sum(files.values()) < MAX_BYTES, "\n".join(f"{size:7} {url}" for url, size in files.items())


def test_an_empty_page_meets_wcag(page: Page, screenshot: Callable[[str], None]) -> None:
    open_view(page)
    for scheme in in_each_scheme(page):
        screenshot(f"frame-empty-{scheme}")
        assert_accessible(page, scheme)


@pytest.mark.parametrize("view", VIEWS)
def test_a_view_meets_wcag_in_light_and_dark_colours(page: Page, view: str, screenshot: Callable[[str], None]) -> None:
    open_view(page, view, text=SENTENCE)
    for scheme in in_each_scheme(page):
        screenshot(f"frame-{view}-{scheme}")
        assert_accessible(page, scheme)


def test_the_views_fit_into_320_pixels(page: Page, screenshot: Callable[[str], None]) -> None:
    page.set_viewport_size({"width": NARROW, "height": 640})
    for view in VIEWS:
        open_view(page, view, text=SENTENCE)
        screenshot(f"frame-{view}-narrow")
        assert page.evaluate("() => document.documentElement.scrollWidth") <= NARROW, page.evaluate(TOO_WIDE)


def test_the_keyboard_reaches_the_navigation_and_every_stop_shows_the_focus(page: Page) -> None:
    open_view(page)
    stops = tab_stops(page)
    assert stops[0] == "Skip to the content"
    assert stops[1:8] == ["Verso", "Translate", "Attention", "How it works", "API", "Deutsch", "Dark theme"]


def test_the_keyboard_reaches_every_control_of_the_views(page: Page) -> None:
    for view in VIEWS:
        # A view that is opened from another one begins with its content.
        page.goto("about:blank")
        open_view(page, view, text=SENTENCE)
        assert len(tab_stops(page)) > len(VIEWS)


def test_the_first_link_skips_to_the_content(page: Page) -> None:
    open_view(page, "attention")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    shown(page, "attention")


def test_a_view_is_opened_with_the_keyboard(page: Page) -> None:
    open_view(page)
    page.get_by_role("link", name="How it works").focus()
    page.keyboard.press("Enter")
    shown(page, "tour")


def test_the_chosen_theme_is_kept(page: Page) -> None:
    open_view(page)
    background = "() => getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(background)
    page.get_by_role("button", name="Dark theme").click()
    dark = page.evaluate(background)
    assert dark != light
    page.reload()
    shown(page, "translate")
    assert page.evaluate(background) == dark
    page.get_by_role("button", name="Light theme").click()
    assert page.evaluate(background) == light


def test_a_key_is_asked_for_where_one_is_needed_and_kept_for_the_tab_only(page: Page, watch: Watch) -> None:
    watch.expect(r"401 \(Unauthorized\)")
    keys: list[str | None] = []

    def guard(route: Route) -> None:
        keys.append(route.request.headers.get("authorization"))
        if keys[-1] == "Bearer secret-key":
            route.continue_()
        else:
            route.fulfill(status=401, json={"title": "A key is needed", "status": 401, "code": "key_needed"})

    page.route("**/translate", guard)
    page.goto("/#/translate?source=en&target=de&text=Where+is+the+station%3F")
    dialog = page.get_by_role("dialog", name="This service needs a key")
    expect(dialog).to_contain_text("Whoever runs this service has given you a key")
    dialog.get_by_label("API key").fill("secret-key")
    dialog.get_by_role("button", name="Use the key").click()
    expect(translation(page)).to_contain_text("Bahnhof")
    assert keys[0] is None
    assert "secret-key" not in page.evaluate("() => JSON.stringify(localStorage) + location.href")
    assert page.evaluate("() => sessionStorage.getItem('verso.key')") == "secret-key"
    page.reload()
    shown(page, "translate")
    assert page.evaluate("() => sessionStorage.getItem('verso.key')") == "secret-key"


def test_the_views_that_look_inside_use_a_key_as_soon_as_it_is_given(page: Page, watch: Watch) -> None:
    watch.expect(r"401 \(Unauthorized\)")

    def guard(route: Route) -> None:
        if "authorization" in route.request.headers:
            route.continue_()
        else:
            route.fulfill(status=401, json={"title": "A key is needed", "status": 401, "code": "key_needed"})

    page.route("**/attention", guard)
    for view, answer in (("attention", ".heat-rows span"), ("tour", ".tokens li")):
        page.goto(f"/#/{view}?source=en&target=de&text=Where+is+the+station%3F")
        dialog = page.get_by_role("dialog", name="This service needs a key")
        dialog.get_by_label("API key").fill("secret-key")
        dialog.get_by_role("button", name="Use the key").click()
        expect(page.locator(answer).first).to_be_visible()
        page.evaluate("() => sessionStorage.clear()")


def test_a_view_that_cannot_be_loaded_says_so_and_the_others_work_on(page: Page, watch: Watch) -> None:
    watch.expect("Failed to load resource")
    open_view(page)
    page.route("**/views/tour.js", lambda route: route.abort())
    page.get_by_role("link", name="How it works", exact=True).first.click()
    expect(page.get_by_role("alert")).to_contain_text("cannot be reached")
    page.locator("nav").get_by_role("link", name="Translate").click()
    expect(page.get_by_label("Text to translate")).to_be_visible()
