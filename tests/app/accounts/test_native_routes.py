"""Keys on native routes: who may do what, how much of it, and how it is counted."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import sqlite3
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI, Request
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.accounts.keys import Scope
from app.accounts.store import KeyStore
from app.accounts.usage import UsageStore
from app.engine.caller import Caller, Priority
from app.errors import InferenceFailed
from app.http.access import AccountHeaders, caller_of, needs
from app.http.json_route import json_route
from app.telemetry.logs import configure_logging
from tests.app.accounts.keyed import bearer, client_at, keyed_app, make_key, used
from tests.app.serving import RoteService, client_of, rote_app

pytestmark = pytest.mark.anyio

HELLO = {"text": "hello", "source": "en", "target": "de"}
WORK: list[tuple[str, str, Any, Scope | None]] = [
    ("POST", "/translate", HELLO, "translate"),
    ("POST", "/attention", HELLO, "attention"),
    ("POST", "/documents", None, "documents"),
    ("GET", "/documents/0f3c", None, "documents"),
    ("GET", "/documents/0f3c/result", None, "documents"),
    ("DELETE", "/documents/0f3c", None, "documents"),
    ("POST", "/admin/models", {"file": "a.pt"}, "admin"),
    ("DELETE", "/admin/models/rote", None, "admin"),
    ("GET", "/models", None, None),
]
OPEN = ["/livez", "/readyz", "/metrics", "/docs", "/openapi.json", "/", "/page/api.js"]


def check_problem(response: httpx.Response, status: int, code: str) -> None:
    assert (response.status_code, response.json()["code"]) == (status, code), response.text
    assert response.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize(("method", "url", "body", "scope"), WORK)
async def test_a_request_without_a_key_is_refused(
    client: httpx.AsyncClient, service: RoteService, method: str, url: str, body: Any, scope: str | None
) -> None:
    response = await client.request(method, url, json=body)
    check_problem(response, 401, "key_required")
    assert response.headers["www-authenticate"].startswith("Bearer")
    assert service.calls == []


@pytest.mark.parametrize(("method", "url", "body", "scope"), WORK)
async def test_a_key_needs_the_scope_of_the_route_and_no_other(
    client: httpx.AsyncClient, path: Path, method: str, url: str, body: Any, scope: Scope | None
) -> None:
    others: list[Scope] = [item for item in ("translate", "attention", "documents", "admin") if item != scope]
    refused = await client.request(method, url, json=body, headers=bearer(make_key(path, *others)))
    if scope is None:
        assert refused.status_code == 200
        return
    check_problem(refused, 403, "scope_missing")
    assert repr(scope) in refused.json()["detail"]
    allowed = await client.request(method, url, json=body, headers=bearer(make_key(path, scope)))
    assert allowed.status_code not in (401, 403, 500)


@pytest.mark.parametrize("url", OPEN)
async def test_some_paths_need_no_key(client: httpx.AsyncClient, url: str) -> None:
    assert (await client.get(url)).status_code == 200


@pytest.mark.parametrize("kind", ["unknown", "expired", "revoked", "changed"])
async def test_a_key_that_cannot_be_used_is_refused(client: httpx.AsyncClient, path: Path, kind: str) -> None:
    token = make_key(path, expires_at=time.time() - 1 if kind == "expired" else None)
    if kind == "revoked":
        assert (await client.post("/translate", json=HELLO, headers=bearer(token))).status_code == 200
        store = KeyStore(path)
        store.revoke(store.all()[0].id, 0.0)
        store.close()
    if kind == "changed":
        token = token[:-1] + ("a" if token[-1] != "a" else "b")
    if kind == "unknown":
        token = "secret"
    response = await client.post("/translate", json=HELLO, headers=bearer(token))
    check_problem(response, 401, "invalid_key")
    assert "invalid_token" in response.headers["www-authenticate"]
    assert (kind if kind in ("expired", "revoked") else "unknown") in response.json()["detail"]
    assert token not in response.text


async def test_requests_a_minute_are_limited_and_the_headers_say_how(client: httpx.AsyncClient, path: Path) -> None:
    headers = bearer(make_key(path, requests_per_minute=2))
    remaining = []
    for _ in range(2):
        response = await client.get("/models", headers=headers)
        assert (response.status_code, response.headers["ratelimit-policy"]) == (200, '"requests";q=2;w=60')
        remaining.append(response.headers["ratelimit"])
    assert remaining == ['"requests";r=1;t=30', '"requests";r=0;t=60']
    refused = await client.get("/models", headers=headers)
    check_problem(refused, 429, "rate_limited")
    assert refused.headers["retry-after"] == "30"
    assert refused.headers["ratelimit"].startswith('"requests";r=0;')
    other = await client.get("/models", headers=bearer(make_key(path)))
    assert other.status_code == 200 and "ratelimit" not in other.headers


async def test_requests_that_a_key_may_not_send_are_limited_as_well(client: httpx.AsyncClient, path: Path) -> None:
    headers = bearer(make_key(path, "attention", requests_per_minute=2))
    for _ in range(2):
        check_problem(await client.post("/translate", json=HELLO, headers=headers), 403, "scope_missing")
    check_problem(await client.post("/translate", json=HELLO, headers=headers), 429, "rate_limited")


async def test_characters_and_requests_are_counted(client: httpx.AsyncClient, path: Path) -> None:
    headers = bearer(make_key(path))
    await client.post("/translate", json={**HELLO, "text": ["hello", "wörld!"]}, headers=headers)
    assert used(path) == (11, 1)
    await client.post("/attention", json=HELLO, headers=headers)
    assert used(path) == (16, 2)
    await client.get("/models", headers=headers)
    assert used(path) == (16, 2)


async def test_what_fails_is_not_counted(client: httpx.AsyncClient, service: RoteService, path: Path) -> None:
    headers = bearer(make_key(path, characters_per_month=16))
    service.errors["bad"] = InferenceFailed()
    assert (await client.post("/translate", json={**HELLO, "text": "bad"}, headers=headers)).status_code == 500
    assert (await client.post("/translate", json={**HELLO, "beam_size": 99}, headers=headers)).status_code == 422
    assert (await client.post("/attention", json={**HELLO, "layers": [99]}, headers=headers)).status_code == 422
    assert used(path) == (0, 0)
    answered = await client.post("/translate", json={**HELLO, "text": ["hello", "bad"]}, headers=headers)
    assert answered.status_code == 200
    assert used(path) == (5, 1)
    await client.post("/translate", json={**HELLO, "text": "hello world"}, headers=headers)
    assert used(path) == (16, 2)


async def test_the_characters_of_a_month_are_limited(
    client: httpx.AsyncClient, service: RoteService, path: Path
) -> None:
    headers = bearer(make_key(path, characters_per_month=12))
    assert (await client.post("/translate", json=HELLO, headers=headers)).status_code == 200
    assert (await client.post("/translate", json=HELLO, headers=headers)).status_code == 200
    refused = await client.post("/translate", json=HELLO, headers=headers)
    check_problem(refused, 429, "quota_exceeded")
    assert 0 < int(refused.headers["retry-after"]) <= 31 * 86_400
    assert len(service.calls) == 2
    assert (await client.post("/translate", json={**HELLO, "text": "hi"}, headers=headers)).status_code == 200
    assert used(path) == (12, 3)


async def test_a_request_that_is_repeated_with_its_id_is_answered_and_counted_once(
    client: httpx.AsyncClient, service: RoteService, path: Path
) -> None:
    token = make_key(path, characters_per_month=5)
    headers = bearer(token, idempotency_key="7c1b")
    answers = [await client.post("/translate", json=HELLO, headers=headers) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200, 200, 200]
    assert used(path) == (5, 1)
    other = await client.post("/translate", json={**HELLO, "target": "en-GB"}, headers=headers)
    check_problem(other, 422, "invalid_idempotency_key")
    check_problem(
        await client.post("/translate", json=HELLO, headers=bearer(token, idempotency_key="8d")), 429, "quota_exceeded"
    )


async def test_a_request_id_does_not_make_requests_the_same(client: httpx.AsyncClient, path: Path) -> None:
    headers = bearer(make_key(path), x_request_id="same")
    for _ in range(2):
        await client.post("/translate", json=HELLO, headers=headers)
    assert used(path) == (10, 2)


async def test_a_failed_request_is_counted_when_its_repetition_succeeds(
    client: httpx.AsyncClient, service: RoteService, path: Path
) -> None:
    headers = bearer(make_key(path), idempotency_key="7c1b")
    service.request_error = InferenceFailed()
    assert (await client.post("/translate", json=HELLO, headers=headers)).status_code == 500
    service.request_error = None
    assert (await client.post("/translate", json=HELLO, headers=headers)).status_code == 200
    assert used(path) == (5, 1)


async def test_a_request_whose_client_has_left_is_not_counted(
    app: FastAPI, client: httpx.AsyncClient, service: RoteService, path: Path
) -> None:
    headers = bearer(make_key(path, characters_per_month=7))
    request = asyncio.create_task(client.post("/translate", json={**HELLO, "text": "forever"}, headers=headers))
    await service.started.wait()
    check_problem(await client.post("/translate", json=HELLO, headers=headers), 429, "quota_exceeded")  # it is reserved
    request.cancel()
    await service.cancelled.wait()
    with pytest.raises(asyncio.CancelledError):
        await request
    assert (await client.post("/translate", json=HELLO, headers=headers)).status_code == 200
    assert used(path) == (5, 1)


async def test_sentences_at_a_time_are_limited(client: httpx.AsyncClient, service: RoteService, path: Path) -> None:
    headers = bearer(make_key(path, concurrent_sentences=3))
    texts = {**HELLO, "text": ["forever", "One. Two."]}
    request = asyncio.create_task(client.post("/translate", json=texts, headers=headers))
    await service.started.wait()
    refused = await client.post("/translate", json=HELLO, headers=headers)
    check_problem(refused, 429, "concurrency_exceeded")
    assert refused.headers["retry-after"] == "1"
    others = bearer(make_key(path, concurrent_sentences=3))
    assert (await client.post("/translate", json=HELLO, headers=others)).status_code == 200
    request.cancel()
    with pytest.raises(asyncio.CancelledError):
        await request
    assert (await client.post("/translate", json=HELLO, headers=headers)).status_code == 200
    check_problem(
        await client.post("/translate", json={**HELLO, "text": "Go now. Go home. Go there. Go back."}, headers=headers),
        422,
        "limit_exceeded",
    )


async def test_nothing_is_answered_that_cannot_be_counted(
    client: httpx.AsyncClient, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = make_key(path)

    def fail(*_: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(UsageStore, "settle_all", fail)
    response = await client.post("/translate", json=HELLO, headers=bearer(token))
    check_problem(response, 503, "accounts_unavailable")
    assert response.headers["retry-after"] == "5"
    monkeypatch.undo()
    monkeypatch.setattr(KeyStore, "find", fail)
    check_problem(await client.post("/translate", json=HELLO, headers=bearer(token)), 503, "accounts_unavailable")


async def test_the_caller_is_known_to_routes(app: FastAPI, client: httpx.AsyncClient, path: Path) -> None:
    samples = []
    app.router.route_class = json_route(needs("translate"))

    @app.get("/who")
    async def who(request: Request) -> None:
        samples.append(caller_of(request))

    token = make_key(path, priority=Priority.BULK)
    await client.get("/who", headers=bearer(token))
    assert samples == [Caller(token.split("_")[1], Priority.BULK)]


async def test_without_a_key_the_caller_is_an_address_or_the_network_of_a_subscriber(service: RoteService) -> None:
    samples = []
    with keyed_app(service) as app:

        @app.get("/who")
        async def who(request: Request) -> None:
            samples.append(caller_of(request).id)

        for address in ("192.0.2.7", "2001:db8:1:2::9", "2001:db8:1:2:3::4"):
            async with client_at(app, address) as client:
                await client.get("/who")
    assert samples == ["192.0.2.7", "2001:db8:1:2::/64", "2001:db8:1:2::/64"]


async def test_callers_without_a_key_may_be_allowed(service: RoteService, path: Path) -> None:
    with keyed_app(service, keys_db=path, anonymous="on") as app:
        async with client_of(app) as client:
            assert (await client.post("/translate", json=HELLO)).status_code == 200
            assert used(path) == (0, 0)
            check_problem(await client.post("/translate", json=HELLO, headers=bearer("wrong")), 401, "invalid_key")
            check_problem(await client.delete("/admin/models/rote"), 401, "key_required")
            only = bearer(make_key(path, "attention"))
            check_problem(await client.post("/translate", json=HELLO, headers=only), 403, "scope_missing")


async def test_the_token_of_the_operator_opens_administration_and_nothing_else(
    service: RoteService, path: Path
) -> None:
    token = "a-secret-of-the-operator"
    with keyed_app(service, keys_db=path, admin_token=token) as app:
        async with client_of(app) as client:
            assert (await client.delete("/admin/models/rote", headers=bearer(token))).status_code == 200
            check_problem(await client.post("/translate", json=HELLO, headers=bearer(token)), 401, "invalid_key")


@pytest.mark.parametrize("authorization", [None, "Bearer anything", "Basic eA==", "DeepL-Auth-Key x"])
async def test_without_keys_any_key_or_none_is_accepted(service: RoteService, authorization: str | None) -> None:
    app = rote_app(service)
    assert app.state.accounts is None
    assert AccountHeaders.__name__ not in str(app.user_middleware)
    headers = {} if authorization is None else {"authorization": authorization}
    async with client_of(app) as client:
        response = await client.post("/translate", json=HELLO, headers=headers)
        assert response.status_code == 200
        assert "ratelimit" not in response.headers
        assert (await client.delete("/admin/models/rote", headers=headers)).status_code == 404


async def test_requests_of_an_address_are_limited_without_keys(service: RoteService) -> None:
    with keyed_app(service, address_requests_per_minute=2) as app:
        async with client_at(app, "192.0.2.1") as client, client_at(app, "192.0.2.2") as other:
            for _ in range(2):
                assert (await client.post("/translate", json=HELLO, headers=bearer("any"))).status_code == 200
            check_problem(await client.post("/translate", json=HELLO), 429, "rate_limited")
            forged = {"x-forwarded-for": "198.51.100.1"}
            check_problem(await client.post("/translate", json=HELLO, headers=forged), 429, "rate_limited")
            assert (await other.post("/translate", json=HELLO)).status_code == 200
            assert (await client.get("/livez")).status_code == 200


@pytest.mark.parametrize(
    ("trusted", "peer", "forwarded", "counted"),
    [
        ("10.0.0.0/8", "10.1.2.3", "198.51.100.1", "198.51.100.1"),
        ("10.0.0.0/8", "10.1.2.3", "203.0.113.9, 198.51.100.1", "198.51.100.1"),  # the left one is the client's word
        ("10.0.0.0/8", "10.1.2.3", "203.0.113.9, 198.51.100.1, 10.9.9.9", "198.51.100.1"),
        ("10.0.0.0/8, 2001:db8::/32", "2001:db8::1", "198.51.100.1:4711", "198.51.100.1"),
        ("10.0.0.0/8", "192.0.2.1", "198.51.100.1", "192.0.2.1"),
        ("10.0.0.0/8", "127.0.0.1", "198.51.100.1", "127.0.0.1"),
        ("none", "127.0.0.1", "198.51.100.1", "127.0.0.1"),
        ("127.0.0.1", "127.0.0.1", "", "127.0.0.1"),
    ],
)
async def test_only_trusted_proxies_say_whose_a_request_is(
    service: RoteService, trusted: str, peer: str, forwarded: str, counted: str
) -> None:
    with keyed_app(service, address_requests_per_minute=1, trusted_proxies=trusted) as app:
        async with client_at(app, peer) as proxied, client_at(app, counted) as direct:
            first = await proxied.post("/translate", json=HELLO, headers={"x-forwarded-for": forwarded})
            assert first.status_code == 200
            check_problem(await direct.post("/translate", json=HELLO), 429, "rate_limited")


_ANY_HEADER = st.binary(max_size=200).map(
    lambda value: value.replace(b"\r", b"").replace(b"\n", b"").replace(b"\0", b"")
)


@pytest.mark.parametrize("name", ["authorization", "idempotency-key", "x-forwarded-for"])
@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(value=_ANY_HEADER, prefix=st.sampled_from([b"", b"Bearer ", b"bearer verso_", b"DeepL-Auth-Key "]))
def test_no_header_makes_the_service_fail(
    service: RoteService, tmp_path_factory: pytest.TempPathFactory, name: str, value: bytes, prefix: bytes
) -> None:
    path = tmp_path_factory.mktemp("keys") / "keys.sqlite"
    token = make_key(path)

    async def ask() -> list[httpx.Response]:
        with keyed_app(service, keys_db=path, address_requests_per_minute=1_000) as app:
            async with client_at(app, "127.0.0.1") as client:
                headers = {b"authorization": f"Bearer {token}".encode(), name.encode(): prefix + value}
                deepl = {"text": "a", "target_lang": "DE", "auth_key": value.decode("latin-1")}
                libre = {"q": "a", "source": "en", "target": "de", "api_key": value.decode("latin-1")}
                return [
                    await client.post("/translate", json=HELLO, headers=headers),
                    await client.post("/v2/translate", json=deepl, headers=headers),
                    await client.post("/libretranslate/translate", json=libre, headers=headers),
                ]

    for response in asyncio.run(ask()):
        assert response.status_code in (200, 400, 401, 403, 422), response.text


async def test_no_key_is_logged(client: httpx.AsyncClient, path: Path) -> None:
    good, wrong = make_key(path), "verso_0123456789ab_" + "x" * 43
    stream = io.StringIO()
    configure_logging("debug", stream)
    try:
        for token in (good, wrong):
            secret = token.rpartition("_")[2] if token == wrong else token[19:]
            await client.post("/translate", json=HELLO, headers=bearer(token))
            await client.get(f"/v2/usage?auth_key={token}")
            await client.post("/v2/translate", json={"text": "a", "target_lang": "DE", "auth_key": token})
            await client.post(f"/libretranslate/translate?api_key={token}", json={"q": "a"})
            await client.post("/libretranslate/translate", json={"q": "a", "target": "de", "api_key": token})
            await client.get(f"/{token}")
            written = stream.getvalue().splitlines()
            lines = "\n".join(line for line in written if json.loads(line)["logger"] != "httpx")  # that of this test
            assert lines and secret not in lines
        assert any(json.loads(line).get("key") == good.split("_")[1] for line in lines.splitlines())
    finally:
        logging.basicConfig(level="WARNING", handlers=[], force=True)
        logging.captureWarnings(False)


def test_the_document_shows_keys_only_where_there_are_some(app: FastAPI) -> None:
    document = app.openapi()
    assert document["components"]["securitySchemes"]["key"]["scheme"] == "bearer"
    translate = document["paths"]["/translate"]["post"]
    assert translate["security"] == [{"key": []}]
    assert {"401", "403", "429"} <= translate["responses"].keys()
    assert [parameter["name"] for parameter in translate["parameters"]] == ["Idempotency-Key"]
    assert "security" not in document["paths"]["/livez"]["get"]
    assert document["paths"]["/admin/models"]["post"]["security"] == [{"operator": []}, {"key": []}]
    without = rote_app(RoteService()).openapi()
    assert "key" not in without["components"]["securitySchemes"]
    assert "security" not in without["paths"]["/translate"]["post"]
    assert without["paths"]["/translate"]["post"]["responses"].keys() == translate["responses"].keys() - {"401"}
