"""``/openapi.json``: that it tells the whole contract, and the truth."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi import FastAPI

from app.http.openapi import ATTENTION_REQUESTS, TRANSLATE_REQUESTS
from app.http.schemas import (
    AttentionRequest,
    AttentionResponse,
    HealthResponse,
    ModelsResponse,
    ProblemBody,
    TranslateRequest,
    TranslateResponse,
)
from tests.app.serving import RoteService, client_of, rote_app

JSON = "application/json"
ROUTES = [
    ("/translate", "post"),
    ("/attention", "post"),
    ("/models", "get"),
    ("/livez", "get"),
    ("/readyz", "get"),
    ("/metrics", "get"),
]


@pytest.fixture(scope="module")
def app() -> FastAPI:
    return rote_app(RoteService(), max_beam_size=11, max_hypotheses=7, max_texts=5, max_text_characters=1234)


@pytest.fixture(scope="module")
def document(app: FastAPI) -> dict[str, Any]:
    return app.openapi()


def references(node: Any) -> list[str]:
    if isinstance(node, dict):
        own = [node["$ref"]] if isinstance(node.get("$ref"), str) else []
        return own + [found for value in node.values() for found in references(value)]
    if isinstance(node, list):
        return [found for value in node for found in references(value)]
    return []


def test_all_routes_are_there_and_no_others(document: dict[str, Any]) -> None:
    assert {(path, method) for path, item in document["paths"].items() for method in item} == set(ROUTES)


def test_every_reference_leads_somewhere(document: dict[str, Any]) -> None:
    for reference in references(document):
        node = document
        for part in reference.removeprefix("#/").split("/"):
            node = node[part]


@pytest.mark.parametrize(("path", "method"), ROUTES)
def test_every_route_has_a_sentence_and_an_example_of_its_answer(
    document: dict[str, Any], path: str, method: str
) -> None:
    operation = document["paths"][path][method]
    assert operation["summary"] and operation["description"]
    for content in operation["responses"]["200"]["content"].values():
        assert "example" in content or content["schema"]["format"] == "binary"


@pytest.mark.parametrize(
    ("path", "method", "schema"),
    [
        ("/translate", "post", TranslateResponse),
        ("/attention", "post", AttentionResponse),
        ("/models", "get", ModelsResponse),
        ("/livez", "get", HealthResponse),
        ("/readyz", "get", HealthResponse),
    ],
)
def test_the_examples_of_answers_fit_their_schema(
    document: dict[str, Any], path: str, method: str, schema: type[Any]
) -> None:
    example = document["paths"][path][method]["responses"]["200"]["content"][JSON]["example"]
    schema.model_validate(example, strict=False)


@pytest.mark.parametrize("example", TRANSLATE_REQUESTS.values(), ids=TRANSLATE_REQUESTS.keys())
def test_the_examples_of_translation_requests_are_valid(example: dict[str, Any]) -> None:
    TranslateRequest.model_validate(example).options()


@pytest.mark.parametrize("example", ATTENTION_REQUESTS.values(), ids=ATTENTION_REQUESTS.keys())
def test_the_examples_of_attention_requests_are_valid(example: dict[str, Any]) -> None:
    AttentionRequest.model_validate(example).options()


@pytest.mark.parametrize("path", ["/translate", "/attention"])
def test_every_status_a_request_may_end_in_is_documented(document: dict[str, Any], path: str) -> None:
    responses = document["paths"][path]["post"]["responses"]
    assert set(responses) == {"200", "400", "406", "413", "415", "422", "429", "500", "503", "504"}


def test_every_error_is_a_problem_with_examples_of_its_codes(document: dict[str, Any]) -> None:
    for item in document["paths"].values():
        for operation in item.values():
            for status, response in operation["responses"].items():
                if status == "200":
                    continue
                assert list(response["content"]) == ["application/problem+json"]
                for code, example in response["content"]["application/problem+json"]["examples"].items():
                    problem = ProblemBody.model_validate(example["value"])
                    assert (str(problem.status), problem.code) == (status, code)


@pytest.mark.parametrize("status", ["429", "503"])
def test_answers_that_say_when_to_come_back_say_so(document: dict[str, Any], status: str) -> None:
    assert "Retry-After" in document["paths"]["/translate"]["post"]["responses"][status]["headers"]


def test_the_bounds_shown_are_those_of_this_process(document: dict[str, Any]) -> None:
    fields = document["components"]["schemas"]["TranslateRequest"]["properties"]
    assert (fields["beam_size"]["maximum"], fields["num_hypotheses"]["maximum"]) == (11, 7)
    one_text, texts = fields["text"]["oneOf"]
    assert (one_text["maxLength"], texts["items"]["maxLength"], texts["maxItems"]) == (1234, 1234, 5)


@pytest.mark.parametrize("name", ["TranslateRequest", "AttentionRequest", "TranslationBody", "AttentionResponse"])
def test_every_field_has_a_sentence(document: dict[str, Any], name: str) -> None:
    for field, schema in document["components"]["schemas"][name]["properties"].items():
        assert schema.get("description"), field


def test_the_address_of_the_routes_is_relative_to_the_document(document: dict[str, Any]) -> None:
    assert document["servers"] == [{"url": "."}]


@pytest.mark.anyio
async def test_the_document_is_served(app: FastAPI, document: dict[str, Any]) -> None:
    async with client_of(app) as client:
        assert (await client.get("/openapi.json")).json() == document
