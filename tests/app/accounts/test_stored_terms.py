"""Searches for the terms of stored glossaries: on threads of their own, ended with their request, and counted."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI

from app.errors import DeadlineExceeded
from app.glossaries.store import Dictionary
from app.glossaries.terms import parse_tsv
from app.http import stored_terms as module
from app.http.stored_terms import TermSearches
from app.serving.request import TranslationRequest
from model.text.glossary import Glossary
from tests.app.accounts.keyed import bearer, make_key, used
from tests.app.serving import RoteService, client_of
from tests.app.test_middleware import PATIENCE_S, Wire, body_message, post_scope

pytestmark = pytest.mark.anyio


def endless(launched: threading.Event, finished: threading.Event) -> Callable[[Callable[[], None]], None]:
    """A search that ends only when its check raises."""

    def search(check: Callable[[], None]) -> None:
        launched.set()
        try:
            while not finished.wait(0.001):
                check()
        finally:
            finished.set()

    return search


async def test_a_search_ends_when_a_request_may_take_no_longer() -> None:
    launched, finished = threading.Event(), threading.Event()
    searches = TermSearches(deadline_s=0.01)
    with pytest.raises(DeadlineExceeded):
        await searches.run(endless(launched, finished))
    assert await asyncio.to_thread(finished.wait, PATIENCE_S)
    searches.close()


async def test_a_search_ends_with_its_request() -> None:
    launched, finished = threading.Event(), threading.Event()
    searches = TermSearches(PATIENCE_S)
    request = asyncio.create_task(searches.run(endless(launched, finished)))
    await asyncio.to_thread(launched.wait, PATIENCE_S)
    request.cancel()
    with pytest.raises(asyncio.CancelledError):
        await request
    assert await asyncio.to_thread(finished.wait, PATIENCE_S)
    searches.close()


async def test_searches_leave_the_threads_of_others_alone() -> None:
    searches = TermSearches(PATIENCE_S)
    names = {await searches.run(lambda check: threading.current_thread().name) for _ in range(3)}
    assert all(name.startswith("verso-glossaries") for name in names)
    searches.close()


async def test_a_client_that_leaves_ends_its_search(app: FastAPI, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    launched, finished = threading.Event(), threading.Event()

    def search(terms: Glossary, texts: Any, language: str, check: Callable[[], None]) -> Glossary:
        endless(launched, finished)(check)
        return terms

    monkeypatch.setattr(module, "terms_in", search)
    token = make_key(path)
    id = stored(app, token)
    wire = Wire(body_message({"text": "a house", "source": "en", "target": "de", "glossary": id}))
    scope = post_scope(app, "/translate")
    scope["headers"] = [*scope["headers"], (b"authorization", f"Bearer {token}".encode())]
    answering = asyncio.create_task(app(scope, wire.receive, wire.send))
    assert await asyncio.to_thread(launched.wait, PATIENCE_S), wire.sent
    wire.hang_up()
    await asyncio.wait_for(answering, PATIENCE_S)
    assert await asyncio.to_thread(finished.wait, PATIENCE_S)
    assert (wire.sent, used(path)) == ([], (0, 0))


def stored(app: FastAPI, token: str) -> str:
    store = app.state.glossaries.owned_by(token.split("_")[1])
    return str(store.create("mine", [Dictionary("en", "de", parse_tsv("house\tGebäude"))]).id)


@pytest.mark.parametrize("url", ["/translate", "/attention", "/v2/translate"])
async def test_no_search_is_made_for_a_key_whose_quota_is_used_up(
    app: FastAPI, path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = make_key(path, characters_per_month=3)
    id = stored(app, token)
    searches: list[object] = []
    monkeypatch.setattr(app.state.term_searches, "run", searches.append)
    if url.startswith("/v2"):
        fields: dict[str, Any] = {"text": ["a house"], "source_lang": "EN", "target_lang": "DE", "glossary_id": id}
        headers = {"authorization": f"DeepL-Auth-Key {token}"}
    else:
        fields = {"text": "a house", "source": "en", "target": "de", "glossary": id}
        headers = bearer(token)
    async with client_of(app) as client:
        refused = await client.post(url, json=fields, headers=headers)
    assert refused.status_code in (429, 456), refused.text
    assert searches == []


@pytest.mark.parametrize("accept", ["application/json", "application/x-ndjson"])
async def test_the_time_of_a_search_is_part_of_the_requests(
    app: FastAPI, path: Path, service: RoteService, accept: str
) -> None:
    token = make_key(path)
    within: list[float | None] = []

    async def translate(request: TranslationRequest) -> Any:
        within.append(request.within_s)
        return await RoteService.translate(service, request)

    def stream(request: TranslationRequest) -> Any:
        within.append(request.within_s)
        raise DeadlineExceeded(1.0)

    service.translate = translate  # type: ignore[method-assign]
    service.stream = stream  # type: ignore[attr-defined]
    fields = {"text": "a house", "source": "en", "target": "de", "glossary": stored(app, token)}
    async with client_of(app) as client:
        await client.post("/translate", json=fields, headers={**bearer(token), "accept": accept})
    (remaining,) = within
    assert remaining is not None and 0 < remaining < app.state.settings.deadline_s
