"""There is no memory in a request outside the engine's steps: it is answered, and so is the next one."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import httpx
import pytest

from app.documents.file_worker import answer
from app.documents.formats.plain_text import PlainText
from app.errors import problem_for
from app.http import json_route
from tests.app.accounts.keyed import serving

BODY = {"text": "Hello.", "source": "en", "target": "de", "decoding": "greedy"}


def lacking_once(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> list[str]:
    """Let the first call of a function lack memory; returns a list of the calls that did."""
    function = getattr(owner, name)
    failed: list[str] = []

    def lacking(*arguments: Any, **options: Any) -> Any:
        if not failed:
            failed.append(name)
            raise MemoryError
        return function(*arguments, **options)

    monkeypatch.setattr(owner, name, lacking)
    return failed


async def ask(client: httpx.AsyncClient) -> httpx.Response:
    return await client.post("/translate", json=BODY)


@pytest.mark.parametrize("name", ["read_json", "_json"], ids=["the request is read", "the answer is written"])
def test_a_request_without_memory_fails_alone(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> tuple[httpx.Response, httpx.Response]:
        async with serving() as client:
            await ask(client)
            failed = lacking_once(monkeypatch, json_route, name)
            first, second = await ask(client), await ask(client)
            assert failed == [name]
            return first, second

    first, second = asyncio.run(run())
    problem = problem_for(MemoryError())
    assert (first.status_code, first.json()["code"]) == (500, problem.code)
    assert second.status_code == 200


@pytest.mark.parametrize("accept", ["application/json", "application/x-ndjson"])
def test_a_request_is_answered_if_its_event_loop_cannot_be_woken_at_once(
    accept: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = asyncio.BaseEventLoop.call_soon_threadsafe
    failed: list[tuple[Any, ...]] = []

    def lacking(loop: asyncio.BaseEventLoop, *arguments: Any, **options: Any) -> asyncio.Handle:
        if threading.current_thread().name == "verso-engine" and len(failed) < 3:
            failed.append(arguments)
            raise MemoryError
        return call(loop, *arguments, **options)

    async def run() -> httpx.Response:
        async with serving() as client:
            monkeypatch.setattr(asyncio.BaseEventLoop, "call_soon_threadsafe", lacking)
            return await client.post("/translate", json=BODY, headers={"accept": accept})

    response = asyncio.run(run())
    assert (response.status_code, len(failed)) == (200, 3)
    assert "HELLO." in response.text


@pytest.mark.parametrize("name", ["__init__", "write"], ids=["read", "write"])
def test_a_document_without_memory_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def lacking(*arguments: Any) -> Any:
        raise MemoryError

    monkeypatch.setattr(PlainText, name, lacking)
    translations = {0: "Hallo."} if name == "write" else None
    assert answer(".txt", b"Hello.", "en", translations, "de") == ("complex", None)
