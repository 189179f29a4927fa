"""Keys in the protocols of other services: sent in their ways, refused with their errors."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from app.accounts.service import Accounts
from app.errors import AccountsUnavailable
from app.http.compat.parameters import KEYLESS_BYTES
from app.http.key_openapi import OPEN_PATHS
from app.serving.request import TranslationRequest
from tests.app.accounts.keyed import bearer, keyed_app, make_key, used
from tests.app.serving import RoteResult, RoteService, client_of

pytestmark = pytest.mark.anyio

DEEPL = {"text": ["hello"], "target_lang": "DE", "source_lang": "EN"}
LIBRE = {"q": "hello", "source": "en", "target": "de"}
WRONG = "verso_0123456789ab_" + "x" * 43


def deepl_key(token: str) -> dict[str, str]:
    return {"authorization": f"DeepL-Auth-Key {token}"}


async def test_deepl_clients_send_the_key_in_a_header_or_a_parameter(client: httpx.AsyncClient, path: Path) -> None:
    token = make_key(path)
    answers = [
        await client.post("/v2/translate", json=DEEPL, headers=deepl_key(token)),
        await client.post("/v2/translate", json={**DEEPL, "auth_key": token}),
        await client.post("/v2/translate", data={"text": "hello", "target_lang": "DE", "auth_key": token}),
        await client.post(f"/v2/translate?auth_key={token}", json=DEEPL),
    ]
    assert [answer.status_code for answer in answers] == [200] * 4
    assert used(path) == (20, 4)


@pytest.mark.parametrize(
    ("method", "url"),
    [
        ("POST", "/v2/translate"),
        ("GET", "/v2/languages"),
        ("GET", "/v2/usage"),
        ("GET", "/v2/glossaries"),
        ("GET", "/v3/glossaries"),
        ("GET", "/v2/glossary-language-pairs"),
        ("POST", "/v2/document"),
        ("POST", "/v2/document/0F3C"),
        ("POST", "/v2/document/0F3C/result"),
        ("DELETE", "/v2/glossaries/1"),
        ("PATCH", "/v3/glossaries/1"),
        ("PUT", "/v3/glossaries/1/dictionaries"),
    ],
)
async def test_deepl_routes_refuse_a_wrong_key_with_403(
    client: httpx.AsyncClient, path: Path, method: str, url: str
) -> None:
    for headers in ({}, deepl_key(WRONG), deepl_key(make_key(path, "attention"))):
        refused = await client.request(method, url, headers=headers, json=DEEPL if method == "POST" else None)
        assert refused.status_code == 403
        assert list(refused.json()) == ["message"]
        assert "any key" not in refused.text


async def test_deepl_documents_need_their_scope(client: httpx.AsyncClient, path: Path) -> None:
    refused = await client.post("/v2/document/0F3C", json={}, headers=deepl_key(make_key(path, "translate")))
    assert refused.status_code == 403
    allowed = await client.post("/v2/document/0F3C", json={}, headers=deepl_key(make_key(path, "documents")))
    assert allowed.status_code == 400  # the key of the document is missing


async def test_deepl_clients_learn_of_their_quota_and_of_what_they_have_used(
    client: httpx.AsyncClient, path: Path
) -> None:
    headers = deepl_key(make_key(path, characters_per_month=7))
    assert (await client.get("/v2/usage", headers=headers)).json() == {"character_count": 0, "character_limit": 7}
    assert (await client.post("/v2/translate", json=DEEPL, headers=headers)).status_code == 200
    assert (await client.get("/v2/usage", headers=headers)).json() == {"character_count": 5, "character_limit": 7}
    refused = await client.post("/v2/translate", json=DEEPL, headers=headers)
    assert (refused.status_code, list(refused.json())) == (456, ["message"])
    other = (await client.get("/v2/usage", headers=deepl_key(make_key(path)))).json()
    assert other == {"character_count": 0, "character_limit": 1_000_000_000_000}


@pytest.mark.parametrize("limits", [{"requests_per_minute": 1}, {"concurrent_sentences": 1}])
async def test_deepl_clients_are_told_to_slow_down(
    client: httpx.AsyncClient, service: RoteService, path: Path, limits: dict[str, Any]
) -> None:
    headers = deepl_key(make_key(path, **limits))
    first = asyncio.create_task(client.post("/v2/translate", json={**DEEPL, "text": ["forever"]}, headers=headers))
    await service.started.wait()
    refused = await client.post("/v2/translate", json=DEEPL, headers=headers)
    assert (refused.status_code, list(refused.json())) == (429, ["message"])
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)


@dataclass
class GatedService(RoteService):
    """Translates when its gate is open."""

    gate: asyncio.Event = field(default_factory=asyncio.Event)

    async def translate(self, request: TranslationRequest) -> RoteResult:
        self.started.set()
        await self.gate.wait()
        return await super().translate(request)


async def test_a_request_that_a_deepl_client_repeats_after_its_timeout_is_counted_once(path: Path) -> None:
    service = GatedService()
    with keyed_app(service, keys_db=path) as app:
        async with client_of(app) as client:
            headers = deepl_key(make_key(path))
            first = asyncio.create_task(client.post("/v2/translate", json=DEEPL, headers=headers))
            await service.started.wait()
            first.cancel()
            await asyncio.gather(first, return_exceptions=True)
            second = asyncio.create_task(client.post("/v2/translate", json=DEEPL, headers=headers))
            service.gate.set()
            assert (await second).status_code == 200
    assert used(path) == (5, 1)


async def test_libretranslate_clients_send_the_key_as_a_parameter_or_a_header(
    client: httpx.AsyncClient, path: Path
) -> None:
    token = make_key(path)
    url = "/libretranslate/translate"
    answers = [
        await client.post(url, json={**LIBRE, "api_key": token}),
        await client.post(url, data={**LIBRE, "api_key": token}),
        await client.post(url, files={"format": (None, "text")}, data={**LIBRE, "api_key": token}),
        await client.post(url, params={**LIBRE, "api_key": token}),
        await client.post(url, json={**LIBRE, "api_key": ""}, headers=bearer(token)),
    ]
    assert [answer.status_code for answer in answers] == [200] * 5
    assert used(path) == (25, 5)


@pytest.mark.parametrize("url", ["/translate", "/detect", "/translate_file"])
@pytest.mark.parametrize(
    ("key", "status", "message"),
    [
        ({}, 400, "Please contact the server operator to get an API key"),
        ({"api_key": ""}, 400, "Please contact the server operator to get an API key"),
        ({"api_key": None}, 400, "Please contact the server operator to get an API key"),
        ({"api_key": 5}, 400, "Please contact the server operator to get an API key"),
        ({"api_key": WRONG}, 403, "Invalid API key"),
    ],
)
async def test_libretranslate_refuses_a_key_in_its_words(
    client: httpx.AsyncClient, service: RoteService, url: str, key: dict[str, Any], status: int, message: str
) -> None:
    refused = await client.post(f"/libretranslate{url}", json={**LIBRE, **key})
    assert (refused.status_code, refused.json()) == (status, {"error": message})
    assert service.calls == []


async def test_libretranslate_clients_learn_of_their_limits(client: httpx.AsyncClient, path: Path) -> None:
    key = {"api_key": make_key(path, characters_per_month=7, requests_per_minute=2)}
    first = await client.post("/libretranslate/translate", json={**LIBRE, **key})
    used_up = await client.post("/libretranslate/translate", json={**LIBRE, **key})
    too_many = await client.post("/libretranslate/translate", json={**LIBRE, **key})
    assert [item.status_code for item in (first, used_up, too_many)] == [200, 403, 429]
    assert too_many.json()["error"].startswith("Slowdown: ") and "retry-after" in too_many.headers
    only_attention = {"api_key": make_key(path, "attention")}
    assert (await client.post("/libretranslate/translate", json={**LIBRE, **only_attention})).status_code == 403


@pytest.mark.parametrize("url", ["/languages", "/frontend/settings", "/health", "/spec"])
async def test_what_libretranslate_clients_read_first_needs_no_key(client: httpx.AsyncClient, url: str) -> None:
    assert (await client.get(f"/libretranslate{url}")).status_code == 200


@pytest.mark.parametrize(
    ("settings", "expected"),
    [({"keys_db": True}, (True, True)), ({"keys_db": True, "anonymous": "on"}, (True, False)), ({}, (False, False))],
)
async def test_libretranslate_says_whether_a_key_is_needed(
    service: RoteService, path: Path, settings: dict[str, Any], expected: tuple[bool, bool]
) -> None:
    with keyed_app(service, **{**settings, **({"keys_db": path} if settings else {})}) as app:
        async with client_of(app) as client:
            body = (await client.get("/libretranslate/frontend/settings")).json()
            assert (body["apiKeys"], body["keyRequired"]) == expected


async def test_refusals_of_keys_are_documented(app: FastAPI) -> None:
    paths = app.openapi()["paths"]
    assert paths.keys() >= OPEN_PATHS
    assert "429" not in paths["/libretranslate/languages"]["get"]["responses"]
    for path, item in paths.items():
        expected = {"403", "429", "504"} if path.startswith("/libretranslate") else {"403", "429", "456", "504"}
        if path.startswith(("/libretranslate", "/v2", "/v3")) and path not in OPEN_PATHS:
            for operation in item.values():
                assert operation["responses"].keys() >= expected, path
                contents = [operation["responses"][status]["content"]["application/json"] for status in expected]
                assert len({content["schema"]["$ref"] for content in contents}) == 1


LONG = "a" * (2 * KEYLESS_BYTES)


class Endless:
    """A body that never ends; it notes how much of it was read."""

    def __init__(self, beginning: bytes) -> None:
        self.beginning = beginning
        self.num_bytes = 0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self.beginning
        while self.num_bytes < 10 * KEYLESS_BYTES:
            self.num_bytes += 1_000
            yield b"a" * 1_000
        raise AssertionError("read without a key")


BODIES = {
    "application/json": b'{"target_lang": "DE", "text": "',
    "application/x-www-form-urlencoded": b"target_lang=DE&text=",
    "multipart/form-data; boundary=x": b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\n',
}


@pytest.mark.parametrize("media_type", BODIES)
@pytest.mark.parametrize(
    ("url", "status"),
    [
        ("/v2/translate", 403),
        ("/v2/document", 403),
        ("/v2/glossaries", 403),
        ("/libretranslate/translate", 400),
        ("/libretranslate/translate_file", 400),
        ("/translate", 401),
        ("/documents", 401),
    ],
)
async def test_a_long_body_is_not_read_before_its_key_is_known(
    client: httpx.AsyncClient, url: str, status: int, media_type: str
) -> None:
    body = Endless(BODIES[media_type])
    refused = await client.post(url, content=body, headers={"content-type": media_type})
    assert refused.status_code == status
    assert body.num_bytes <= KEYLESS_BYTES + 1_000


async def test_a_long_body_is_read_for_a_key_in_the_header_the_query_or_its_beginning(
    client: httpx.AsyncClient, path: Path
) -> None:
    token = make_key(path)
    fields = {"q": LONG, "source": "en", "target": "de"}
    url = "/libretranslate/translate"
    answers = [
        await client.post(url, json=fields, headers=bearer(token)),
        await client.post(f"{url}?api_key={token}", json=fields),
        await client.post(url, json={"api_key": token, **fields}),
        await client.post(url, data={"api_key": token, **fields}),
        await client.post(url, files=[(name, (None, value)) for name, value in {"api_key": token, **fields}.items()]),
    ]
    # The texts are longer than a text may be, so the key and the whole body were read.
    assert [(answer.status_code, "exceeds text limit" in answer.text) for answer in answers] == [(400, True)] * 5

    async def in_pieces() -> AsyncIterator[bytes]:
        body = json.dumps({**fields, "api_key": token}).encode()
        for at in range(0, len(body), 10_000):
            yield body[at : at + 10_000]

    refused = await client.post(url, content=in_pieces(), headers={"content-type": "application/json"})
    assert refused.status_code == 400 and str(KEYLESS_BYTES) in refused.json()["error"]


@pytest.mark.parametrize("url", ["/v2/translate", "/v2/document", "/libretranslate/translate", "/translate"])
@pytest.mark.parametrize("key", ["missing", "wrong"])
@pytest.mark.parametrize("size", [10, 2 * KEYLESS_BYTES])
async def test_missing_and_wrong_keys_count_for_their_address_on_every_protocol(
    service: RoteService, path: Path, url: str, key: str, size: int
) -> None:
    scheme = "DeepL-Auth-Key" if url.startswith("/v2") else "Bearer"
    headers = {} if key == "missing" else {"authorization": f"{scheme} {WRONG}"}
    with keyed_app(service, keys_db=path, address_requests_per_minute=3) as app:
        async with client_of(app) as client:
            body = {**DEEPL, **LIBRE, "q": "a" * size}
            statuses = [(await client.post(url, json=body, headers=headers)).status_code for _ in range(5)]
    assert statuses[3:] == [429] * 2 and 429 not in statuses[:3]


async def test_a_body_that_cannot_be_parsed_counts_for_its_address(service: RoteService, path: Path) -> None:
    with keyed_app(service, keys_db=path, address_requests_per_minute=1) as app:
        async with client_of(app) as client:
            headers = {"content-type": "application/json"}
            refused = [await client.post("/v2/translate", content=b"{", headers=headers) for _ in range(2)]
    assert [answer.status_code for answer in refused] == [403, 429]


async def test_a_deepl_client_without_a_key_counts_where_no_keys_are_checked(service: RoteService) -> None:
    with keyed_app(service, address_requests_per_minute=2) as app:
        async with client_of(app) as client:
            statuses = [(await client.post("/v2/translate", json=DEEPL)).status_code for _ in range(3)]
    assert statuses == [403, 403, 429]


@pytest.mark.parametrize("url", ["/v2/document", "/libretranslate/translate_file", "/documents"])
async def test_the_file_is_part_of_what_an_idempotency_key_stands_for(
    service: RoteService, path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    digests: list[bytes] = []

    def charge(self: Accounts, key: object, id: object, fingerprint: bytes) -> object:
        digests.append(fingerprint)
        raise AccountsUnavailable

    monkeypatch.setattr(Accounts, "charge", charge)
    token = make_key(path)
    of_deepl = url.startswith("/v2")
    headers = {**(deepl_key(token) if of_deepl else bearer(token)), "idempotency-key": "1"}
    form = {"source": "en", "target": "de"} | ({"target_lang": "DE"} if of_deepl else {})
    with keyed_app(service, keys_db=path) as app:
        async with client_of(app) as client:
            for content in (b"one", b"one", b"two"):
                await client.post(url, data=form, files={"file": ("a.txt", content)}, headers=headers)
    assert digests[0] == digests[1] != digests[2]
