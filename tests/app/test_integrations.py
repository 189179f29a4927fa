"""The tools of docs/integrations/ against a real socket: one client is run, other requests are sent byte for byte.

They were recorded from the tools, or are written as their source writes them; docs/integrations/README.md says which.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import quote, unquote_plus

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
    assert translated.headers["content-type"] == "application/json; charset=utf-8"
    assert translated.json["translatedText"] == [
        TOOT.replace("good morning", "GOOD MORNING").replace("see you &amp; yours", "SEE YOU &amp; YOURS"),
        "",
        "😀",
    ]
    first, *empty = translated.json["detectedLanguage"]
    assert first["language"] == "en"
    assert empty == [{"confidence": 0.0, "language": "en"}] * 2
    assert named.json == {"translatedText": ["<p>HI</p>"]}


WEBLATE = (
    "Host: 127.0.0.1:8000",
    "Accept-Encoding: gzip, deflate, br, zstd",
    "Connection: keep-alive",
    "User-Agent: Weblate/2026.10.1",
    "Referer: https://weblate.example.com",
    "Accept: application/json; charset=utf-8",
)


def from_weblate(method: str, target: str, content: dict[str, Any] | None = None, *headers: str) -> bytes:
    if content is None:
        return request(method, target, *WEBLATE, *headers)
    body = json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()
    return request(method, target, *WEBLATE, *headers, "Content-Type: application/json", body=body)


@pytest.mark.parametrize("base", BASES)
async def test_weblate_tries_libretranslate_when_it_is_configured(port: int, base: str) -> None:
    content = {"api_key": "", "q": ["test"], "source": "en", "target": "de"}
    listed, probe = await exchange(
        port, from_weblate("GET", f"{base}/languages"), from_weblate("POST", f"{base}/translate", content)
    )
    assert [item["code"] for item in listed.json] == ["de", "en"]
    assert (probe.status, probe.json) == (200, {"translatedText": ["TEST"]})


async def test_weblate_tries_deepl_when_it_is_configured_and_keeps_placeholders(port: int) -> None:
    """The form of address is empty unless one was chosen; placeholders are elements."""
    key = "Authorization: DeepL-Auth-Key any"
    choice = {"source_lang": "en", "target_lang": "de", "formality": "", "tag_handling": "xml", "ignore_tags": ["x"]}
    text = 'Hello <x id="7"></x>, see <b>this</b> &amp; that'
    listed, probe, translated = await exchange(
        port,
        from_weblate("GET", "/v3/languages?resource=translate_text", None, key),
        from_weblate("POST", "/v2/translate", {"text": ["test"], **choice}, key),
        from_weblate("POST", "/v2/translate", {"text": [text], **choice, "context": "A web shop"}, key),
    )
    assert {item["lang"] for item in listed.json if item["usable_as_target"]} == {"de", "en-GB", "en-US"}
    assert [item["text"] for item in probe.json["translations"]] == ["TEST"]
    (item,) = translated.json["translations"]
    assert item["text"] == 'HELLO <x id="7"></x>, SEE <b>THIS</b> &amp; THAT'


async def test_weblate_stores_a_glossary_translates_with_it_and_deletes_it(port: int) -> None:
    key = "Authorization: DeepL-Auth-Key any"
    terms = {"source_lang": "en", "target_lang": "de", "entries": "apple\tBirne\n", "entries_format": "tsv"}
    supported, rephrased, _, listed = await exchange(
        port,
        from_weblate("GET", "/v3/languages?resource=glossary", None, key),
        from_weblate("GET", "/v3/languages?resource=write", None, key),
        from_weblate("POST", "/v3/glossaries", {"name": "weblate:1:EN:DE:abc", "dictionaries": [terms]}, key),
        from_weblate("GET", "/v3/glossaries", None, key),
    )
    assert {item["lang"] for item in supported.json if item["usable_as_source"]} == {"de", "en"}
    assert rephrased.json == []  # no language can be rephrased; Weblate reads an error as a failure of the service
    (stored,) = listed.json["glossaries"]
    assert stored["name"] == "weblate:1:EN:DE:abc"
    id = stored["glossary_id"]
    content = {"text": ["the apple"], "source_lang": "EN", "target_lang": "DE", "tag_handling": "xml"}
    translated, _, left = await exchange(
        port,
        from_weblate("POST", "/v2/translate", {**content, "ignore_tags": ["x"], "glossary_id": id}, key),
        from_weblate("DELETE", f"/v3/glossaries/{id}", None, key),
        from_weblate("GET", "/v3/glossaries", None, key),
    )
    assert [item["text"] for item in translated.json["translations"]] == ["THE Birne"]
    assert left.json == {"glossaries": []}


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


async def test_home_assistant_translates_an_announcement(port: int) -> None:
    body = '{"q":"The \\"washing machine\\"\\nis done, né.","source":"auto","target":"de"}'.encode()
    (answer,) = await exchange(
        port,
        request(
            "POST",
            "/libretranslate/translate",
            "Host: 127.0.0.1:8000",
            "User-Agent: HomeAssistant/2024.12.5 aiohttp/3.11.11 Python/3.12",
            "Content-Type: application/json",
            "Accept: */*",
            "Accept-Encoding: gzip, deflate",
            body=body,
        ),
    )
    assert answer.json["translatedText"] == 'THE "WASHING MACHINE"\nIS DONE, NÉ.'
    assert answer.json["detectedLanguage"]["language"] == "en"


FORM = "Content-Type: application/x-www-form-urlencoded"

PARAGRAPH = (
    '<span style="line-height: 100%">good morning. we are in the <b>small garden</b>'
    '<span style="font-weight: normal"> of my brother &amp; sister.</span></span>'
)
"""A paragraph of LibreOffice Writer."""


@pytest.mark.parametrize(
    ("target", "key", "fields"),
    [
        ("/v2/translate?tag_handling=html", (), f"auth_key=any&target_lang=DE&text={quote(PARAGRAPH, safe='')}"),
        (
            "/v2/translate",
            ("Authorization: DeepL-Auth-Key any",),
            f"target_lang=DE&tag_handling=html&text={quote(PARAGRAPH, safe='')}",
        ),
    ],
    ids=["25.2", "Collabora Office"],
)
async def test_libreoffice_translates_a_paragraph(port: int, target: str, key: tuple[str, ...], fields: str) -> None:
    agent = "User-Agent: LibreOffice 25.2.3.2 denylistedbackend/8.14.1 OpenSSL/3.5.9"
    (answer,) = await exchange(
        port,
        request("POST", target, "Host: 127.0.0.1:8000", agent, "Accept: */*", *key, FORM, body=fields.encode()),
    )
    (item,) = answer.json["translations"]
    assert item["text"] == (
        '<span style="line-height: 100%">GOOD MORNING. WE ARE IN THE <b>SMALL GARDEN</b> '
        '<span style="font-weight: normal">OF MY BROTHER &amp; SISTER.</span></span>'
    )


async def test_omegat_reads_umlauts_by_the_charset_of_the_answer(port: int) -> None:
    """Without a charset it would read ISO-8859-1."""
    (answer,) = await exchange(
        port,
        request(
            "POST",
            "/libretranslate/translate",
            FORM,
            "User-Agent: Java/17.0.15",
            "Host: 127.0.0.1:8000",
            "Accept: text/html, image/gif, image/jpeg, */*; q=0.2",
            "Connection: keep-alive",
            body=b"q=five+%3Cg0%3E%C3%A4pples%3C%2Fg0%3E&source=en&target=de",
        ),
    )
    _, _, charset = answer.headers["content-type"].partition("charset=")
    assert json.loads(answer.body.decode(charset or "iso-8859-1")) == {"translatedText": "FIVE <g0>ÄPPLES</g0>"}


async def test_subtitleedit_keeps_the_lines_of_a_subtitle(port: int) -> None:
    """It sends a line break to LibreTranslate as an element in plain text, and to DeepL as one."""
    host = "Host: 127.0.0.1:8000"
    body = b'{"q": "I am going home<br />- because it is late.", "source": "en", "target": "de", "api_key": "any"}'
    text = "text=I+am+going+home%0D%0A-+because+it+is+late.&target_lang=de&source_lang=en&formality=default"
    libre, deepl = await exchange(
        port,
        request(
            "POST",
            "/libretranslate/translate",
            host,
            "accept: application/json",
            "Content-Type: application/json",
            body=body,
        ),
        request("POST", "/v2/translate", host, "Authorization: DeepL-Auth-Key any", FORM, body=text.encode()),
    )
    assert libre.json == {"translatedText": "I AM GOING HOME<br />- BECAUSE IT IS LATE."}
    (item,) = deepl.json["translations"]
    assert item["text"].splitlines() == ["I AM GOING HOME", "- BECAUSE IT IS LATE."]


@pytest.mark.parametrize(
    ("origin", "site", "content_type", "body"),
    [
        (
            "moz-extension://cb108893-14e6-4508-9348-fe4302639bb1",
            "same-origin",
            "application/x-www-form-urlencoded",
            b"q=good+morning+%26+more&source=auto&target=de&format=text&api_key=0123456789",
        ),
        (
            "chrome-extension://fgiefecfgbjibhdonhlhiphibcofkkho",
            "none",
            "application/json",
            b'{"q":["good morning & more"],"source":"auto","target":"de","format":"text","api_key":""}',
        ),
    ],
    ids=["TWP in Firefox", "Linguist in Chromium"],
)
async def test_browser_extensions_translate_without_a_listed_origin(
    port: int, origin: str, site: str, content_type: str, body: bytes
) -> None:
    """A page of another site is refused; the browser says that an extension is none."""
    (answer,) = await exchange(
        port,
        request(
            "POST",
            "/libretranslate/translate",
            "Host: 127.0.0.1:8000",
            "Accept: */*",
            f"Content-Type: {content_type}",
            f"Origin: {origin}",
            "Connection: keep-alive",
            "Sec-Fetch-Dest: empty",
            "Sec-Fetch-Mode: cors",
            f"Sec-Fetch-Site: {site}",
            body=body,
        ),
    )
    translated = answer.json["translatedText"]
    assert translated in ("GOOD MORNING & MORE", ["GOOD MORNING & MORE"])
    detected = answer.json["detectedLanguage"]  # TWP reads the language of every answer
    assert (detected if isinstance(detected, dict) else detected[0])["language"] == "en"
