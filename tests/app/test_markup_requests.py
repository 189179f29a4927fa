"""Documents through ``POST /translate`` with the whole service: bad input is answered, or refused with a reason."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from app.main import create_app
from app.settings import Settings
from tests.app.fakes import BUDGET, FakeBundles, FakeTranslator
from tests.app.serving import client_of

pytestmark = pytest.mark.anyio

PATIENCE_S = 120.0
"""Many times what the slowest request takes."""

LARGE = {"max_text_characters": 2_000_000, "max_body_bytes": 5_000_000, "deadline_s": 100.0}


@asynccontextmanager
async def serving(**settings: Any) -> AsyncIterator[httpx.AsyncClient]:
    app = create_app(Settings(**{**BUDGET, **settings}), FakeBundles(FakeTranslator()))
    async with asyncio.timeout(PATIENCE_S), app.router.lifespan_context(app), client_of(app) as client:
        while (await client.get("/readyz")).status_code != 200:
            await asyncio.sleep(0.01)
        yield client


async def post(client: httpx.AsyncClient, document: str, format: str = "html", **fields: Any) -> httpx.Response:
    body = {"text": document, "target": "de", "source": "en", "format": format, "decoding": "greedy", **fields}
    return await client.post("/translate", json=body)


async def test_details_are_in_characters_of_the_document() -> None:
    document = "<p>one &amp; <b>z</b>wo {x}</p>"
    async with serving() as client:
        response = await post(client, document, return_alignment=True, return_confidence=True)
    (result,) = response.json()["translations"]
    assert result["text"] == "<p>ONE &amp; <b>Z</b>WO {x}</p>"
    links = [(document[slice(*link["source"])], result["text"][slice(*link["target"])]) for link in result["alignment"]]
    assert [pair for pair in links if pair[0].strip()][:5] == [
        ("o", "O"), ("n", "N"), ("e", "E"), ("&amp;", "&amp;"), ("z", "Z"),
    ]  # fmt: skip
    assert [document[slice(*span)] for span in result["confidence"]["uncovered"]] == ["z</b>wo"]
    assert result["integrity"]["spans"] == [
        {"source": [24, 27], "target": [24, 27], "restored": True},
    ]


async def test_alternatives_are_aligned_as_the_best_translation_is() -> None:
    async with serving() as client:
        response = await post(client, "<p>one <b>two</b> {x} three</p>", decoding="beam", num_hypotheses=2)
    (result,) = response.json()["translations"]
    assert (
        [other["text"] for other in result["alternatives"]] == [result["text"]] == ["<p>ONE <b>TWO</b> {x} THREE</p>"]
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("format", "document", "expected"),
    [
        ("html", "<b>" * 330_000 + "cat", "<b>" * 330_000 + "CAT"),
        ("html", "<i></i>" * 140_000 + "cat", "<i></i>" * 140_000 + "CAT"),
        ("html", "<div>" * 10_000 + "cat" + "</div>" * 10_000, "<div>" * 10_000 + "CAT" + "</div>" * 10_000),
        ("xml", "<d>" * 10_000 + "cat" + "</d>" * 10_000, "<d>" * 10_000 + "CAT" + "</d>" * 10_000),
        ("xml", "<d>" + "<e/>" * 250_000 + "cat</d>", "<d>" + "<e/>" * 250_000 + "CAT</d>"),
        ("html", "<" * 1_000_000, "<" * 1_000_000),
    ],
    ids=["open tags", "empty elements", "html levels", "xml levels", "points", "brackets"],
)
async def test_large_documents_are_answered(format: str, document: str, expected: str) -> None:
    async with serving(**LARGE) as client:
        response = await post(client, document, format)
    assert response.status_code == 200, response.text[:500]
    assert response.json()["translations"][0]["text"] == expected


async def test_a_document_over_the_limit_is_refused_with_the_limit() -> None:
    async with serving() as client:
        response = await post(client, "<b>" * 20_000)
    assert response.status_code == 422
    assert (response.json()["code"], "60000" in response.json()["detail"]) == ("limit_exceeded", True)


ENTITIES = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10 if n else "lol"}">' for n in range(10))


@pytest.mark.parametrize(
    ("document", "output"),
    [
        ("<a><b>one</a>", "line 1, column"),
        ("<a>one", "line 1, column"),
        ("<a>\none & two</a>", "line 2, column"),
        (f"<!DOCTYPE l [{ENTITIES}]><l>&l9;</l>", "declares the entity 'l0'"),
        ('<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><a>&x;</a>', "declares the entity 'x'"),
        ('<!DOCTYPE a [<!ENTITY % p SYSTEM "http://localhost/x.dtd"> %p;]><a/>', "declares the entity 'p'"),
        ("<a>" * 1_000, "line 1, column"),
    ],
    ids=["mismatched", "unclosed", "ampersand", "billion laughs", "external", "parameter", "levels"],
)
async def test_xml_that_cannot_be_read_is_refused_with_its_position(document: str, output: str) -> None:
    async with serving() as client:
        response = await post(client, document, "xml")
        assert response.status_code == 422
        assert response.json()["code"] == "invalid_markup"
        assert output in response.json()["detail"]
        # In a list the others are answered.
        several = await client.post(
            "/translate", json={"text": [document, "<a>b</a>"], "source": "en", "target": "de", "format": "xml"}
        )
    failed, answered = several.json()["translations"]
    assert failed["error"]["code"] == "invalid_markup"
    assert answered["text"] == "<a>B</a>"


@pytest.mark.parametrize(
    ("text", "status", "output"), [("\\ud800", 400, "surrogate"), ("\\u0000", 422, "NUL character at 3")]
)
async def test_what_is_no_text_is_refused_before_anything_is_parsed(text: str, status: int, output: str) -> None:
    body = b'{"text": "<p>%s</p>", "source": "en", "target": "de", "format": "html"}' % text.encode()
    async with serving() as client:
        response = await client.post("/translate", content=body, headers={"content-type": "application/json"})
    assert response.status_code == status
    assert output in response.text
