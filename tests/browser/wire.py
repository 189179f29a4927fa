"""What a visit costs: bytes of the page's files over the wire."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import Page


def is_of_the_page(url: str) -> bool:
    """Whether an address is one of the page's own files; the others are answers about texts."""
    path = urlsplit(url).path
    return path == "/" or path.startswith("/page/")


@contextmanager
def measured(page: Page) -> Iterator[dict[str, int]]:
    """Bytes of responses by address, as encoded for the wire, with their headers."""
    session = page.context.new_cdp_session(page)
    urls: dict[str, str] = {}
    sizes: dict[str, int] = {}

    def sent(event: dict[str, Any]) -> None:
        urls[event["requestId"]] = event["request"]["url"]

    def finished(event: dict[str, Any]) -> None:
        url = urls[event["requestId"]]
        sizes[url] = sizes.get(url, 0) + int(event["encodedDataLength"])

    session.on("Network.requestWillBeSent", sent)
    session.on("Network.loadingFinished", finished)
    session.send("Network.enable")
    try:
        yield sizes
    finally:
        session.detach()
