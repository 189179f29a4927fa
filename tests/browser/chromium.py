"""Chromium that uses the page: deterministic, without a way to other hosts, and watched."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import urlsplit

from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    Request,
    WebError,
    expect,
    sync_playwright,
)

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
VIEWPORT = (1280, 800)
PATIENCE_MS = 60_000.0
"""Maximal time until the page is as a test expects it. Machines of tests may be busy."""

# Only this machine has an address; the rest keeps Chromium itself from asking its maker's hosts.
ARGUMENTS = [
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--disable-quic",
    "--disable-gpu",
    "--force-color-profile=srgb",
    "--font-render-hinting=none",
    "--hide-scrollbars",
]

# A violation is an event of the document; the console has it too, but without the directive.
REPORT_VIOLATIONS = """
addEventListener("securitypolicyviolation", (event) =>
  reportViolation(`${event.effectiveDirective} forbids ${event.blockedURI || event.sample}`));
"""


def executable() -> str:
    """The program: that of the variable CHROMIUM, or the first one that is found.

    Raises:
        FileNotFoundError: There is none.
    """
    if chosen := os.environ.get("CHROMIUM"):
        return chosen
    for name in NAMES:
        if path := shutil.which(name):
            return path
    raise FileNotFoundError(
        f"None of {', '.join(NAMES)} is installed. Install one (Debian: apt install chromium) or name it with CHROMIUM."
    )


def installed() -> bool:
    """Whether there is a browser, for tests that are not only run on demand."""
    try:
        executable()
    except FileNotFoundError:
        return False
    return True


@contextmanager
def chromium() -> Iterator[Browser]:
    """A headless browser."""
    expect.set_options(timeout=PATIENCE_MS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=executable(),
            args=ARGUMENTS,
            # Root has no sandbox.
            chromium_sandbox=hasattr(os, "geteuid") and os.geteuid() != 0,
        )
        try:
            yield browser
        finally:
            browser.close()


@dataclass
class Watch:
    """What a page must not do: its messages, exceptions, violations of the policy, requests to other hosts, cookies.

    Args:
        address: Address of the service.
    """

    address: str
    problems: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    _expected: list[re.Pattern[str]] = field(default_factory=list)

    def expect(self, pattern: str) -> None:
        """Accept problems that match, from now on and before."""
        self._expected.append(re.compile(pattern))

    def unexpected(self) -> list[str]:
        """The problems that no pattern matches."""
        return [problem for problem in self.problems if not any(item.search(problem) for item in self._expected)]

    def attach(self, context: BrowserContext) -> None:
        """Watch all pages of a context."""
        context.expose_function("reportViolation", lambda output: self.problems.append(f"policy: {output}"))
        context.add_init_script(REPORT_VIOLATIONS)
        context.on("console", self._console)
        context.on("weberror", self._exception)
        context.on("request", self._request)
        context.on("page", lambda page: page.on("websocket", lambda socket: self._asked(socket.url)))

    def cookies(self, context: BrowserContext) -> None:
        """Cookies are problems."""
        self.problems += [f"cookie: {cookie}" for cookie in context.cookies()]

    def _console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.problems.append(f"console: {message.text} ({message.location.get('url')})")

    def _exception(self, error: WebError) -> None:
        self.problems.append(f"exception: {error.error}")

    def _request(self, request: Request) -> None:
        self._asked(request.url)

    def _asked(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme in ("blob", "data"):
            return
        self.requests.append(url)
        if f"{parts.scheme}://{parts.netloc}" != self.address:
            self.problems.append(f"another host: {url}")


@contextmanager
def watched_page(
    browser: Browser,
    watch: Watch,
    *,
    viewport: tuple[int, int] = VIEWPORT,
    colour_scheme: Literal["light", "dark"] = "light",
    language: str = "en-GB",
    **options: Any,
) -> Iterator[Page]:
    """An empty page in a profile of its own.

    Args:
        browser: The browser.
        watch: Collects the page's problems.
        viewport: Width and height in CSS pixels.
        colour_scheme: The system's theme.
        language: The browser's language.
        options: Further options of ``Browser.new_context``.
    """
    width, height = viewport
    context = browser.new_context(
        base_url=watch.address,
        viewport={"width": width, "height": height},
        color_scheme=colour_scheme,
        reduced_motion="reduce",
        locale=language,
        timezone_id="UTC",
        permissions=["clipboard-read", "clipboard-write"],
        **options,
    )
    try:
        context.set_default_timeout(PATIENCE_MS)
        watch.attach(context)
        yield context.new_page()
        watch.cookies(context)
    finally:
        context.close()
