"""``/documents``: forms, answers, errors."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from app.main import create_app
from app.settings import Settings
from model.text.glossary import GlossaryTerm
from tests.app.documents.test_office_formats import word_document
from tests.app.documents.translated import texts_of
from tests.app.fakes import BUDGET, FakeBundles, FakeTranslator, held_translator
from tests.app.serving import RoteService, client_of, rote_app
from tests.app.test_middleware import PATIENCE_S, Wire, post_scope
from tests.app.test_translate_route import problem_of

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("idle_file_processes")]

FIELDS = {"source": "en", "target": "de", "decoding": "greedy"}


@asynccontextmanager
async def serving(translator: FakeTranslator | None = None, **settings: Any) -> AsyncIterator[httpx.AsyncClient]:
    """A client of an application with a real document service."""
    translator = translator or FakeTranslator()
    app = create_app(Settings(**{**BUDGET, **settings}), FakeBundles(translator))
    async with app.router.lifespan_context(app), client_of(app) as client:
        await app.state.service.wait_loaded()
        try:
            yield client
        finally:
            translator.step_gate.set()


@pytest.fixture
async def client(service: RoteService) -> AsyncIterator[httpx.AsyncClient]:
    limits = {"max_document_bytes": 1_000, "max_beam_size": 8, "max_hypotheses": 8}
    async with client_of(rote_app(service, **limits)) as client:
        yield client


async def post(
    client: httpx.AsyncClient, content: bytes = b"Hello.", filename: str = "a.txt", **fields: Any
) -> httpx.Response:
    return await client.post("/documents", files={"file": (filename, content)}, data={**FIELDS, **fields})


async def ended(client: httpx.AsyncClient, id: str) -> dict[str, Any]:
    while True:
        body: dict[str, Any] = (await client.get(f"/documents/{id}")).json()
        if body["status"] not in ("queued", "running"):
            return body
        await asyncio.sleep(0.002)


async def test_a_document_there_and_back() -> None:
    async with serving() as client:
        before = datetime.now(UTC)
        response = await post(client, word_document(), "Brief an Tomasš.docx")
        assert response.status_code == 202
        added = response.json()
        expires = datetime.fromisoformat(added.pop("expires_at"))
        assert timedelta(hours=23) < expires - before < timedelta(hours=25)
        assert added == {
            "id": added["id"],
            "status": "queued",
            "filename": "Brief an Tomasš.docx",
            "sentences": {"done": 0, "total": None},
            "seconds_left": None,
        }
        document = await ended(client, added["id"])
        assert (document["status"], document["sentences"]["done"]) == ("done", document["sentences"]["total"])
        assert "problem" not in document and "untranslated" not in document
        result = await client.get(f"/documents/{added['id']}/result")
        assert result.headers["content-disposition"] == (
            "attachment; filename=\"Brief an Tomas_.de.docx\"; filename*=UTF-8''Brief%20an%20Tomas%C5%A1.de.docx"
        )
        assert result.headers["content-type"].endswith("wordprocessingml.document")
        assert texts_of(".docx", result.content)[0] == "A HEADING"
        assert (await client.delete(f"/documents/{added['id']}")).json()["status"] == "done"
        problem_of(await client.get(f"/documents/{added['id']}"), 404, "document_not_found")


async def test_a_document_in_the_target_language_is_said_to_be_in_it() -> None:
    async with serving() as client:
        document = await ended(
            client, (await post(client, b"The cat and the dog.", source="auto", target="en")).json()["id"]
        )
        assert (document["status"], document["already_in"]) == ("done", "en")


async def test_a_partial_result_is_no_longer_written_when_its_client_has_left(service: RoteService) -> None:
    app = rote_app(service)
    launched, finished = asyncio.Event(), asyncio.Event()

    async def result(*arguments: Any) -> None:
        launched.set()
        try:
            await asyncio.Event().wait()
        finally:
            finished.set()

    app.state.documents.result = result
    wire = Wire({"type": "http.request", "body": b"", "more_body": False})
    scope = {**post_scope(app, "/documents/a/result"), "method": "GET", "query_string": b"partial=true"}
    answering = asyncio.create_task(app(scope, wire.receive, wire.send))
    await asyncio.wait_for(launched.wait(), PATIENCE_S)
    wire.hang_up()
    await asyncio.wait_for(answering, PATIENCE_S)
    assert finished.is_set() and wire.sent == []


async def test_a_result_that_is_not_there_yet_and_a_partial_one() -> None:
    async with serving(held_translator()) as client:
        added = (await post(client)).json()
        result = f"/documents/{added['id']}/result"
        problem = problem_of(await client.get(result), 409, "document_not_done")
        assert "partial=true" in problem["detail"]
        partial = await client.get(result, params={"partial": "true"})
        assert (partial.status_code, partial.content) == (200, b"Hello.")
        assert partial.headers["content-type"] == "text/plain; charset=utf-8"
        cancelled = await client.delete(f"/documents/{added['id']}")
        assert (cancelled.status_code, cancelled.json()["status"]) == (200, "cancelled")


async def test_every_field_reaches_the_decoder(client: httpx.AsyncClient, service: RoteService) -> None:
    fields: dict[str, Any] = {
        "source": "de",
        "target": "en",
        "decoding": "beam",
        "beam_size": "3",
        "length_penalty": "0.5",
        "min_new_tokens": "2",
        "max_new_tokens": "30",
        "early_stopping": "true",
        "scoring": "marian",
        "no_repeat_ngram_size": "3",
        "formality": "formal",
        "glossary": '[{"source": "house", "target": "Gebäude"}]',
        "protect": '["auto", "[A-Z]{2}"]',
    }
    assert (await post(client, **fields)).status_code == 202
    (call,) = service.calls
    options = call["options"]
    assert (call["filename"], call["content"], call["source"]) == ("a.txt", b"Hello.", "de")
    assert (options.beam_size, options.length_penalty, options.min_new_tokens) == (3, 0.5, 2)
    assert (options.max_new_tokens, options.early_stopping, options.scoring) == (30, True, "marian")
    assert (options.no_repeat_ngram_size, options.formality) == (3, "formal")
    assert options.glossary == (GlossaryTerm("house", "Gebäude"),)
    assert options.protect == ("auto", "[A-Z]{2}")


async def test_fields_that_are_empty_or_missing_have_their_defaults(
    client: httpx.AsyncClient, service: RoteService
) -> None:
    response = await client.post("/documents", files={"file": ("a.txt", b"x")}, data={"source": "", "beam_size": ""})
    assert response.status_code == 202
    assert (service.calls[0]["source"], service.calls[0]["options"].beam_size) == (None, 4)


@pytest.mark.parametrize(
    ("fields", "field", "part"),
    [
        ({"beam_sise": "4"}, "beam_sise", "did you mean 'beam_size'"),
        ({"beam_size": "many"}, "beam_size", "must be a whole number"),
        ({"beam_size": "1.5"}, "beam_size", "whole number"),
        ({"length_penalty": "NaN"}, "length_penalty", "number"),
        ({"decoding": "fast"}, "decoding", "greedy"),
        ({"target": "x"}, "target", "language code"),
        ({"early_stopping": "1"}, "early_stopping", "true or false"),
        ({"glossary": "7"}, "glossary", "list"),
        ({"glossary": '[{"source": "a"}]'}, "glossary[0].target", "is required"),
        ({"protect": "some"}, "protect", "auto"),
        ({"text": "Hello"}, "text", "unknown field"),
        ({"return_scores": "true"}, "return_scores", "unknown field"),
    ],
)
async def test_a_wrong_field_is_refused_and_named(
    client: httpx.AsyncClient, fields: dict[str, Any], field: str, part: str
) -> None:
    problem = problem_of(await post(client, **fields), 422, "invalid_request")
    (entry,) = problem["errors"]
    assert entry["field"] == field
    assert part in entry["message"]


async def test_a_field_that_is_sent_twice_is_refused(client: httpx.AsyncClient) -> None:
    response = await client.post("/documents", files={"file": ("a.txt", b"x")}, data={"target": ["de", "en"]})
    assert problem_of(response, 422, "invalid_request")["errors"][0]["field"] == "target"


async def test_a_beam_that_is_too_wide_is_refused(client: httpx.AsyncClient) -> None:
    problem_of(await post(client, decoding="beam", beam_size="9"), 422, "limit_exceeded")


async def test_a_form_without_a_file_is_refused(client: httpx.AsyncClient) -> None:
    for files in ({"target": (None, "de")}, {"file": (None, "text")}, {"other": ("a.txt", b"x")}):
        problem = problem_of(await client.post("/documents", files=files), 422, "invalid_request")
        assert problem["errors"][0]["field"] == "file"


@pytest.mark.parametrize(
    ("headers", "body", "status", "code"),
    [
        ({"content-type": "application/json"}, b"{}", 415, "unsupported_media_type"),
        ({}, b"", 415, "unsupported_media_type"),
        ({"content-type": "multipart/form-data"}, b"x", 400, "malformed_form"),
        ({"content-type": "multipart/form-data; boundary=x"}, b"nothing", 400, "malformed_form"),
        ({"content-type": "multipart/form-data; boundary=x"}, b"--x\r\n\r\na\r\n--x--", 400, "malformed_form"),
        ({"content-type": "multipart/form-data; boundary=x"}, b"--x--\r\n", 422, "invalid_request"),
        (  # cut
            {"content-type": "multipart/form-data; boundary=x"},
            b'--x\r\ncontent-disposition: form-data; name="file"; filename="a.txt"\r\n\r\na\r\n--x\r\n',
            400,
            "malformed_form",
        ),
        ({"content-type": "multipart/form-data; boundary=x; charset=klingon"}, b"--x--\r\n", 422, "invalid_request"),
        (
            {"content-type": "multipart/form-data; boundary=x", "content-encoding": "gzip"},
            b"--x--\r\n",
            415,
            "unsupported_media_type",
        ),
    ],
)
async def test_a_body_that_is_no_form_is_refused(
    client: httpx.AsyncClient, headers: dict[str, str], body: bytes, status: int, code: str
) -> None:
    problem_of(await client.post("/documents", content=body, headers=headers), status, code)


async def test_two_files_are_refused(client: httpx.AsyncClient) -> None:
    files = [("file", ("a.txt", b"x")), ("file", ("b.txt", b"x"))]
    problem_of(await client.post("/documents", files=files), 400, "malformed_form")


async def test_a_file_that_is_too_large_is_refused_while_it_is_read(client: httpx.AsyncClient) -> None:
    problem = problem_of(await post(client, b"x" * 1_001), 413, "document_too_large")
    assert "1000 bytes" in problem["detail"]
    received = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal received
        yield b'--x\r\ncontent-disposition: form-data; name="file"; filename="a.txt"\r\n\r\n'
        while True:
            received += 100_000
            yield b"x" * 100_000

    headers = {"content-type": "multipart/form-data; boundary=x"}
    problem_of(await client.post("/documents", content=endless(), headers=headers), 413, "document_too_large")
    assert received <= 500_000


async def test_bad_documents_are_refused_with_their_own_problems() -> None:
    async with serving(max_documents=0) as client:
        problem_of(await post(client), 429, "documents_full")
    async with serving() as client:
        problem_of(await post(client, b"x", "a.exe"), 415, "unsupported_document")
        problem_of(await post(client, b"x", "a.docm"), 415, "unsupported_document")
        problem_of(await post(client, b"x", "a.docx"), 422, "document_refused")
        problem_of(await post(client, target="fr"), 422, "unsupported_pair")
        problem_of(await post(client, formality="formal"), 422, "unsupported_formality")
        for path in ("/documents/nothing", "/documents/nothing/result", "/documents/..%2f..%2fetc"):
            problem_of(await client.get(path), 404, "document_not_found" if "etc" not in path else "not_found")
        problem_of(await client.get("/documents/x/result", params={"partial": "perhaps"}), 422, "invalid_request")


async def test_a_paragraph_beyond_the_bound_of_texts_is_refused() -> None:
    async with serving(max_text_characters=10) as client:
        problem = problem_of(await post(client, b"eleven char"), 422, "document_refused")
        assert "11 characters" in problem["detail"]


async def test_without_a_model_documents_are_refused() -> None:
    app = create_app(Settings(**BUDGET), FakeBundles(lambda: pytest.fail("not loaded")))
    async with client_of(app) as client:
        problem_of(await post(client), 503, "not_ready")
    await app.state.documents.stop()


async def test_without_keys_documents_are_not_listed() -> None:
    async with serving() as client:
        await post(client)
        problem_of(await client.get("/documents"), 403, "documents_not_listed")
        problem_of(await client.get("/documents?limit=0"), 422, "invalid_request")
