"""Request bodies as bytes, sent to every route that has one, around a service that translates into capitals."""

from __future__ import annotations

import asyncio
import logging
from functools import cache
from typing import Any

import httpx

import model.plots  # noqa: F401 - matplotlib makes its folders when it is imported first: not because of an input
from tests.app.serving import RoteService, rote_app
from tests.fuzz.target import Target

_FORM = b"--x\r\nContent-Disposition: form-data; name=%s\r\n\r\n%s\r\n"
_FILE = b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\nHello.\r\n--x--\r\n'
_JSON = b'{"text": ["Good morning."], "target": "de", "beam_size": 2, "q": "Hi", "source": "en", "target_lang": "DE"}'

ROUTES = (
    "/translate", "/attention", "/documents", "/libretranslate/translate", "/libretranslate/detect",
    "/v2/translate", "/v2/glossaries", "/v3/glossaries", "/v2/document", "/v2/languages",
)  # fmt: skip
TYPES = ("application/json", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "application/json")
ACCEPTED = ("*/*", "text/event-stream", "application/x-ndjson", "image/png")


@cache
def _client() -> tuple[asyncio.AbstractEventLoop, httpx.AsyncClient]:
    logging.getLogger("python_multipart").setLevel(logging.ERROR)  # it warns of each form that it refuses
    app = rote_app(RoteService())
    transport = httpx.ASGITransport(app)  # which raises what the application raises
    return asyncio.new_event_loop(), httpx.AsyncClient(transport=transport, base_url="http://localhost")


def _send(data: bytes) -> None:
    """The first two bytes choose the route and the headers; the rest is the body."""
    loop, client = _client()
    route, form = (data[0], data[1]) if len(data) > 1 else (0, 0)
    headers = {"content-type": TYPES[form % 4], "accept": ACCEPTED[form // 4 % 4]}
    if ROUTES[route % len(ROUTES)].startswith(("/v2", "/v3")):
        headers["authorization"] = "DeepL-Auth-Key any"
    response: Any = loop.run_until_complete(
        client.post(ROUTES[route % len(ROUTES)], content=data[2:], headers=headers, timeout=None)
    )
    assert response.status_code < 500, response.text[:300]
    assert response.status_code < 400 or response.json(), "an error has a body"


def _seeds() -> list[bytes]:
    form = _FORM % (b"source", b"en") + _FORM % (b"target", b"de") + _FORM % (b"target_lang", b"DE") + _FILE
    query = b"text=Hello&q=Hello&source=en&target=de&target_lang=DE&source_lang=EN&name=a&entries=a%09b"
    bodies = {0: _JSON, 1: query, 2: form}
    return [bytes([route, kind]) + body for route in range(len(ROUTES)) for kind, body in bodies.items()]


TARGETS = [Target("bodies", _send, _seeds)]
