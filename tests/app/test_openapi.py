"""``/openapi.json``: complete, and with examples that are tested."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import httpx
import pytest
from fastapi.routing import APIRoute, iter_route_contexts
from pydantic import TypeAdapter

from app.documents.formats.table import FORMATS
from app.errors import PROBLEMS, problem_for
from app.http.compat.deepl import documentation as deepl
from app.http.error_examples import ERRORS
from app.http.json_route import JsonRoute
from app.http.schemas.models import LOADED_MODEL
from app.http.schemas.problems import InvalidRequestBody, ProblemBody
from model.artifacts.checkpoint import load_checkpoint
from model.artifacts.pretrained import PRETRAINED
from model.decoding.policy import DecodingPolicy
from tests.app.serving import RoteDocuments, RoteMemories, RoteService, client_of, rote_app

JSON = "application/json"
PROBLEM = "application/problem+json"
TOKEN = "a-secret-of-the-operator"
ROUTES = [
    ("/translate", "post"),
    ("/attention", "post"),
    ("/detect", "post"),
    ("/documents", "post"),
    ("/documents", "get"),
    ("/documents/{id}", "get"),
    ("/documents/{id}", "delete"),
    ("/documents/{id}/result", "get"),
    ("/memories", "post"),
    ("/memories", "get"),
    ("/memories", "delete"),
    ("/memories/matches", "post"),
    ("/memories/{id}", "get"),
    ("/memories/{id}", "delete"),
    ("/memories/{id}/units", "get"),
    ("/memories/{id}/units", "post"),
    ("/memories/{id}/units/{unit}", "delete"),
    ("/memories/{id}/tmx", "post"),
    ("/memories/{id}/tmx", "get"),
    ("/documents/{id}/sentences", "get"),
    ("/documents/{id}/sentences", "patch"),
    ("/models", "get"),
    ("/livez", "get"),
    ("/readyz", "get"),
    ("/health", "get"),
    ("/metrics", "get"),
    ("/admin/models", "post"),
    ("/admin/models/{name}", "delete"),
]


APP = rote_app(RoteService(), admin_token=TOKEN)
DOCUMENT: dict[str, Any] = APP.openapi()
COMPATIBLE = tuple(APP.state.error_shapes)
"""Paths that begin so speak other protocols; they have tests of their own."""


async def ask(service: RoteService, method: str, path: str, body: Any = None) -> httpx.Response:
    APP.state.service = service
    APP.state.documents = RoteDocuments(service)
    APP.state.memories = RoteMemories(service)
    async with client_of(APP) as client:
        headers = {"authorization": f"Bearer {TOKEN}"}
        target = path.replace("{name}", "rote").replace("{id}", "0" * 32).replace("{unit}", "17")
        if body is not None and "file" in body and path == "/documents":
            fields = {name: value for name, value in body.items() if name != "file"}
            return await client.post(target, data=fields, files={"file": ("document.txt", body["file"])})
        if isinstance(body, str):
            return await client.request(method, target, content=body, headers=headers)
        return await client.request(method, target, json=body, headers=headers)


BEFORE_THE_SERVICE = {
    *("malformed_body", "not_acceptable", "body_too_large", "unsupported_media_type", "unauthorized"),
    *("malformed_form", "request_too_slow"),
}


def examples_of(body: Mapping[str, Any]) -> dict[str, Any]:
    """The example requests of a route, whatever their media type."""
    (content,) = body["content"].values()
    result: dict[str, Any] = content["examples"]
    return result


def operation(path: str, method: str) -> dict[str, Any]:
    result: dict[str, Any] = DOCUMENT["paths"][path][method]
    return result


def success(path: str, method: str) -> tuple[int, Mapping[str, Any]]:
    """The status of a successful response, and its media types."""
    ((status, response),) = ((s, r) for s, r in operation(path, method)["responses"].items() if int(s) < 400)
    return int(status), response["content"]


def requests() -> Iterator[Any]:
    """Each example request of the document; a route without a body has one."""
    for path, method in ROUTES:
        body = operation(path, method).get("requestBody")
        named = {"no body": {"value": None}} if body is None else examples_of(body)
        for name, example in named.items():
            yield pytest.param(path, method, example["value"], id=f"{method} {path}: {name}")


def errors(of_service: bool = False) -> Iterator[Any]:
    """Each example error of the document, or only those that the service raises."""
    for path, method in ROUTES:
        for status, response in operation(path, method)["responses"].items():
            if int(status) >= 400:
                for code, example in response["content"][PROBLEM]["examples"].items():
                    if of_service and (code in BEFORE_THE_SERVICE or method == "get"):
                        continue  # covered by the tests of the routes
                    yield pytest.param(path, method, int(status), code, example, id=f"{method} {path}: {code}")


def check_answer(path: str, method: str, content: Any) -> None:
    """Validate a response against the model that its route declares."""
    (route,) = (
        context
        for context in iter_route_contexts(APP.routes)
        if isinstance(context.original_route, APIRoute)
        and context.path_format == path
        and context.methods == {method.upper()}
        and context.include_in_schema
    )
    TypeAdapter(route.response_model).validate_json(json.dumps(content))


def references(node: Any) -> list[str]:
    if isinstance(node, dict):
        own = [node["$ref"]] if isinstance(node.get("$ref"), str) else []
        return own + [result for value in node.values() for result in references(value)]
    if isinstance(node, list):
        return [reference for value in node for reference in references(value)]
    return []


def test_the_document_has_exactly_the_routes() -> None:
    native = {path: item for path, item in DOCUMENT["paths"].items() if not path.startswith(COMPATIBLE)}
    assert {(path, method) for path, item in native.items() for method in item} == set(ROUTES)


def test_every_route_with_invalid_input_documents_problems() -> None:
    for route in iter_route_contexts(APP.routes):
        if isinstance(route.original_route, APIRoute) and (route.body_field or route.dependant.path_params):
            is_text = all(field.field_info.annotation is str for field in route.dependant.path_params)  # always valid
            assert isinstance(route.original_route, JsonRoute) or (is_text and not route.body_field), route.path


def test_without_a_token_there_are_no_admin_routes_and_no_security_scheme() -> None:
    document = rote_app(RoteService()).openapi()
    assert {path for path in document["paths"] if path.startswith("/admin")} == set()
    assert "operator" not in document["components"]["securitySchemes"]
    assert "LoadRequest" not in document["components"]["schemas"]


def test_admin_routes_need_the_token_of_the_operator() -> None:
    assert DOCUMENT["components"]["securitySchemes"]["operator"]["scheme"] == "bearer"
    for path, method in ROUTES:
        assert operation(path, method).get("security") == ([{"operator": []}] if "admin" in path else None)


@pytest.mark.parametrize(
    ("path", "method"),
    [
        ("/documents/{id}/result", "get"),
        ("/libretranslate/download_file/{filename}", "get"),
        ("/v2/document/{document_id}/result", "post"),
    ],
)
def test_a_translated_document_may_have_the_media_type_of_every_format(path: str, method: str) -> None:
    documented = rote_app(RoteService()).openapi()["paths"][path][method]["responses"]["200"]["content"]
    assert documented.keys() == {row.media_type for row in FORMATS.values()}


def test_every_reference_resolves_and_every_schema_is_used() -> None:
    result = set(references(DOCUMENT))
    assert result == {f"#/components/schemas/{name}" for name in DOCUMENT["components"]["schemas"]}


@pytest.mark.parametrize(("path", "method"), ROUTES)
def test_every_route_has_a_description_and_an_example_of_its_answer(path: str, method: str) -> None:
    assert operation(path, method)["summary"] and operation(path, method)["description"]
    for content in success(path, method)[1].values():
        assert "example" in content or content["schema"]["format"] == "binary"


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("path", "method", "body"),
    [request for request in requests() if request.values[:2] != ("/documents", "get")],  # refused without keys
)
async def test_example_requests_get_the_documented_response(path: str, method: str, body: Any) -> None:
    response = await ask(RoteService(), method, path, body)
    status, forms = success(path, method)
    assert response.status_code == status, response.text
    assert response.headers["content-type"].partition(";")[0] in forms
    if response.headers["content-type"] == JSON:
        check_answer(path, method, response.json())


@pytest.mark.parametrize(
    ("path", "method"), [route for route in ROUTES if "example" in success(*route)[1].get(JSON, {})]
)
def test_example_responses_fit_their_model_including_nulls(path: str, method: str) -> None:
    check_answer(path, method, success(path, method)[1][JSON]["example"])


@pytest.mark.parametrize(("path", "method", "status", "code", "example"), list(errors()))
def test_example_errors_are_those_of_the_problem_table(
    path: str, method: str, status: int, code: str, example: dict[str, Any]
) -> None:
    (row,) = (row for row in PROBLEMS.values() if row.code == code)
    assert (row.status, row.title) == (status, example["summary"])
    model = InvalidRequestBody if "errors" in example["value"] else ProblemBody
    problem = model.model_validate(example["value"])
    assert (problem.status, problem.code, problem.title) == (status, code, row.title)
    content = operation(path, method)["responses"][str(status)]["content"]
    assert list(content) == [PROBLEM]
    has_fields = "invalid_request" in content[PROBLEM]["examples"]
    assert content[PROBLEM]["schema"]["$ref"].endswith("InvalidRequestBody" if has_fields else "ProblemBody")


@pytest.mark.anyio
@pytest.mark.parametrize(("path", "method", "status", "code", "example"), list(errors(of_service=True)))
async def test_an_error_response_equals_its_example(
    path: str, method: str, status: int, code: str, example: dict[str, Any]
) -> None:
    (error,) = (error for error in ERRORS if problem_for(error).code == code)
    body = operation(path, method).get("requestBody")
    request = None if body is None else next(iter(examples_of(body).values()))["value"]
    response = await ask(RoteService(request_error=error), method, path, request)
    assert (response.status_code, response.headers["content-type"]) == (status, PROBLEM)
    assert response.json() == example["value"]


def test_every_error_of_a_native_route_has_an_example() -> None:
    exampled = {problem_for(error).code for error in ERRORS}
    exampled |= {problem_for(error).code for error in deepl.ERRORS.values()}
    assert {row.code for row in PROBLEMS.values()} - exampled == {"not_found", "method_not_allowed", "key_behind_body"}


@pytest.mark.parametrize("path", ["/translate", "/attention"])
def test_every_possible_status_is_documented(path: str) -> None:
    responses = operation(path, "post")["responses"]
    assert set(responses) == {"200", "400", "403", "404", "406", "408", "413", "415", "422", "429", "500", "503", "504"}


def test_a_request_that_comes_too_slowly_is_documented_wherever_there_is_a_body_to_send() -> None:
    for path, item in DOCUMENT["paths"].items():
        for described in item.values():
            assert ("408" in described["responses"]) == ("requestBody" in described), path
            if "requestBody" in described:
                assert list(described["responses"]["408"]["content"][PROBLEM]["examples"]) == ["request_too_slow"]


def test_the_example_of_a_model_describes_the_shipped_translator() -> None:
    shipped, example = load_checkpoint(PRETRAINED), LOADED_MODEL
    architecture = vars(shipped.config)
    assert example.architecture.items() <= architecture.items()
    assert (example.licence, example.attribution) == (shipped.facts["licence"], shipped.facts["attribution"])
    assert sorted(example.pairs) == sorted(map(tuple, shipped.facts["pairs"]))
    assert example.decoding.keys() == DecodingPolicy().to_dict().keys()


def test_the_bounds_shown_are_those_of_this_process() -> None:
    bounds = {"max_beam_size": 11, "max_hypotheses": 7, "max_texts": 5, "max_text_characters": 1234}
    fields = rote_app(RoteService(), **bounds).openapi()["components"]["schemas"]["TranslateRequest"]["properties"]
    assert (fields["beam_size"]["maximum"], fields["num_hypotheses"]["maximum"]) == (11, 7)
    one_text, texts = fields["text"]["oneOf"]
    assert (one_text["maxLength"], texts["items"]["maxLength"], texts["maxItems"]) == (1234, 1234, 5)


@pytest.mark.parametrize("name", ["TranslateRequest", "AttentionRequest", "TranslationBody", "AttentionResponse"])
def test_every_field_has_a_description(name: str) -> None:
    for field, schema in DOCUMENT["components"]["schemas"][name]["properties"].items():
        assert schema.get("description"), field


@pytest.mark.anyio
async def test_the_document_is_served() -> None:
    async with client_of(APP) as client:
        assert (await client.get("/openapi.json")).json() == DOCUMENT
