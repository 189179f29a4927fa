"""The page in Chromium, served by a real process with the shipped model."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from app.settings import AUTO
from tests.browser.chromium import Watch, chromium, watched_page
from tests.server import Server, served

SCREENSHOTS = "SCREENSHOTS"
"""Variable with the folder that screenshots are written to."""


@pytest.hookimpl(tryfirst=True)  # before markers select the tests
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All tests of this folder need a browser."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker("browser")


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The service with the shipped model, ready; documents and glossaries are kept in a folder of the tests."""
    with served(Path(AUTO), VERSO_DATA_DIR=str(tmp_path_factory.mktemp("data"))) as running:
        yield running


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Chromium, once for all tests."""
    with chromium() as running:
        yield running


@pytest.fixture
def watch(service: Server) -> Watch:
    """What the test's page did wrong. A test that provokes an error says so with ``watch.expect(pattern)``."""
    return Watch(str(service.client.base_url).rstrip("/"))


@pytest.fixture
def page(browser: Browser, watch: Watch) -> Iterator[Page]:
    """An empty page in a new profile; whatever the page must not do fails the test."""
    with watched_page(browser, watch) as opening:
        yield opening
    assert not watch.unexpected(), "\n".join(watch.unexpected())


@pytest.fixture
def screenshot(page: Page) -> Callable[[str], None]:
    """Writes a picture of the page, under a name, if the variable SCREENSHOTS names a folder."""

    def write(name: str) -> None:
        if folder := os.environ.get(SCREENSHOTS):
            page.screenshot(path=Path(folder) / f"{name}.png")

    return write
