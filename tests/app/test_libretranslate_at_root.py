"""``VERSO_COMPAT=libretranslate``: LibreTranslate's requests at the root, and native ones beside them."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

import httpx
import pytest

from tests.app.serving import RoteService, client_of, rote_app
from tests.app.test_middleware import PATIENCE_S, Wire, body_message, post_scope

pytestmark = pytest.mark.anyio

ONE = {"q": "a", "source": "en", "target": "de"}
JSON = {"content-type": "application/json"}


async def ask(method: str, path: str, service: RoteService | None = None, **arguments: Any) -> httpx.Response:
    settings = {"max_body_bytes": 1_000, **arguments.pop("settings", {})}
    async with client_of(rote_app(service or RoteService(), compat="libretranslate", **settings)) as client:
        return await client.request(method, path, **arguments)


def is_theirs(response: httpx.Response) -> bool:
    return response.headers["content-type"] != "application/problem+json"


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        ({"json": ONE}, 200),
        ({"json": {**ONE, "text": "b"}}, 200),
        ({"json": {**ONE, "target": "zz"}}, 400),
        ({"json": {"q": None}}, 400),
        ({"data": ONE}, 200),
        ({"params": ONE}, 200),
        ({"files": {name: (None, value) for name, value in ONE.items()}}, 200),
        ({"data": {"text": "a"}}, 400),
        ({}, 400),
        ({"content": b"{", "headers": JSON}, 400),
        ({"content": b"", "headers": JSON}, 400),
        ({"content": b"x"}, 400),
        ({"data": {"q": "a" * 1_001}}, 413),
    ],
)
async def test_a_body_with_q_or_that_is_not_json_is_libretranslates(arguments: dict[str, Any], status: int) -> None:
    response = await ask("POST", "/translate", **arguments)
    assert response.status_code == status, response.text
    assert is_theirs(response)
    assert list(response.json()) == (["translatedText"] if status == 200 else ["error"])


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        ({"json": {"text": "a", "source": "en", "target": "de"}}, 200),
        ({"json": {"text": "a", "beam": 4}}, 422),
        ({"json": {}}, 422),
        ({"json": ["q"]}, 400),
        ({"content": b'{"text": "' + b"a" * 1_000, "headers": JSON}, 413),
    ],
)
async def test_other_bodies_are_native_errors_included(arguments: dict[str, Any], status: int) -> None:
    result = await ask("POST", "/translate", **arguments)
    async with client_of(rote_app(RoteService(), max_body_bytes=1_000)) as client:
        native = await client.post("/translate", **arguments)
    assert (result.status_code, result.content) == (status, native.content)
    assert result.headers["content-type"] == native.headers["content-type"]


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("POST", "/detect?q=a", 200),
        ("GET", "/languages", 200),
        ("GET", "/frontend/settings", 200),
        ("GET", "/spec", 200),
        ("POST", "/suggest", 403),
        ("POST", "/translate_file", 400),
        ("GET", "/download_file/a", 200),
        ("POST", "/", 405),
        ("GET", "/detect", 405),
    ],
)
async def test_paths_that_verso_does_not_have_are_libretranslates(method: str, path: str, status: int) -> None:
    response = await ask(method, path)
    assert response.status_code == status
    assert is_theirs(response)
    async with client_of(rote_app(RoteService())) as client:
        assert not is_theirs(await client.request(method, path))


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/", 200), ("GET", "/docs", 200), ("GET", "/models", 200), ("GET", "/livez", 200), ("GET", "/no", 404)],
)
async def test_native_paths_stay_as_they_are(method: str, path: str, status: int) -> None:
    response = await ask(method, path)
    assert response.status_code == status


@pytest.mark.parametrize("prefix", ["", "/verso"])
async def test_a_proxys_path_is_kept_whether_or_not_the_proxy_strips_it(prefix: str) -> None:
    settings = {"root_path": "/verso"}
    assert (await ask("POST", f"{prefix}/translate", json=ONE, settings=settings)).json() == {"translatedText": "A"}
    assert (await ask("GET", f"{prefix}/languages", settings=settings)).status_code == 200
    refused = await ask("POST", f"{prefix}/libretranslate/translate", settings=settings)
    assert (refused.status_code, list(refused.json())) == (400, ["error"])
    documented = await ask("GET", f"{prefix}/libretranslate/", settings=settings)
    assert documented.headers["location"] == "/verso/docs"


async def test_log_and_metrics_name_the_route_that_answered(caplog: pytest.LogCaptureFixture) -> None:
    app = rote_app(RoteService(), compat="libretranslate")
    async with client_of(app) as client:
        with caplog.at_level(logging.INFO, "app.requests"):
            await client.post("/translate", json={**ONE, "q": ["secret", "words"]})
            await client.post("/translate", json={**ONE, "target": "zz"})
        metrics = (await client.get("/metrics")).text
    translated, refused = (record.__dict__["fields"] for record in caplog.records)
    assert translated["route"] == refused["route"] == "/libretranslate/translate"
    assert (translated["texts"], translated["characters"], translated["source_tokens"]) == (2, 11, 5)
    assert refused["code"] == "invalid_parameter"
    assert "secret" not in caplog.text + json.dumps([translated, refused])
    assert 'verso_requests_total{method="POST",route="/libretranslate/translate",status="200"} 1.0' in metrics


async def test_a_body_without_end_is_read_up_to_the_bound() -> None:
    app = rote_app(RoteService(), compat="libretranslate", max_body_bytes=1_000)
    wire = Wire(*({"type": "http.request", "body": b"x" * 400, "more_body": True} for _ in range(4)))
    await asyncio.wait_for(app(post_scope(app, "/translate"), wire.receive, wire.send), PATIENCE_S)
    assert wire.sent[0]["status"] == 413
    assert wire.incoming.qsize() == 1


async def test_a_client_that_leaves_stops_its_translation() -> None:
    service = RoteService()
    app = rote_app(service, compat="libretranslate")
    wire = Wire(body_message({**ONE, "q": "forever"}))
    answering = asyncio.create_task(app(post_scope(app, "/translate"), wire.receive, wire.send))
    await asyncio.wait_for(service.started.wait(), PATIENCE_S)
    wire.hang_up()
    await asyncio.wait_for(answering, PATIENCE_S)
    assert service.cancelled.is_set()
    assert wire.sent == []


async def test_a_client_that_leaves_within_its_body_starts_nothing() -> None:
    service = RoteService()
    app = rote_app(service, compat="libretranslate")
    wire = Wire({"type": "http.request", "body": b'{"q"', "more_body": True})
    wire.hang_up()
    await asyncio.wait_for(app(post_scope(app, "/translate"), wire.receive, wire.send), PATIENCE_S)
    assert (service.calls, wire.sent) == ([], [])


def test_the_document_describes_both_protocols_of_the_shared_path() -> None:
    paths = rote_app(RoteService(), compat="libretranslate").openapi()["paths"]
    shared, theirs = paths["/translate"]["post"], paths["/libretranslate/translate"]["post"]
    assert shared["responses"].keys() >= theirs["responses"].keys()
    assert shared["responses"]["400"]["content"].keys() == {"application/json", "application/problem+json"}
    (native, other) = shared["responses"]["200"]["content"]["application/json"]["schema"]["anyOf"]
    assert other == theirs["responses"]["200"]["content"]["application/json"]["schema"] != native
    assert shared["requestBody"]["content"].keys() == theirs["requestBody"]["content"].keys()
