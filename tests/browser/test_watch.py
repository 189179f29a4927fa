"""The means of these tests: each thing that a page must not do is noticed."""

from __future__ import annotations

import re

from playwright.sync_api import Browser, Page

from tests.browser.accessibility import violations
from tests.browser.chromium import PATIENCE_MS, Watch, watched_page
from tests.browser.views import open_view

STEP_MS = 20

ON_THE_PAGE = {
    "console: broken": "() => console.error('broken')",
    "console: odd": "() => console.warn('odd')",
    "exception: .*broken": "() => { setTimeout(() => { throw new Error('broken'); }) }",
    "exception: .*refused": "() => { Promise.reject(new Error('refused')); }",
    "policy: connect-src forbids http://example.com": "() => { fetch('http://example.com/').catch(() => null); }",
    "policy: style-src-attr": "() => { document.body.setAttribute('style', 'color: red'); }",
    "policy: require-trusted-types-for": "() => { try { document.body.innerHTML = '<b>'; } catch {} }",
}


def noticed(watch: Watch, problem: str) -> bool:
    """Whether a problem is among those of the page."""
    return any(re.search(problem, result) for result in watch.problems)


def wait(page: Page, watch: Watch, problem: str) -> None:
    """Let the page run until a problem is noticed."""
    for _ in range(int(PATIENCE_MS) // STEP_MS):
        if noticed(watch, problem):
            return
        page.wait_for_timeout(STEP_MS)


def test_what_a_page_must_not_do_is_a_problem(browser: Browser, watch: Watch) -> None:
    with watched_page(browser, watch) as page:
        open_view(page)
        assert not watch.problems
        for problem, script in ON_THE_PAGE.items():
            page.evaluate(script)
            wait(page, watch, problem)
        page.evaluate("() => { document.cookie = 'a=b'; }")
    for problem in (*ON_THE_PAGE, "cookie: "):
        assert noticed(watch, problem), f"{problem}: {watch.problems}"


def test_a_request_to_another_host_is_a_problem_and_gets_nowhere(browser: Browser, watch: Watch) -> None:
    with watched_page(browser, watch) as page:
        page.goto("/livez")  # has no policy that would forbid the request
        for url in ("http://example.com/", "http://192.0.2.1/", "http://localhost/"):
            with page.expect_event("requestfailed") as failed:
                page.evaluate("(url) => { new Image().src = url; }", url)
            assert failed.value.failure == "net::ERR_NAME_NOT_RESOLVED"
            assert f"another host: {url}" in watch.problems


def test_axe_runs_under_the_policy_of_the_page_and_finds_a_missing_label(page: Page) -> None:
    open_view(page)
    page.evaluate("() => document.querySelector('main').append(document.createElement('textarea'))")
    (result,) = violations(page)
    assert result.startswith("label: ") and "textarea" in result
