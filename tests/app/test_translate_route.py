"""``POST /translate``: fields, responses, errors."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from app.engine.caller import Caller
from app.errors import DeadlineExceeded, DeadlineUnreachable, NotReady, QueueFull
from app.http.schemas.translation import TranslateResponse
from app.serving.detection import Detection
from model.errors import DecodingError, UnsupportedPair
from model.languages import LanguagePairs
from model.text.glossary import GlossaryTerm
from tests.app.serving import RoteService, client_of, rote_app

pytestmark = pytest.mark.anyio


@pytest.fixture
async def client(service: RoteService) -> AsyncIterator[httpx.AsyncClient]:
    limits = {"max_texts": 3, "max_text_characters": 50, "max_body_bytes": 2000, "max_beam_size": 8}
    async with client_of(rote_app(service, **limits, max_hypotheses=5)) as client:
        yield client


def problem_of(response: httpx.Response, status: int, code: str) -> dict[str, Any]:
    assert (response.status_code, response.headers["content-type"]) == (status, "application/problem+json")
    problem: dict[str, Any] = response.json()
    assert (problem["status"], problem["code"]) == (status, code)
    assert problem["title"]
    return problem


async def refused_fields(client: httpx.AsyncClient, body: dict[str, Any]) -> dict[str, dict[str, Any]]:
    problem = problem_of(await client.post("/translate", json=body), 422, "invalid_request")
    return {entry["field"]: entry for entry in problem["errors"]}


async def test_the_response_to_a_text_has_every_field(client: httpx.AsyncClient) -> None:
    response = await client.post("/translate", json={"text": "Hallo.", "source": "de", "target": "en"})
    assert response.status_code == 200
    assert response.headers["content-type"] == "application/json"
    assert response.json() == {
        "translations": [
            {
                "text": "HALLO.",
                "source": "en",
                "target": "de",
                "finish_reason": "stop",
                "score": None,
                "alternatives": [],
                "alignment": None,
                "model": "rote",
                "detected": None,
            }
        ],
        "model": "rote",
        "usage": {"source_tokens": 5, "target_tokens": 4},
        "timings_ms": {"queue": 0.25, "decode": 2.0, "total": 3.0},
    }


async def test_omitted_fields_have_the_documented_defaults(client: httpx.AsyncClient, service: RoteService) -> None:
    await client.post("/translate", json={"text": "a"})
    options = service.calls[0]["options"]
    assert (options.decoding, options.beam_size, options.length_penalty) == ("beam", 4, None)
    assert (options.num_hypotheses, options.min_new_tokens, options.max_new_tokens) == (1, 0, None)
    assert (service.calls[0]["source"], service.calls[0]["target"]) == (None, None)


async def test_every_field_reaches_the_decoder(client: httpx.AsyncClient, service: RoteService) -> None:
    fields = {
        "decoding": "beam",
        "beam_size": 6,
        "length_penalty": 0,
        "num_hypotheses": 3,
        "min_new_tokens": 2,
        "max_new_tokens": 20,
        "early_stopping": True,
        "scoring": "ct2",
        "no_repeat_ngram_size": 3,
        "return_scores": True,
        "formality": "informal",
    }
    body = {
        "text": "a",
        "source": "EN",
        "target": "de-AT",
        "return_alignment": True,
        "return_confidence": True,
        **fields,
    }
    response = await client.post("/translate", json=body)
    options = service.calls[0]["options"]
    assert {name: getattr(options, name) for name in fields} == fields
    assert (service.calls[0]["source"], service.calls[0]["target"]) == ("EN", "de-AT")
    translation = response.json()["translations"][0]
    assert translation["score"] == -0.5
    assert translation["alternatives"] == [
        {"text": "a 1", "score": -0.5, "finish_reason": "stop"},
        {"text": "a 2", "score": -0.5, "finish_reason": "stop"},
    ]
    assert translation["alignment"] == [{"source": [0, 1], "target": [0, 1], "weight": 1.0}]
    assert translation["confidence"] == {
        "score": 0.5,
        "words": [{"target": [0, 1], "probability": 0.25}],
        "uncovered": [[0, 1]],
    }


async def test_a_glossary_reaches_the_decoder_and_the_answer_says_what_became_of_it(
    client: httpx.AsyncClient, service: RoteService
) -> None:
    body = {"text": "a", "glossary": [{"source": "a", "target": "A"}]}
    entry = (await client.post("/translate", json=body)).json()["translations"][0]
    assert service.calls[0]["options"].glossary == (GlossaryTerm("a", "A"),)
    assert entry["glossary"] == [{"source": [0, 1], "target": [0, 1], "status": "used"}]
    assert "glossary" not in (await client.post("/translate", json={"text": "a"})).json()["translations"][0]


async def test_the_answer_has_the_words_of_the_lexicon_unless_it_is_switched_off(client: httpx.AsyncClient) -> None:
    entry = (await client.post("/translate", json={"text": "rare"})).json()["translations"][0]
    assert entry["lexicon"] == [{"source": [0, 4], "target": [0, 4], "status": "used"}]
    off = (await client.post("/translate", json={"text": "rare", "lexicon": False})).json()["translations"][0]
    assert "lexicon" not in off


@pytest.mark.parametrize(
    ("glossary", "path", "part"),
    [
        ([], "glossary", "at least 1"),
        ([{"source": "", "target": "b"}], "glossary[0].source", "1 or more characters"),
        ([{"source": "a", "target": "b" * 201}], "glossary[0].target", "at most 200 characters"),
        ([{"source": " a", "target": "b"}], "glossary[0].source", "whitespace"),
        ([{"source": "a"}], "glossary[0].target", "is required"),
        ([{"source": "a", "target": "b", "case": 1}], "glossary[0].case", "unknown field"),
        (7, "glossary", "must be a list of terms or the id"),
        ("", "glossary", "1 or more characters"),
    ],
)
async def test_a_glossary_out_of_bounds_is_refused_with_its_place(
    client: httpx.AsyncClient, glossary: Any, path: str, part: str
) -> None:
    response = await client.post("/translate", json={"text": "a", "glossary": glossary})
    assert response.status_code == 422
    (error,) = response.json()["errors"]
    assert error["field"] == path
    assert part in error["message"]


@pytest.mark.parametrize(
    ("fields", "status", "code"),
    [
        ({"format": "markdown"}, 422, "invalid_request"),
        ({"format": "html", "ignore_tags": ["a b"]}, 422, "invalid_request"),
        ({"ignore_tags": ["b"]}, 422, "invalid_options"),
    ],
)
async def test_a_format_that_does_not_fit_is_refused(
    client: httpx.AsyncClient, fields: dict[str, Any], status: int, code: str
) -> None:
    response = await client.post("/translate", json={"text": "<p>a</p>", **fields})
    assert (response.status_code, response.json()["code"]) == (status, code)


async def test_sentences_that_stay_in_their_language_are_counted(client: httpx.AsyncClient) -> None:
    answer = (await client.post("/translate", json={"text": ["untranslatable", "a"]})).json()
    assert [entry.get("untranslated") for entry in answer["translations"]] == [1, None]


async def test_patterns_reach_the_decoder_and_the_answer_says_where_the_spans_are(
    client: httpx.AsyncClient, service: RoteService
) -> None:
    body = {"text": "a", "protect": ["[a-z]+", "auto"]}
    entry = (await client.post("/translate", json=body)).json()["translations"][0]
    assert service.calls[0]["options"].protect == ("[a-z]+", "auto")
    spans = [{"source": [0, 1], "target": [0, 1], "restored": True}]
    assert entry["integrity"] == {"status": "restored", "spans": spans}
    assert "integrity" not in (await client.post("/translate", json={"text": "a"})).json()["translations"][0]


@pytest.mark.parametrize(
    ("protect", "field", "part"),
    [
        ("all", "protect", "must be 'auto' or 'none'"),
        (7, "protect", "a list of patterns"),
        ([], "protect", "at least 1"),
        (["a", ""], "protect[1]", "1 or more characters"),
        (["a" * 501], "protect[0]", "at most 500 characters"),
    ],
)
async def test_a_wrong_protect_is_refused(client: httpx.AsyncClient, protect: Any, field: str, part: str) -> None:
    response = await client.post("/translate", json={"text": "a", "protect": protect})
    assert response.status_code == 422
    (error,) = response.json()["errors"]
    assert error["field"] == field
    assert part in error["message"]


async def test_a_pattern_that_cannot_be_compiled_is_refused_and_named(client: httpx.AsyncClient) -> None:
    response = await client.post("/translate", json={"text": "a", "protect": ["(a"]})
    assert (response.status_code, response.json()["code"]) == (422, "invalid_pattern")
    assert "'(a'" in response.json()["detail"]


@pytest.mark.parametrize("source", ["auto", "AUTO"])
async def test_a_detected_language_is_returned_with_its_confidence(
    client: httpx.AsyncClient, service: RoteService, source: str
) -> None:
    service.detected = Detection("de", 0.97, ("de",))
    response = await client.post("/translate", json={"text": ["Hallo.", "Welt."], "source": source})
    assert service.calls[0]["source"] == source
    for entry in response.json()["translations"]:
        assert entry["detected"] == {"language": "de", "confidence": 0.97}
    TranslateResponse.model_validate_json(response.content)


async def test_auto_is_accepted_as_a_source_only(client: httpx.AsyncClient) -> None:
    fields = await refused_fields(client, {"text": "a", "source": "automatic", "target": "auto"})
    assert fields["source"]["message"].endswith("en-US, or auto")
    assert fields["target"]["message"].endswith("en-US")


async def test_a_failed_text_is_an_error_entry_and_the_others_are_translated(
    client: httpx.AsyncClient, service: RoteService
) -> None:
    service.errors["bad"] = DecodingError("NaN in step 3")
    response = await client.post("/translate", json={"text": ["a", "bad", "c"]})
    assert response.status_code == 200
    first, second, third = response.json()["translations"]
    assert (first["text"], third["text"]) == ("A", "C")
    assert (second["error"]["status"], second["error"]["code"]) == (500, "decoding_failed")
    assert "NaN" not in response.text
    TranslateResponse.model_validate_json(response.content)


@pytest.mark.parametrize("text", ["bad", ["bad"]])
async def test_a_single_text_that_fails_gets_a_problem_response(
    client: httpx.AsyncClient, service: RoteService, text: Any
) -> None:
    service.errors["bad"] = DecodingError("NaN in step 3")
    problem_of(await client.post("/translate", json={"text": text}), 500, "decoding_failed")


async def test_an_unexpected_error_is_a_500_without_detail(client: httpx.AsyncClient, service: RoteService) -> None:
    service.request_error = RuntimeError("the secret text")
    response = await client.post("/translate", json={"text": "a"})
    problem_of(response, 500, "internal_error")
    assert "secret" not in response.text and "Traceback" not in response.text


@pytest.mark.parametrize(
    ("error", "status", "code", "retry_after"),
    [
        (QueueFull(1.2), 429, "queue_full", "2"),
        (DeadlineUnreachable(45.0, 30.0, 900, 15.2), 429, "deadline_unreachable", "16"),
        (DeadlineUnreachable(45.0, 30.0, 900, None), 429, "deadline_unreachable", None),
        (NotReady(5.0, "loading"), 503, "not_ready", "5"),
        (DeadlineExceeded(30.0), 504, "deadline_exceeded", None),
        (UnsupportedPair("en", "fr", LanguagePairs((("en", "de"),))), 422, "unsupported_pair", None),
    ],
)
async def test_an_error_of_the_service_has_its_own_response(
    client: httpx.AsyncClient, service: RoteService, error: Exception, status: int, code: str, retry_after: str | None
) -> None:
    service.request_error = error
    response = await client.post("/translate", json={"text": "a"})
    problem_of(response, status, code)
    assert response.headers.get("retry-after") == retry_after


async def test_the_caller_is_the_address_of_the_client(client: httpx.AsyncClient, service: RoteService) -> None:
    for path in ("/translate", "/libretranslate/translate"):
        service.callers.clear()
        fields = {"text": "a"} if path == "/translate" else {"q": "a", "source": "en", "target": "de"}
        assert (await client.post(path, json=fields)).status_code == 200
        assert service.callers == [Caller("127.0.0.1")]


async def test_an_unknown_field_is_refused_with_the_closest_name(client: httpx.AsyncClient) -> None:
    fields = await refused_fields(client, {"text": "a", "beam_sise": 4})
    assert fields["beam_sise"]["message"] == "unknown field; did you mean 'beam_size'?"


async def test_all_invalid_fields_are_listed_with_value_and_bound(client: httpx.AsyncClient) -> None:
    body = {"text": "a", "beam_size": 0, "length_penalty": 11, "decoding": "sample", "source": "English", "target": 5}
    fields = await refused_fields(client, {**body, "scoring": "best"})
    assert set(fields) == {"beam_size", "length_penalty", "decoding", "source", "target", "scoring"}
    assert "'hf', 'ct2', 'marian' or 'wu'" in fields["scoring"]["message"]
    assert (fields["beam_size"]["value"], fields["beam_size"]["bound"]) == (0, 1)
    assert (fields["length_penalty"]["value"], fields["length_penalty"]["bound"]) == (11, 10)
    assert "'greedy' or 'beam'" in fields["decoding"]["message"]
    assert "en-US" in fields["source"]["message"]


@pytest.mark.parametrize(
    ("body", "field", "message"),
    [
        ({}, "text", "is required"),
        ({"text": {"a": 1}}, "text", "must be a string or a list of strings"),
        ({"text": []}, "text", "must have at least 1 value"),
        ({"text": ["a", 5]}, "text[1]", "must be a string"),
        ({"text": "a\0b"}, "text", "contains the NUL character at 1"),
        ({"text": ["a", "\0"]}, "text[1]", "contains the NUL character at 0"),
        ({"text": "a", "beam_size": True}, "beam_size", "must be a whole number"),
        ({"text": "a", "beam_size": 10**300}, "beam_size", "must be at most 64"),
        ({"text": "a", "length_penalty": "1"}, "length_penalty", "must be a number"),
        ({"text": "a", "return_scores": 1}, "return_scores", "must be true or false"),
    ],
)
async def test_an_invalid_field_is_named_with_the_valid_values(
    client: httpx.AsyncClient, body: dict[str, Any], field: str, message: str
) -> None:
    fields = await refused_fields(client, body)
    assert list(fields) == [field]
    assert message in fields[field]["message"]


async def test_a_refused_text_is_not_repeated(client: httpx.AsyncClient) -> None:
    response = await client.post("/translate", json={"text": "private\0words"})
    assert response.status_code == 422
    assert "private" not in response.text


async def test_options_that_contradict_each_other_are_refused(client: httpx.AsyncClient) -> None:
    response = await client.post("/translate", json={"text": "a", "beam_size": 2, "num_hypotheses": 3})
    assert "beam size, which is 2" in problem_of(response, 422, "invalid_options")["detail"]


@pytest.mark.parametrize(
    ("body", "value", "bound"),
    [
        ({"text": ["a"] * 4}, 4, 3),
        ({"text": ["a", "b" * 51]}, 51, 50),
        ({"text": "a", "beam_size": 9}, 9, 8),
        ({"text": "a", "beam_size": 8, "num_hypotheses": 6}, 6, 5),
    ],
)
async def test_a_request_over_a_limit_is_refused_with_the_number_and_the_bound(
    client: httpx.AsyncClient, body: dict[str, Any], value: int, bound: int
) -> None:
    problem = problem_of(await client.post("/translate", json=body), 422, "limit_exceeded")
    assert str(value) in problem["detail"] and str(bound) in problem["detail"]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "empty"),
        (b"{", "line 1 column 1"),
        (b'{"text": "a"} x', "trailing"),
        (b'{"text": NaN}', "line 1 column"),
        (b'{"text": "a", "length_penalty": Infinity}', "line 1 column"),
        (b'{"text": "\\ud800"}', "surrogate pair"),
        (b'{"text": "\xed\xa0\x80"}', "line 1 column"),
        (b'{"text": "\xff"}', "line 1 column"),
        (b'{"text": "a\nb"}', "control character"),
        ('{"text": "ä"}'.encode("utf-16"), "line 1 column 1"),
        (b'{"text": ' + b"[" * 900 + b"]" * 900 + b"}", "recursion"),
        (b'{"beam_size": ' + b"9" * 1900 + b"e9}", "number"),
        (b'["a"]', "is a list"),
        (b"null", "is null"),
    ],
)
async def test_a_body_that_is_not_a_json_object_is_refused_with_the_position(
    client: httpx.AsyncClient, body: bytes, message: str
) -> None:
    response = await client.post("/translate", content=body, headers={"content-type": "application/json"})
    if response.status_code == 422:  # a JSON number that no field accepts
        assert message == "number"
        return
    assert message in problem_of(response, 400, "malformed_body")["detail"]


async def test_an_escaped_surrogate_pair_is_one_character(client: httpx.AsyncClient, service: RoteService) -> None:
    body = b'{"text": "\\ud83d\\ude00 \xf0\x9f\x98\x80"}'
    response = await client.post("/translate", content=body, headers={"content-type": "application/json"})
    assert response.status_code == 200
    assert service.calls[0]["texts"] == ["\N{GRINNING FACE} \N{GRINNING FACE}"]


async def test_a_body_that_is_too_large_is_refused_by_its_declared_length(client: httpx.AsyncClient) -> None:
    response = await client.post("/translate", json={"text": "a" * 3000})
    assert "2000" in problem_of(response, 413, "body_too_large")["detail"].replace(",", "").replace("_", "")


async def test_a_body_that_is_too_large_is_refused_while_it_streams(client: httpx.AsyncClient) -> None:
    received = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal received
        while True:
            received += 1000
            yield b" " * 1000

    response = await client.post("/translate", content=endless(), headers={"content-type": "application/json"})
    problem_of(response, 413, "body_too_large")
    assert received <= 4000


@pytest.mark.parametrize(
    "headers",
    [
        {"content-type": "text/plain"},
        {"content-type": "application/x-www-form-urlencoded"},
        {"content-type": ""},
        {"content-type": "application/json; charset=latin-1"},
        {"content-type": "application/json", "content-encoding": "gzip"},
    ],
)
async def test_a_body_with_another_content_type_is_refused(client: httpx.AsyncClient, headers: dict[str, str]) -> None:
    response = await client.post("/translate", content=b'{"text": "a"}', headers=headers)
    assert "application/json" in problem_of(response, 415, "unsupported_media_type")["detail"]


async def test_json_with_charset_utf_8_is_accepted(client: httpx.AsyncClient) -> None:
    content = json.dumps({"text": "ä"}, ensure_ascii=False).encode()
    response = await client.post(
        "/translate", content=content, headers={"content-type": 'Application/JSON; charset="UTF-8"'}
    )
    assert response.json()["translations"][0]["text"] == "Ä"


@pytest.mark.parametrize("accept", ["text/html", "image/png", "application/json;q=0", "application/xml, text/html"])
async def test_a_client_that_does_not_accept_json_is_refused(client: httpx.AsyncClient, accept: str) -> None:
    response = await client.post("/translate", json={"text": "a"}, headers={"accept": accept})
    assert "application/json" in problem_of(response, 406, "not_acceptable")["detail"]


@pytest.mark.parametrize("accept", ["*/*", "application/*", "text/html, */*;q=0.1", "APPLICATION/JSON; q=0.5", ""])
async def test_a_client_that_accepts_json_among_others_gets_json(client: httpx.AsyncClient, accept: str) -> None:
    response = await client.post("/translate", json={"text": "a"}, headers={"accept": accept})
    assert response.status_code == 200


async def test_an_unknown_path_is_a_problem_that_names_the_closest(client: httpx.AsyncClient) -> None:
    response = await client.post("/translat", json={"text": "a"})
    assert "/translate" in problem_of(response, 404, "not_found")["detail"]


async def test_a_method_that_is_not_allowed_is_a_problem_that_names_the_allowed(client: httpx.AsyncClient) -> None:
    response = await client.get("/translate")
    problem_of(response, 405, "method_not_allowed")
    assert response.headers["allow"] == "POST"
