"""LibreTranslate's routes in ``/openapi.json``, and the document of them alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import TypeAdapter

from app.documents.formats.table import MEDIA_TYPES
from app.errors import (
    NotReady,
    QueueFull,
    StorageFull,
    StorageUnavailable,
    problem_for,
)
from app.http.compat.libretranslate import PREFIX, error_shape, schemas
from tests.app.serving import RoteService, client_of, rote_app
from tests.app.test_openapi import references

pytestmark = pytest.mark.anyio

APP = rote_app(RoteService(), suggestions="on")
DOCUMENT: dict[str, Any] = APP.openapi()
JSON = "application/json"
ROUTES = {
    ("/translate", "post"): schemas.TranslateAnswer,
    ("/detect", "post"): list[schemas.DetectionBody],
    ("/languages", "get"): list[schemas.LanguageBody],
    ("/frontend/settings", "get"): schemas.SettingsBody,
    ("/health", "get"): schemas.HealthBody,
    ("/spec", "get"): dict[str, Any],
    ("/suggest", "post"): schemas.SuggestedBody,
    ("/translate_file", "post"): schemas.TranslatedFile,
    ("/download_file/{filename}", "get"): str,
}


def operations() -> Iterator[Any]:
    for (path, method), answer in ROUTES.items():
        yield pytest.param(path, DOCUMENT["paths"][PREFIX + path][method], answer, id=f"{method} {path}")


def requests() -> Iterator[Any]:
    for (path, method), answer in ROUTES.items():
        if "file" in path:
            continue  # tests/app/test_libretranslate_files.py has whole documents
        content = DOCUMENT["paths"][PREFIX + path][method].get("requestBody", {}).get("content", {})
        named = content.get(JSON, {}).get("examples", {"no body": {"value": None}})
        for name, example in named.items():
            yield pytest.param(path, method, example["value"], answer, id=f"{method} {path}: {name}")


def test_the_document_has_exactly_the_routes() -> None:
    documented = {path: item for path, item in DOCUMENT["paths"].items() if path.startswith(PREFIX)}
    assert {(path.removeprefix(PREFIX), method) for path, item in documented.items() for method in item} == set(ROUTES)


@pytest.mark.parametrize(("path", "operation", "answer"), list(operations()))
def test_every_route_is_described_with_examples_of_answer_and_errors(
    path: str, operation: dict[str, Any], answer: Any
) -> None:
    assert operation["summary"] and operation["description"]
    for status, response in operation["responses"].items():
        if status == "408":
            continue  # of the connection, which knows no protocol
        schema = answer if int(status) < 400 else schemas.ErrorBody
        # The example of a document is one of text; the other forms are binary.
        ((media_type, content), *binary) = response["content"].items()
        assert [media_type, *dict(binary)] == (list(MEDIA_TYPES) if schema is str else [JSON])
        assert all(other == {"schema": {"type": "string", "format": "binary"}} for _, other in binary)
        TypeAdapter(schema).validate_python(content["example"])
        if int(status) >= 400:
            assert content["schema"] == {"$ref": "#/components/schemas/ErrorBody"}


@pytest.mark.parametrize(("path", "method", "body", "answer"), list(requests()))
async def test_example_requests_get_the_documented_response(path: str, method: str, body: Any, answer: Any) -> None:
    async with client_of(APP) as client:
        response = await client.request(method, PREFIX + path, json=body)
    await APP.state.memories.close()
    documented = DOCUMENT["paths"][PREFIX + path][method]["responses"]
    (status,) = [status for status in documented if int(status) < 400]
    assert response.status_code == int(status), response.text
    TypeAdapter(answer).validate_json(response.content)


@pytest.mark.parametrize("error", [StorageFull(), StorageUnavailable(), NotReady(5.0, "loading"), QueueFull(1.0)])
def test_what_may_succeed_later_has_a_documented_status(error: Exception) -> None:
    documented = DOCUMENT["paths"]["/libretranslate/translate_file"]["post"]["responses"]
    assert str(error_shape(problem_for(error)).status_code) in documented


async def test_the_spec_describes_these_routes_alone_and_is_complete() -> None:
    async with client_of(APP) as client:
        spec = (await client.get("/libretranslate/spec")).json()
    assert {(path, method) for path, item in spec["paths"].items() for method in item} == set(ROUTES)
    assert set(references(spec)) == {f"#/components/schemas/{name}" for name in spec["components"]["schemas"]}
    assert "TranslateRequest" not in spec["components"]["schemas"]
    assert spec["servers"] == [{"url": "."}]  # paths are relative to the address of the document
