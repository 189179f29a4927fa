"""``/v2/document`` with the whole service around a translator that needs no model."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from app.main import create_app
from app.settings import Settings
from tests.app.deepl_requests import ask, message
from tests.app.fakes import BUDGET, FakeBundles, FakeTranslator, held_translator
from tests.app.serving import client_of

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("idle_file_processes")]

PATIENCE_S = 60.0
LANGUAGES = {"source_lang": "EN", "target_lang": "DE"}


@asynccontextmanager
async def serving(translator: FakeTranslator | None = None, **settings: Any) -> AsyncIterator[httpx.AsyncClient]:
    app = create_app(Settings(**{**BUDGET, **settings}), FakeBundles(translator or FakeTranslator()))
    async with asyncio.timeout(PATIENCE_S), app.router.lifespan_context(app), client_of(app) as client:
        try:
            yield client
        finally:
            if translator is not None:
                translator.step_gate.set()


async def upload(client: httpx.AsyncClient, content: bytes = b"one\ntwo", name: str = "a.txt", **fields: Any) -> Any:
    data = {**LANGUAGES, **fields}
    return await ask(client, "POST", "/v2/document", data=data, files={"file": (name, content)})


async def test_the_translation_of_an_empty_document_has_its_media_type() -> None:
    async with serving() as client:
        handle = (await upload(client, content=b"")).json()
        await ended(client, handle)
        fetched = await result(client, handle)
    assert (fetched.status_code, fetched.content) == (200, b"")
    assert fetched.headers["content-type"].startswith("text/plain")


async def status(client: httpx.AsyncClient, handle: dict[str, str]) -> dict[str, Any]:
    response = await ask(client, "POST", f"/v2/document/{handle['document_id']}", json=handle)
    assert response.status_code == 200, response.text
    body: dict[str, Any] = response.json()
    return body


async def ended(client: httpx.AsyncClient, handle: dict[str, str]) -> dict[str, Any]:
    while (actual := await status(client, handle))["status"] in ("queued", "translating"):
        await asyncio.sleep(0.01)
    return actual


async def result(client: httpx.AsyncClient, handle: dict[str, str]) -> httpx.Response:
    path = f"/v2/document/{handle['document_id']}/result"
    return await ask(client, "POST", path, data={"document_key": handle["document_key"]})


async def test_a_document_is_translated_and_can_be_fetched_once() -> None:
    async with serving() as client:
        uploaded = await upload(client)
        handle = uploaded.json()
        assert re.fullmatch("[0-9A-F]{32}", handle["document_id"])
        assert re.fullmatch("[0-9A-F]{64}", handle["document_key"])
        document = await ended(client, handle)
        assert document == {"document_id": handle["document_id"], "status": "done", "billed_characters": 7}
        fetched = await result(client, handle)
        assert (fetched.status_code, fetched.text) == (200, "ONE\nTWO")
        assert fetched.headers["content-type"].startswith("text/plain")
        assert "a.de.txt" in fetched.headers["content-disposition"] and fetched.headers["x-trace-id"]
        assert message(await result(client, handle), 404)
        assert (await ask(client, "GET", "/v2/usage")).json()["character_count"] == 7


async def test_a_document_that_is_not_done_cannot_be_fetched_yet() -> None:
    translator = held_translator()
    async with serving(translator) as client:
        handle = (await upload(client)).json()
        assert (await status(client, handle))["status"] in ("queued", "translating")
        assert message(await result(client, handle), 503) == "Document translation is not done"
        translator.step_gate.set()
        assert (await ended(client, handle))["status"] == "done"


async def test_another_key_opens_no_document() -> None:
    async with serving() as client:
        handle = (await upload(client)).json()
        for other in ({**handle, "document_key": "0" * 64}, {**handle, "document_id": "0" * 32}):
            assert message(await result(client, other), 404)
        assert "document_key" in message(await ask(client, "POST", f"/v2/document/{handle['document_id']}"), 400)
        assert (await ended(client, handle))["status"] == "done"


async def test_a_document_in_the_target_language_ends_in_an_error() -> None:
    async with serving() as client:
        text = "Das Haus ist alt, und der Hund schläft heute im Garten.".encode()
        handle = (await upload(client, text, source_lang="")).json()
        document = await ended(client, handle)
        assert (document["status"], document["error_message"]) == ("error", "Source and target language are the same.")
        refused = await upload(client, target_lang="EN-GB")
        assert "Source and target language" in message(refused, 400)


async def test_an_empty_document_is_done() -> None:
    async with serving() as client:
        for content in (b"", b"\n\n"):
            handle = (await upload(client, content, source_lang="")).json()
            assert (await ended(client, handle))["status"] == "done"


async def test_the_first_status_of_a_small_document_is_that_it_is_done() -> None:
    async with serving() as client:
        handle = (await upload(client)).json()
        assert (await status(client, handle))["status"] == "done"


async def test_the_status_of_a_large_document_is_answered_before_it_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.http.compat.deepl.documents._FIRST_LOOK_S", 0.1)
    async with serving(held_translator()) as client:
        handle = (await upload(client)).json()
        assert (await status(client, handle))["status"] in ("queued", "translating")


async def test_the_terms_of_a_glossary_are_used() -> None:
    async with serving() as client:
        glossary = {"name": "Art", "source_lang": "en", "target_lang": "de", "entries": "artist\tMaler\nprize\tGewinn"}
        body = (await ask(client, "POST", "/v2/glossaries", json=glossary)).json()
        handle = (await upload(client, b"The artist.", glossary_id=body["glossary_id"])).json()
        assert (await ended(client, handle))["status"] == "done"
        assert (await result(client, handle)).text == "THE Maler."


async def test_verso_s_own_route_takes_the_id_of_a_stored_glossary() -> None:
    async with serving() as client:
        glossary = {"name": "Art", "source_lang": "en", "target_lang": "de", "entries": "artist\tMaler"}
        body = (await ask(client, "POST", "/v2/glossaries", json=glossary)).json()
        form = {"source": "en", "target": "de", "glossary": json.dumps(body["glossary_id"])}
        added = await client.post("/documents", data=form, files={"file": ("a.txt", b"The artist.")})
        assert added.status_code == 202, added.text
        path = f"/documents/{added.json()['id']}/result"
        while (response := await client.get(path)).status_code == 409:
            await asyncio.sleep(0.01)
        assert response.text == "THE Maler."
        unknown = await client.post("/documents", data={**form, "glossary": '"1"'}, files={"file": ("a.txt", b"a")})
        assert (unknown.status_code, unknown.json()["code"]) == (404, "glossary_not_found")


async def test_a_form_of_address_is_refused_unless_it_is_only_preferred() -> None:
    async with serving() as client:
        assert "doesn't support formality" in message(await upload(client, formality="more"), 400)
        handle = (await upload(client, formality="prefer_more")).json()
        assert (await ended(client, handle))["status"] == "done"


@pytest.mark.parametrize(
    ("name", "fields", "part"),
    [
        ("a.invalid", {}, "Invalid file extension"),
        ("a", {}, "Invalid file extension"),
        ("a.txt", {"output_format": "docx"}, "output_format"),
        ("a.txt", {"target_lang": "XX"}, "Value for 'target_lang' not supported."),
        ("a.txt", {"source_lang": "XX"}, "Value for 'source_lang' not supported."),
        ("a.docx", {}, "damaged"),
        ("a.txt", {"glossary_id": "1", "source_lang": ""}, "source_lang"),
    ],
)
async def test_a_wrong_document_is_refused(name: str, fields: dict[str, Any], part: str) -> None:
    async with serving() as client:
        assert part in message(await upload(client, name=name, **fields), 400)


async def test_an_upload_without_a_file_is_refused() -> None:
    async with serving() as client:
        assert "file" in message(await ask(client, "POST", "/v2/document", data=LANGUAGES), 400)
        assert message(await ask(client, "POST", "/v2/document", data={**LANGUAGES, "file": "one"}), 400)


async def test_documents_beyond_the_bounds_are_refused() -> None:
    async with serving(max_documents=1, max_document_bytes=1000) as client:
        assert message(await upload(client, b"a" * 1001), 413)
        assert (await upload(client)).status_code == 200
        assert "1 stored document" in message(await upload(client), 456)
