"""``/admin/models``: only for requests with the token."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from app.errors import (
    BundleNotFound,
    BundleOutside,
    BundleRefused,
    ModelAlreadyLoaded,
    NotReady,
    UnknownModel,
)
from app.http.routes.admin import GUESSES_PER_MINUTE
from app.http.schemas.models import ModelBody, UnloadResponse
from tests.app.accounts.keyed import client_at
from tests.app.serving import RoteService, client_of, rote_app

pytestmark = pytest.mark.anyio

TOKEN = "a-secret-of-the-operator"
WITH_TOKEN = {"authorization": f"Bearer {TOKEN}"}


def app_with_token(service: RoteService) -> FastAPI:
    return rote_app(service, admin_token=TOKEN)


async def ask(
    service: RoteService, method: str, path: str, headers: dict[str, str] | None = None, **options: Any
) -> httpx.Response:
    async with client_of(app_with_token(service)) as client:
        return await client.request(method, path, headers=WITH_TOKEN if headers is None else headers, **options)


async def test_loading_a_bundle_returns_its_description(service: RoteService) -> None:
    response = await ask(service, "POST", "/admin/models", json={"file": "fr-en.pt"})
    assert response.status_code == 201
    assert ModelBody.model_validate_json(response.content).name == "rote"
    assert service.calls == [{"file": "fr-en.pt", "sha256": None}]


async def test_a_bundle_may_be_pinned_by_its_digest(service: RoteService) -> None:
    digest = "aB" * 32
    await ask(service, "POST", "/admin/models", json={"file": "fr-en.pt", "sha256": digest})
    assert service.calls == [{"file": "fr-en.pt", "sha256": digest}]


async def test_unloading_a_model_returns_the_seconds_it_took(service: RoteService) -> None:
    response = await ask(service, "DELETE", "/admin/models/rote")
    assert response.status_code == 200
    assert UnloadResponse.model_validate_json(response.content).model_dump() == {"name": "rote", "duration_ms": 250.0}


async def test_a_name_may_hold_any_character(service: RoteService) -> None:
    await ask(service, "DELETE", "/admin/models/Helsinki-NLP/opus%20fr%2Den")
    assert service.calls == [{"unload": "Helsinki-NLP/opus fr-en"}]


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": ""},
        {"authorization": "Bearer"},
        {"authorization": "Bearer wrong-secret-of-somebody"},
        {"authorization": f"Bearer {TOKEN}x"},
        {"authorization": f"Bearer {TOKEN[:-1]}"},
        {"authorization": f"Basic {TOKEN}"},
        {"authorization": TOKEN},
        {"authorization": "Bearer ünïcödé"},
        {"x-admin-token": TOKEN},
    ],
)
@pytest.mark.parametrize(("method", "path"), [("POST", "/admin/models"), ("DELETE", "/admin/models/rote")])
async def test_a_request_without_the_token_is_refused(
    service: RoteService, method: str, path: str, headers: dict[str, str]
) -> None:
    encoded = {name.encode(): value.encode("latin-1") for name, value in headers.items()}
    async with client_of(app_with_token(service)) as client:
        response = await client.request(method, path, headers=encoded, content=b"{")
    assert (response.status_code, response.json()["code"]) == (401, "unauthorized")
    assert response.headers["www-authenticate"].startswith("Bearer")
    assert response.headers["content-type"] == "application/problem+json"
    assert TOKEN not in response.text
    assert service.calls == []


async def test_the_scheme_is_case_insensitive(service: RoteService) -> None:
    headers = {"authorization": f"bearer {TOKEN}"}
    assert (await ask(service, "DELETE", "/admin/models/rote", headers)).status_code == 200


@pytest.mark.parametrize(
    ("method", "path"), [("POST", "/admin/models"), ("GET", "/admin/models"), ("DELETE", "/admin/models/rote")]
)
async def test_without_a_configured_token_the_routes_do_not_exist(service: RoteService, method: str, path: str) -> None:
    async with client_of(rote_app(service)) as client:
        response = await client.request(method, path, headers=WITH_TOKEN)
        unknown = await client.request(method, path.replace("models", "nothing"), headers=WITH_TOKEN)
        document = (await client.get("/openapi.json")).json()
    assert (response.status_code, response.json()["code"]) == (404, "not_found")
    assert response.json().keys() == unknown.json().keys()
    assert (unknown.status_code, unknown.json()["code"]) == (404, "not_found")
    assert not any("admin" in result for result in document["paths"])
    assert "operator" not in document["components"].get("securitySchemes", {})


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (BundleNotFound("fr-en.pt", ["de-en.pt"]), 404, "bundle_not_found"),
        (BundleOutside("../fr-en.pt"), 422, "bundle_outside"),
        (BundleRefused("fr-en.pt is damaged."), 422, "bundle_refused"),
        (ModelAlreadyLoaded("fr-en"), 409, "model_already_loaded"),
        (NotReady(1.0, "draining"), 503, "not_ready"),
    ],
)
async def test_a_bundle_that_is_not_loaded_is_a_problem(
    service: RoteService, error: Exception, status: int, code: str
) -> None:
    service.request_error = error
    response = await ask(service, "POST", "/admin/models", json={"file": "fr-en.pt"})
    assert (response.status_code, response.json()["code"]) == (status, code)
    assert response.json()["detail"] == str(error)


async def test_a_model_that_is_not_loaded_cannot_be_unloaded(service: RoteService) -> None:
    service.request_error = UnknownModel("fr-en", ["de-en"])
    response = await ask(service, "DELETE", "/admin/models/fr-en")
    assert (response.status_code, response.json()["code"]) == (404, "unknown_model")


@pytest.mark.parametrize(
    ("body", "field", "message"),
    [
        ({}, "file", "is required"),
        ({"file": ""}, "file", "must be 1 or more characters long"),
        ({"file": "x" * 1001}, "file", "must be at most 1000 characters long"),
        ({"file": "a\0b"}, "file", "NUL character"),
        ({"file": "a.pt", "sha256": "ab"}, "sha256", "64 hexadecimal digits"),
        ({"file": "a.pt", "path": "b.pt"}, "path", "unknown field"),
    ],
)
async def test_an_invalid_field_is_named(service: RoteService, body: dict[str, Any], field: str, message: str) -> None:
    response = await ask(service, "POST", "/admin/models", json=body)
    assert (response.status_code, response.json()["code"]) == (422, "invalid_request")
    (entry,) = response.json()["errors"]
    assert entry["field"] == field
    assert message in entry["message"]


async def test_the_document_shows_the_routes_and_how_to_authenticate(service: RoteService) -> None:
    document = app_with_token(service).openapi()
    scheme = document["components"]["securitySchemes"]["operator"]
    assert (scheme["type"], scheme["scheme"]) == ("http", "bearer")
    for path, method, status in (("/admin/models", "post", "201"), ("/admin/models/{name}", "delete", "200")):
        operation = document["paths"][path][method]
        assert operation["security"] == [{"operator": []}]
        assert "example" in operation["responses"][status]["content"]["application/json"]
        assert "WWW-Authenticate" in operation["responses"]["401"]["headers"]
    assert "LoadRequest" in document["components"]["schemas"]
    assert TOKEN not in str(document)


async def test_a_wrong_method_is_refused_with_the_allowed_one(service: RoteService) -> None:
    response = await ask(service, "GET", "/admin/models")
    assert (response.status_code, response.headers["allow"]) == (405, "POST")


async def test_wrong_tokens_are_limited_by_address_and_then_the_right_one_is_refused_too(service: RoteService) -> None:
    app = app_with_token(service)
    async with client_of(app) as client:
        wrong = {"authorization": "Bearer a-guess-of-somebody"}
        statuses = [
            (await client.post("/admin/models", headers=wrong, json={"file": "x"})).status_code
            for _ in range(GUESSES_PER_MINUTE + 1)
        ]
        refused = await client.post("/admin/models", headers=WITH_TOKEN, json={"file": "x"})
    async with client_at(app, "192.0.2.7") as client:
        other = await client.post("/admin/models", headers=WITH_TOKEN, json={"file": "x"})
    assert statuses == [401] * GUESSES_PER_MINUTE + [429]
    assert (refused.status_code, refused.json()["code"], "retry-after" in refused.headers) == (
        429,
        "rate_limited",
        True,
    )
    assert other.status_code == 201
    assert len(service.calls) == 1


async def test_right_tokens_and_requests_without_one_are_no_guesses(service: RoteService) -> None:
    async with client_of(app_with_token(service)) as client:
        for _ in range(2 * GUESSES_PER_MINUTE):
            assert (await client.post("/admin/models", json={"file": "x"})).status_code == 401
        for _ in range(2 * GUESSES_PER_MINUTE):
            assert (await client.post("/admin/models", headers=WITH_TOKEN, json={"file": "x"})).status_code == 201
