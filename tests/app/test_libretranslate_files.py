"""Documents through LibreTranslate's protocol: sent, waited for, and downloaded."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from app.documents.formats.table import FORMATS
from app.documents.service import DocumentService
from tests.app.serving import client_of
from tests.app.test_middleware import PATIENCE_S, Wire, post_scope
from tests.app.wire import exchange, fake_app, listening, request

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("idle_file_processes")]

SEND = "/libretranslate/translate_file"
PAIR = {"source": "en", "target": "de"}


@asynccontextmanager
async def running(**settings: Any) -> AsyncIterator[tuple[FastAPI, httpx.AsyncClient]]:
    app = fake_app(**settings)
    async with app.router.lifespan_context(app), client_of(app) as client:
        yield app, client


async def send(
    client: httpx.AsyncClient, name: str = "a.txt", content: bytes = b"good morning", **fields: str
) -> httpx.Response:
    return await client.post(SEND, data={**PAIR, **fields}, files={"file": (name, content)})


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("Ein Brief & so.txt", "good morning\r\nähnlich\r\n", "GOOD MORNING\r\nÄHNLICH\r\n"),
        ("../etc/a.b.html", "<p>one <b>two</b></p>", "<p>ONE <b>TWO</b></p>"),
        ("x.SRT", "1\n00:00:01,000 --> 00:00:02,000\nhi\n", "1\n00:00:01,000 --> 00:00:02,000\nHI\n"),
    ],
)
async def test_a_file_is_translated_and_can_be_downloaded(name: str, content: str, expected: str) -> None:
    async with running() as (_, client):
        response = await send(client, name, content.encode(), api_key="")
        assert list(response.json()) == ["translatedFileUrl"]
        actual = await client.get(response.json()["translatedFileUrl"])
    assert actual.content.decode() == expected
    shown = httpx.URL(f"http://a/{name.rpartition('/')[2]}").raw_path.decode().lstrip("/").replace("&", "%26")
    assert actual.headers["content-disposition"] == f"attachment; filename*=UTF-8''{shown}"


@pytest.mark.parametrize("source", ["auto", "EN"])
async def test_the_language_of_a_file_may_be_detected(source: str) -> None:
    async with running() as (_, client):
        response = await send(client, content=b"Good morning, how are you all doing today?", source=source)
        result = await client.get(response.json()["translatedFileUrl"])
    assert result.text == "GOOD MORNING, HOW ARE YOU ALL DOING TODAY?"


async def test_settings_list_the_files_that_are_translated() -> None:
    async with running() as (_, client):
        settings = (await client.get("/libretranslate/frontend/settings")).json()
    assert settings["filesTranslation"] is True
    assert settings["supportedFilesFormat"] == sorted(FORMATS)


async def test_files_are_disabled_where_no_documents_are_kept() -> None:
    async with running(max_documents=0) as (_, client):
        settings = (await client.get("/libretranslate/frontend/settings")).json()
        response = await send(client)
    assert (settings["filesTranslation"], settings["supportedFilesFormat"]) == (False, [])
    assert (response.status_code, response.json()) == (403, {"error": "Files translation are disabled on this server."})


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        ({"data": PAIR}, 400, "Invalid request: missing file parameter"),
        ({"data": {"target": "de"}, "files": {"file": ("a.txt", b"a")}}, 400, "missing source parameter"),
        ({"data": {"source": "de"}, "files": {"file": ("a.txt", b"a")}}, 400, "missing target parameter"),
        ({"data": PAIR, "files": {"file": ("a.exe", b"a")}}, 400, "Invalid request: file format not supported"),
        ({"data": PAIR, "files": {"file": ("a.docx", b"no archive")}}, 400, ""),
        ({"data": {**PAIR, "target": "zz"}, "files": {"file": ("a.txt", b"a")}}, 400, "zz is not supported"),
        ({"data": {**PAIR, "target": "en"}, "files": {"file": ("a.txt", b"a")}}, 400, "English (en) is not available"),
        ({"data": PAIR, "files": {"file": ("a.txt", b"a" * 2_000)}}, 413, ""),
        ({"data": PAIR, "files": {"file": ("a.txt", b"a" * 300_000)}}, 413, ""),
        ({"json": PAIR}, 400, "Invalid request: missing file parameter"),
    ],
)
async def test_what_cannot_be_translated_is_refused(arguments: dict[str, Any], status: int, message: str) -> None:
    async with running(max_document_bytes=1_000) as (_, client):
        response = await client.post(SEND, **arguments)
    check_error(response, status, message)


async def test_no_more_documents_are_taken_than_are_kept() -> None:
    async with running(max_documents=1) as (_, client):
        assert (await send(client)).status_code == 200
        check_error(await send(client), 504, "limit of 1 stored document is reached")


async def test_a_document_that_fails_is_an_error() -> None:
    async with running() as (_, client):
        check_error(await send(client, content=b"boom"), 500, "Cannot translate text: ")


async def test_unknown_addresses_have_no_document() -> None:
    async with running() as (_, client):
        for name in ("0.txt", f"{'0' * 32}.txt", "..", "%2e%2e%2fetc"):
            response = await client.get(f"/libretranslate/download_file/{name}")
            assert response.status_code in (404, 405)
            check_error(response, response.status_code, "")


async def test_a_client_that_leaves_cancels_its_document() -> None:
    app = fake_app()
    async with app.router.lifespan_context(app), asyncio.timeout(PATIENCE_S):
        await app.state.service.wait_loaded()
        (model,) = app.state.service.models
        model.translator.step_gate.clear()
        form = httpx.Request("POST", "http://a", data=PAIR, files={"file": ("a.txt", b"good morning")})
        wire = Wire({"type": "http.request", "body": form.read(), "more_body": False})
        scope = post_scope(app, SEND)
        scope["headers"] = [(b"content-type", form.headers["content-type"].encode())]
        added: list[str] = []
        documents: DocumentService = app.state.documents
        add = documents.add

        async def noting(*arguments: Any, **named: Any) -> Any:
            document = await add(*arguments, **named)
            added.append(document.id)
            return document

        documents.add = noting  # type: ignore[method-assign]
        answering = asyncio.create_task(app(scope, wire.receive, wire.send))
        await asyncio.to_thread(model.translator.stepping.wait, PATIENCE_S)
        wire.hang_up()
        await answering
        model.translator.step_gate.set()
        (id,) = added
        assert (await documents.get(id)).status == "cancelled"
        assert wire.sent == []


@pytest.mark.parametrize("root_path", ["", "/verso"])
async def test_the_address_is_that_of_the_service_as_the_client_sees_it(root_path: str) -> None:
    boundary = "------------------------d74496d66958873e"
    body = (
        f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="a b.txt"\r\n'
        f"Content-Type: text/plain\r\n\r\nhi\r\n"
        + "".join(
            f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
            for name, value in {"format": "html", **PAIR}.items()
        )
        + f"--{boundary}--\r\n"
    ).encode()
    head = ["Host: translate.example:5000", "Accept: */*", f"Content-Type: multipart/form-data; boundary={boundary}"]
    async with listening(
        fake_app(compat="libretranslate", root_path=root_path, allowed_hosts="translate.example")
    ) as port:
        (received,) = await exchange(port, request("POST", f"{root_path}/translate_file", *head, body=body))
        url = json.loads(received.body)["translatedFileUrl"]
        start = f"http://translate.example:5000{root_path}"
        assert url.startswith(f"{start}/libretranslate/download_file/")
        assert url.endswith(".a%20b.txt")
        path = url.removeprefix("http://translate.example:5000")
        at_root = path.replace("/libretranslate", "")
        answers = await exchange(port, *(request("GET", item, "Host: translate.example") for item in (path, at_root)))
    assert [answer.body for answer in answers] == [b"HI"] * 2


def check_error(response: httpx.Response, status: int, message: str) -> None:
    content: Mapping[str, str] = response.json()
    assert response.status_code == status, content
    assert list(content) == ["error"]
    assert message in content["error"]
