"""What ``/openapi.json`` says about the routes of DeepL's protocol is what they do."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi import APIRouter
from fastapi.routing import iter_route_contexts

from app.http.compat.deepl import PREFIXES
from app.http.compat.deepl.dependency import ADMITTED, AdmittedRoute
from app.http.compat.deepl.documentation import ERRORS
from app.http.compat.deepl.parameters import GLOSSARY_EXAMPLES, MULTILINGUAL_EXAMPLES
from tests.app.deepl_requests import ask, message
from tests.app.serving import RoteService, client_of, rote_app

pytestmark = pytest.mark.anyio

APP = rote_app(RoteService())
DOCUMENT: dict[str, Any] = APP.openapi()
OPERATIONS: dict[tuple[str, str], dict[str, Any]] = {
    (path, method): operation
    for path, item in DOCUMENT["paths"].items()
    if path.startswith(PREFIXES)
    for method, operation in item.items()
}
JSON = "application/json"


def requests() -> Iterator[Any]:
    """Each example request; a route without a body has one."""
    for (path, method), operation in OPERATIONS.items():
        if path.startswith("/v2/document"):
            continue  # these have tests of their own, with files
        body = operation.get("requestBody")
        named = {"no body": {"value": None}} if body is None else body["content"][JSON]["examples"]
        for name, example in named.items():
            yield pytest.param(path, method, example["value"], id=f"{method} {path}: {name}")


def models() -> dict[tuple[str, str], Any]:
    """The model of the answer of each route that has one."""
    by_operation: dict[tuple[str, str], Any] = {}
    for route in iter_route_contexts(APP.routes):
        for method in route.methods or ():
            for status, response in getattr(route, "responses", {}).items():
                if int(status) < 400 and "model" in response:
                    by_operation[str(route.path_format), method.lower()] = response["model"]
    return by_operation


MODELS = models()


def success(operation: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    ((status, response),) = ((int(s), r) for s, r in operation["responses"].items() if int(s) < 400)
    return status, response


@pytest.mark.parametrize(("path", "method", "body"), list(requests()))
async def test_example_requests_get_the_documented_answer(path: str, method: str, body: Any) -> None:
    app = rote_app(RoteService())
    async with client_of(app) as client:
        created = await ask(client, "POST", "/v3/glossaries", json=MULTILINGUAL_EXAMPLES["two language pairs"])
        glossary_id = created.json()["glossary_id"]
        if path.startswith("/v2"):
            created = await ask(client, "POST", "/v2/glossaries", json=GLOSSARY_EXAMPLES["terms with tabs"])
            glossary_id = created.json()["glossary_id"]
        memory = {"name": "Manuals", "source": "en"}
        memory_id = (await client.post("/memories", json=memory)).json()["id"]
        job = await ask(client, "POST", f"/v3/translation_memories/{memory_id}/export")
        ids = {"glossary_id": glossary_id, "translation_memory_id": memory_id, "job_id": job.json()["job_id"]}
        query = {name: {"source_lang": "en", "target_lang": "de"}[name] for name in required_query(path, method)}
        response = await ask(client, method, path.format(**ids), json=body, params=query)
    app.state.glossaries.close()
    await app.state.memories.close()
    status, documented = success(OPERATIONS[path, method])
    assert response.status_code == status, response.text
    media_type = response.headers.get("content-type", "").partition(";")[0]
    assert [media_type] == list(documented.get("content", {"": None}))
    if media_type == JSON:
        MODELS[path, method].model_validate(response.json())
    assert set(documented["headers"]) == {"X-Trace-ID"} and response.headers["x-trace-id"]


def required_query(path: str, method: str) -> list[str]:
    parameters = OPERATIONS[path, method].get("parameters", [])
    return [parameter["name"] for parameter in parameters if parameter["in"] == "query" and parameter["required"]]


@pytest.mark.parametrize(("path", "method"), list(OPERATIONS))
def test_routes_are_described_completely(path: str, method: str) -> None:
    operation = OPERATIONS[path, method]
    assert operation["summary"] and operation["description"] and operation["tags"] == ["DeepL"]
    assert operation["security"] == [{"deepl": []}]
    status, answer = success(operation)
    if status != 204:
        # Documents have the media types of their formats, of which the first has the example.
        media_type, content = next(iter(answer["content"].items()))
        assert "example" in content and "schema" in content
        if media_type == JSON:
            MODELS[path, method].model_validate(content["example"])
    names = {entry["name"] for entry in operation.get("parameters", []) if entry["in"] == "path"}
    assert names == set(re.findall("{([^}]+)}", path))
    for form in operation.get("requestBody", {"content": {}})["content"].values():
        for field, schema in form["schema"]["properties"].items():
            assert schema["description"], field


@pytest.mark.parametrize(("path", "method"), list(OPERATIONS))
def test_errors_are_documented_in_the_form_of_the_protocol(path: str, method: str) -> None:
    responses = OPERATIONS[path, method]["responses"]
    assert {"403"} <= set(responses) and "422" not in responses
    for status, response in responses.items():
        if int(status) >= 400 and status != "408":  # which the connection answers, in the same form on all routes
            assert list(response["content"]) == [JSON]
            assert response["content"][JSON]["schema"]["$ref"].endswith("DeepLError")
            assert response["content"][JSON]["examples"]


@pytest.mark.parametrize("name", list(ERRORS))
async def test_example_errors_are_those_that_are_sent(name: str) -> None:
    (status, value) = next(
        (int(status), response["content"][JSON]["examples"][name]["value"])
        for operation in OPERATIONS.values()
        for status, response in operation["responses"].items()
        if name in response.get("content", {}).get(JSON, {}).get("examples", {})
    )
    async with client_of(rote_app(RoteService(request_error=ERRORS[name]))) as client:
        response = await ask(client, "GET", "/v2/languages")
    assert message(response, status) == value["message"]


def test_a_route_that_admits_any_caller_cannot_be_declared() -> None:
    router = APIRouter(route_class=AdmittedRoute)

    async def route() -> None: ...

    with pytest.raises(TypeError, match="any caller"):
        router.get("/v2/somewhere")(route)
    router.get("/v2/somewhere", dependencies=ADMITTED)(route)
