"""``target_prefix`` and ``return_search`` through the whole service, with a trained model."""

from __future__ import annotations

import io
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from app.http.schemas.translation import TranslateResponse
from app.main import create_app
from app.settings import Settings
from tests.app.fakes import BUDGET
from tests.app.serving import client_of
from tests.app.test_translate_route import problem_of

pytestmark = pytest.mark.anyio

SENTENCE = "red cat sees old dog."
ANSWER = "rot Katze sieht alt Hund."
CANDIDATE = {"id", "parent", "token", "text", "log_prob", "kept", "finished"}


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def client(toy_bundle: Path) -> AsyncIterator[httpx.AsyncClient]:
    app = create_app(Settings(**BUDGET, model=str(toy_bundle), device="cpu", threads=1))
    async with app.router.lifespan_context(app), client_of(app) as client:
        await app.state.service.wait_loaded()
        yield client


async def post(client: httpx.AsyncClient, accept: str = "application/json", **fields: Any) -> httpx.Response:
    body = {"text": SENTENCE, "source": "en", "target": "de", **fields}
    return await client.post("/translate", json=body, headers={"accept": accept})


async def entry(client: httpx.AsyncClient, **fields: Any) -> dict[str, Any]:
    response = await post(client, **fields)
    assert response.status_code == 200, response.text
    TranslateResponse.model_validate_json(response.content)
    (result,) = response.json()["translations"]
    assert isinstance(result, dict)
    return result


@pytest.mark.parametrize("decoding", ["greedy", "beam"])
async def test_the_answer_begins_with_every_prefix_of_itself_and_continues_identically(
    client: httpx.AsyncClient, decoding: str
) -> None:
    plain = await entry(client, decoding=decoding)
    assert plain["text"] == ANSWER
    words = ANSWER.removesuffix(".").split()
    for number in range(1, len(words) + 1):
        assert await entry(client, decoding=decoding, target_prefix=" ".join(words[:number])) == plain


async def test_another_word_steers_the_answer_and_its_alternatives(client: httpx.AsyncClient) -> None:
    result = await entry(client, target_prefix="Hund", num_hypotheses=3, return_scores=True)
    texts = [result["text"], *(other["text"] for other in result["alternatives"])]
    assert len(texts) == 3 and all(text.startswith("Hund") for text in texts)
    scores = [result["score"], *(other["score"] for other in result["alternatives"])]
    assert scores == sorted(scores, reverse=True)


async def test_a_list_of_one_text_and_a_detected_language_are_fine(client: httpx.AsyncClient) -> None:
    result = await entry(client, text=[SENTENCE], target_prefix="Hund")
    assert result["text"].startswith("Hund")
    text = "The old dog likes the house."
    detected = await entry(client, text=text, source="auto", target_prefix="Hund")
    assert detected["text"].startswith("Hund") and detected["detected"]["language"] == "en"


@pytest.mark.parametrize("prefix", [None, ""])
async def test_without_the_new_fields_nothing_changes(client: httpx.AsyncClient, prefix: str | None) -> None:
    plain = await entry(client)
    assert "search" not in plain
    assert await entry(client, target_prefix=prefix, return_search=False) == plain


@pytest.mark.parametrize("accept", ["application/x-ndjson", "text/event-stream"])
async def test_streams_begin_with_the_prefix_and_have_the_search(client: httpx.AsyncClient, accept: str) -> None:
    request: dict[str, Any] = {"target_prefix": "Hund", "return_search": True}
    full = await entry(client, **request)
    response = await post(client, accept, **request)
    lines = [line.removeprefix("data:").strip() for line in response.text.splitlines() if "{" in line]
    sentence, translation, finished = map(json.loads, lines)
    assert sentence["translation"] == full["text"] and full["text"].startswith("Hund")
    assert translation["translation"] == full
    assert finished["usage"]["target_tokens"] > 0


async def test_the_search_shows_how_the_answer_was_found(client: httpx.AsyncClient) -> None:
    result = await entry(client, target_prefix="rot Katze", return_search=True, beam_size=3)
    assert [step["step"] for step in result["search"]] == list(range(len(result["search"])))
    candidates = {hypothesis["id"]: hypothesis for step in result["search"] for hypothesis in step["hypotheses"]}
    assert all(item.keys() == CANDIDATE for item in candidates.values())
    texts = {0: "rot Katze"}
    for candidate in candidates.values():
        texts[candidate["id"]] = texts[candidate["parent"]] + candidate["text"]
        if candidate["parent"]:
            assert candidates[candidate["parent"]]["kept"] and not candidates[candidate["parent"]]["finished"]
            assert candidate["log_prob"] <= candidates[candidate["parent"]]["log_prob"]
    assert result["text"] == ANSWER
    assert ANSWER in {texts[item["id"]] for item in candidates.values() if item["finished"] and item["kept"]}
    for step in result["search"]:
        log_probs = [item["log_prob"] for item in step["hypotheses"]]
        assert log_probs == sorted(log_probs, reverse=True)


@pytest.mark.parametrize(
    ("fields", "field", "message"),
    [
        ({"target_prefix": "rot "}, "target_prefix", "has leading or trailing whitespace; remove it"),
        ({"target_prefix": " rot"}, "target_prefix", "has leading or trailing whitespace; remove it"),
        ({"target_prefix": "r" * 2001}, "target_prefix", "must be at most 2000 characters long"),
        ({"target_prefix": "a\0b"}, "target_prefix", "contains the NUL character at 1"),
        ({"target_prefix": 7}, "target_prefix", "must be a string"),
        ({"return_search": 1}, "return_search", "must be true or false"),
        (
            {"text": ["red.", "cat."], "target_prefix": "rot"},
            "text",
            "with target_prefix it must have one",
        ),
        (
            {"text": ["red.", "cat."], "return_search": True},
            "text",
            "has 2 texts; with return_search it must have one",
        ),
    ],
)
async def test_a_wrong_field_is_refused_and_named(
    client: httpx.AsyncClient, fields: dict[str, Any], field: str, message: str
) -> None:
    problem = problem_of(await post(client, **fields), 422, "invalid_request")
    (error,) = problem["errors"]
    assert error["field"] == field
    assert message in error["message"]


@pytest.mark.parametrize(
    ("fields", "code", "detail"),
    [
        ({"text": "red cat. old dog."}, "several_sentences", "2 sentences and target_prefix is defined for one"),
        ({"text": "12"}, "several_sentences", "no sentence with letters"),
        ({"text": " "}, "empty_source", "empty or only whitespace"),
        ({"format": "html"}, "invalid_options", "target_prefix needs format 'text'"),
        ({"target_prefix": "rot ½"}, "invalid_prefix", "would write 'rot 1⁄2'"),
        ({"target_prefix": "rot  Katze"}, "invalid_prefix", "would write 'rot Katze'"),
        ({"target_prefix": "rot " * 70 + "rot"}, "invalid_prefix", "has 71 tokens and may have 63"),
        ({"text": "- red cat."}, "invalid_prefix", "begins with '- '"),
        ({"text": "Die alte Katze sieht einen Hund.", "source": "auto"}, "detected_pair_not_served", "'de'"),
        ({"text": "12", "source": "auto"}, "language_not_detected", "Loaded"),
    ],
)
async def test_what_cannot_be_begun_is_refused_with_its_reason(
    client: httpx.AsyncClient, fields: dict[str, Any], code: str, detail: str
) -> None:
    problem = problem_of(await post(client, **{"target_prefix": "rot", **fields}), 422, code)
    assert detail in problem["detail"]


async def test_a_search_of_several_sentences_is_refused(client: httpx.AsyncClient) -> None:
    problem = problem_of(await post(client, text="red cat. old dog.", return_search=True), 422, "several_sentences")
    assert "return_search is defined for one" in problem["detail"]


async def attention(client: httpx.AsyncClient, accept: str = "application/json", **fields: Any) -> httpx.Response:
    body = {"text": SENTENCE, "source": "en", "target": "de", **fields}
    return await client.post("/attention", json=body, headers={"accept": accept})


async def test_attention_is_that_of_the_steered_translation(client: httpx.AsyncClient) -> None:
    request: dict[str, Any] = {"target_prefix": "Hund", "return_search": True, "decoding": "greedy"}
    body = (await attention(client, **request)).json()
    translation = await entry(client, **request)
    assert body["translation"] == translation["text"]
    assert body["search"] == translation["search"]
    chosen = [hypothesis["token"] for step in body["search"] for hypothesis in step["hypotheses"]]
    assert body["target_tokens"][-len(chosen) :] == chosen
    assert "search" not in (await attention(client)).json()


async def test_the_archive_has_the_search_as_json_and_a_picture_has_none(client: httpx.AsyncClient) -> None:
    response = await attention(client, "application/x-npz", return_search=True)
    with np.load(io.BytesIO(response.content), allow_pickle=False) as archive:
        steps = json.loads(str(archive["search"]))
    assert steps == (await attention(client, return_search=True)).json()["search"]
    problem = problem_of(await attention(client, "image/png", return_search=True), 422, "invalid_request")
    assert problem["errors"][0]["field"] == "return_search"


async def test_a_whole_translation_and_its_beginning_contradict_each_other(client: httpx.AsyncClient) -> None:
    for fields in ({"target_prefix": "rot"}, {"return_search": True}):
        response = await attention(client, target_text="rot Katze.", **fields)
        problem = problem_of(response, 422, "invalid_options")
        assert f"{next(iter(fields))} is for one that the model writes" in problem["detail"]


@pytest.mark.parametrize(("name", "value"), [("target_prefix", "rot"), ("return_search", "true")])
async def test_documents_refuse_what_is_for_one_sentence(client: httpx.AsyncClient, name: str, value: str) -> None:
    response = await client.post(
        "/documents", files={"file": ("a.txt", b"red cat.")}, data={"source": "en", "target": "de", name: value}
    )
    (error,) = problem_of(response, 422, "invalid_request")["errors"]
    assert error["field"] == name
    assert "needs one text of a single sentence; send it to /translate" in error["message"]
