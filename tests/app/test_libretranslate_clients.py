"""Clients of LibreTranslate against a real socket: one is run, the requests of the others are sent byte for byte."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import unquote_plus

import pytest
from libretranslatepy import LibreTranslateAPI

from tests.app.wire import exchange, fake_app, listening, request

pytestmark = pytest.mark.anyio

BASES = ["", "/libretranslate"]
"""Paths that an operator enters in a client: of the root, if VERSO_COMPAT says so, and of the protocol."""

TOOT = (
    '<p><span class="h-card" translate="no"><a href="https://example.social/@ada" class="mention">@<span>ada</span>'
    "</a></span> good morning, <br />see you &amp; yours</p>"
)


@pytest.fixture
async def port() -> AsyncIterator[int]:
    async with listening(fake_app(compat="libretranslate")) as port:
        yield port


@pytest.mark.parametrize("base", BASES)
async def test_libretranslatepy_translates_detects_and_lists_languages(port: int, base: str) -> None:
    client = LibreTranslateAPI(f"http://127.0.0.1:{port}{base}", api_key="K")

    def use() -> list[Any]:
        return [
            client.translate("good morning\r\nworld & all", "en", "de"),
            client.detect("Guten Morgen, wie geht es Ihnen heute?"),
            client.languages(),
        ]

    translated, detected, languages = await asyncio.to_thread(use)
    assert translated == "GOOD MORNING\nWORLD & ALL"
    ((best),) = detected
    assert best["language"] == "de"
    assert 50 < best["confidence"] <= 100
    assert languages == [
        {"code": "de", "name": "German", "targets": ["de", "en"]},
        {"code": "en", "name": "English", "targets": ["de", "en"]},
    ]


def from_mastodon(base: str, content: dict[str, Any]) -> bytes:
    body = json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()
    return request(
        "POST",
        f"{base}/translate",
        "Content-Type: application/json",
        "User-Agent: Mastodon/4.5.0 (http.rb/5.3.1; +https://example.social/)",
        "Host: 127.0.0.1:5000",
        "Date: Sun, 22 Nov 2026 10:00:00 GMT",
        "Accept-Encoding: gzip",
        "Connection: Keep-Alive",
        body=body,
    )


@pytest.mark.parametrize("base", BASES)
async def test_mastodon_translates_a_post_with_its_poll(port: int, base: str) -> None:
    languages = request(
        "GET", f"{base}/languages", "User-Agent: Mastodon/4.5.0", "Host: 127.0.0.1:5000", "Connection: Keep-Alive"
    )
    post = {"q": [TOOT, "", "😀"], "source": "auto", "target": "de", "format": "html", "api_key": None}
    listed, translated, named = await exchange(
        port, languages, from_mastodon(base, post), from_mastodon(base, {**post, "q": ["<p>hi</p>"], "source": "en"})
    )
    assert all(set(item) == {"code", "name", "targets"} for item in listed.json)
    assert translated.status == 200
    assert translated.headers["content-type"] == "application/json"
    assert translated.json["translatedText"] == [
        TOOT.replace("good morning", "GOOD MORNING").replace("see you &amp; yours", "SEE YOU &amp; YOURS"),
        "",
        "😀",
    ]
    first, *empty = translated.json["detectedLanguage"]
    assert first["language"] == "en"
    assert empty == [{"confidence": 0.0, "language": "en"}] * 2
    assert named.json == {"translatedText": ["<p>HI</p>"]}


@pytest.mark.parametrize("base", BASES)
async def test_weblate_accepts_the_service_when_it_is_configured(port: int, base: str) -> None:
    agent = ["Host: 127.0.0.1:5000", "User-Agent: Weblate/5.14", "Accept-Encoding: gzip, deflate", "Accept: */*"]
    body = b'{"api_key": "", "q": ["test"], "source": "en", "target": "de"}'
    listed, probe = await exchange(
        port,
        request("GET", f"{base}/languages", *agent, "Connection: keep-alive"),
        request(
            "POST", f"{base}/translate", *agent, "Connection: keep-alive", "Content-Type: application/json", body=body
        ),
    )
    assert [item["code"] for item in listed.json] == ["de", "en"]
    assert (probe.status, probe.json) == (200, {"translatedText": ["TEST"]})


def in_parts(fields: dict[str, str], boundary: str = "------------------------d74496d66958873e") -> bytes:
    """A form as curl writes it."""
    parts = [
        f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
        for name, value in fields.items()
    ]
    return ("".join(parts) + f"--{boundary}--\r\n").encode()


def from_nextcloud(method: str, target: str, fields: dict[str, str] | None = None) -> bytes:
    """A request of PHP's curl; without fields the form is empty."""
    form = "Content-Type: multipart/form-data; boundary=------------------------d74496d66958873e"
    return request(method, target, "Host: 127.0.0.1:5000", "Accept: */*", form, body=in_parts(fields or {}))


@pytest.mark.parametrize("base", BASES)
async def test_nextcloud_connects_and_translates(port: int, base: str) -> None:
    fields = {"format": "html", "source": "en", "target": "de", "api_key": ""}
    encoded = "%5B%22good+morning%22%2C%22gr%5Cu00fc%5Cu00dfe+%26amp%3B+more%22%5D"
    connected, settings, languages, item, several, detected = await exchange(
        port,
        from_nextcloud("POST", f"{base}/"),
        from_nextcloud("GET", f"{base}/frontend/settings"),
        from_nextcloud("GET", f"{base}/languages"),
        from_nextcloud("POST", f"{base}/translate", {"q": "good morning &amp; <b>more</b>", **fields}),
        from_nextcloud("POST", f"{base}/translate", {"q": encoded, **fields}),
        from_nextcloud("POST", f"{base}/detect?q=Guten+Morgen%2C+wie+geht+es+Ihnen%3F&api_key="),
    )
    assert set(connected.json) == {"error"}  # the client reads nothing of it
    assert settings.json["language"]["target"] == {"code": "en", "name": "English"}
    assert {item["code"] for item in languages.json} == {"de", "en"}
    assert item.json == {"translatedText": "GOOD MORNING &amp; <b>MORE</b>"}
    assert json.loads(unquote_plus(several.json["translatedText"])) == ["GOOD MORNING", "GRÜSSE &amp; MORE"]
    assert detected.json[0]["language"] == "de"


async def test_a_form_without_a_body_is_one_without_fields(port: int) -> None:
    form = "Content-Type: application/x-www-form-urlencoded"
    answers = await exchange(
        port,
        request("POST", "/", "Host: localhost", form),
        request("POST", "/detect?q=Guten+Morgen", "Host: localhost", form),
        request("POST", "/detect?q=Guten+Morgen", "Host: localhost"),
    )
    assert [answer.status for answer in answers] == [405, 200, 200]
