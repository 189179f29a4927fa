"""``POST /attention``: the selected weights and their formats."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator
from typing import Any

import httpx
import numpy as np
import pytest
import torch

from app.http.schemas.attention import AttentionResponse
from app.serving.detection import Detection
from model.errors import EmptySource, SeveralSentences, SourceTooLong, UnknownHead
from model.network.heads import AttentionHead
from tests.app.serving import RoteService, client_of, random_weights, rote_app, rote_steps

pytestmark = pytest.mark.anyio


HEAD = {"kind": "cross", "layer": 1, "head": 3}


@pytest.fixture
async def client(service: RoteService) -> AsyncIterator[httpx.AsyncClient]:
    app = rote_app(service, max_attention_cells=2000)
    async with client_of(app) as client:
        yield client
    await app.state.pictures.close()


async def ask(client: httpx.AsyncClient, accept: str = "application/json", **body: Any) -> httpx.Response:
    return await client.post("/attention", json={"text": "the old house", **body}, headers={"accept": accept})


async def test_json_holds_tokens_translation_and_cross_attention_of_all_layers_and_heads(
    client: httpx.AsyncClient,
) -> None:
    response = await ask(client)
    assert response.headers["content-type"] == "application/json"
    answer = AttentionResponse.model_validate_json(response.content)
    assert answer.source_tokens == ["the", "old", "house"]
    assert answer.target_tokens == ["THE", "OLD", "HOUSE"]
    assert answer.decoder_input_tokens == ["<s>", "THE", "OLD"]
    assert (answer.translation, answer.model) == ("THE OLD HOUSE", "rote")
    assert answer.cross is not None and answer.encoder is None and answer.decoder is None
    assert (answer.cross.layers, answer.cross.heads, answer.cross.averaged) == ([0, 1], [0, 1, 2, 3], False)
    np.testing.assert_allclose(answer.cross.weights, random_weights(2, 4, 3, 3), atol=1e-6)
    np.testing.assert_allclose(np.sum(answer.cross.weights, axis=-1), 1.0, atol=1e-5)


async def test_each_kind_has_the_shape_of_its_two_sentences(client: httpx.AsyncClient) -> None:
    answer = (await ask(client, target_text="das haus", kinds=["encoder", "decoder", "cross"])).json()
    assert np.shape(answer["encoder"]["weights"]) == (6, 4, 3, 3)
    assert np.shape(answer["decoder"]["weights"]) == (2, 4, 2, 2)
    assert np.shape(answer["cross"]["weights"]) == (2, 4, 2, 3)


@pytest.mark.parametrize("choice", [{}, {"layers": [1]}, {"heads": [3], "average_heads": True}], ids=str)
async def test_a_recurrent_decoder_has_empty_self_attention(
    client: httpx.AsyncClient, service: RoteService, choice: dict[str, Any]
) -> None:
    service.decoder_heads = 0
    answer = (await ask(client, kinds=["decoder", "cross"], **choice)).json()
    assert answer["decoder"] == {"layers": [], "heads": [], "averaged": False, "weights": []}
    assert answer["cross"]["weights"]
    archive = np.load(io.BytesIO((await ask(client, "application/x-npz", kinds=["decoder"], **choice)).content))
    assert archive["decoder"].shape[:2] == (0, 0)


async def test_a_picture_of_the_self_attention_of_a_recurrent_decoder_is_refused(
    client: httpx.AsyncClient, service: RoteService
) -> None:
    service.decoder_heads = 0
    response = await ask(client, "image/png", kinds=["decoder"])
    assert response.status_code == 422
    (problem,) = response.json()["errors"]
    assert problem["field"] == "kinds[0]" and "recurrent" in problem["message"]


async def test_layers_and_heads_are_returned_in_the_requested_order(client: httpx.AsyncClient) -> None:
    cross = (await ask(client, layers=[1], heads=[3, 0])).json()["cross"]
    assert (cross["layers"], cross["heads"]) == ([1], [3, 0])
    np.testing.assert_allclose(cross["weights"], random_weights(2, 4, 3, 3)[[1]][:, [3, 0]], atol=1e-6)


async def test_averaged_heads_are_the_mean_of_the_requested_heads(client: httpx.AsyncClient) -> None:
    cross = (await ask(client, heads=[1, 2], average_heads=True)).json()["cross"]
    assert (cross["heads"], cross["averaged"]) == ([1, 2], True)
    expected = random_weights(2, 4, 3, 3)[:, 1:3].mean(dim=1, keepdim=True)
    np.testing.assert_allclose(cross["weights"], expected, atol=1e-6)


async def test_a_given_translation_is_used_instead_of_a_decoded_one(
    client: httpx.AsyncClient, service: RoteService
) -> None:
    answer = (await ask(client, target_text="das alte haus", decoding="greedy")).json()
    assert answer["translation"] == "das alte haus"
    assert service.calls[0]["target_text"] == "das alte haus"
    assert service.calls[0]["options"].decoding == "greedy"


async def test_a_detected_language_is_returned(client: httpx.AsyncClient, service: RoteService) -> None:
    assert (await ask(client)).json()["detected"] is None
    service.detected = Detection("en", 0.75, ("en",))
    assert (await ask(client, source="auto")).json()["detected"] == {"language": "en", "confidence": 0.75}
    response = await ask(client, "application/x-npz", source="auto")
    with np.load(io.BytesIO(response.content), allow_pickle=False) as arrays:
        assert str(arrays["detected_language"]) == "en"
        assert float(arrays["detected_confidence"]) == 0.75


async def test_npz_holds_the_same_arrays_and_nothing_pickled(client: httpx.AsyncClient) -> None:
    response = await ask(client, "application/x-npz", kinds=["encoder", "cross"], layers=[1])
    assert response.headers["content-type"] == "application/x-npz"
    with np.load(io.BytesIO(response.content), allow_pickle=False) as arrays:
        assert set(arrays) == {
            "source_tokens",
            "target_tokens",
            "decoder_input_tokens",
            "translation",
            "encoder",
            "encoder_layers",
            "encoder_heads",
            "cross",
            "cross_layers",
            "cross_heads",
        }
        assert arrays["source_tokens"].tolist() == ["the", "old", "house"]
        assert str(arrays["translation"]) == "THE OLD HOUSE"
        assert arrays["cross"].dtype == np.float32
        np.testing.assert_array_equal(arrays["cross"], random_weights(2, 4, 3, 3)[[1]])
        assert (arrays["cross_layers"].tolist(), arrays["encoder_heads"].tolist()) == ([1], [0, 1, 2, 3])


async def test_json_holds_the_steps_of_a_head(client: httpx.AsyncClient, service: RoteService) -> None:
    response = await ask(client, target_text="das haus", steps=HEAD)
    assert service.calls[0]["steps"] == AttentionHead("cross", 1, 3)
    answer = AttentionResponse.model_validate_json(response.content)
    assert answer.steps is not None
    assert (answer.steps.kind, answer.steps.layer, answer.steps.head) == ("cross", 1, 3)
    steps = response.json()["steps"]
    expected = rote_steps(2, 3)
    assert list(steps) == ["kind", "layer", "head", *expected]  # a model's steps that it does not have are no keys
    for name, values in expected.items():
        actual = np.array(steps[name], dtype=np.float64)  # null becomes NaN
        np.testing.assert_allclose(actual, values.masked_fill(values.isinf(), torch.nan), atol=1e-6)
    assert [row[-1] for row in steps["masked"]] == [None, None]


async def test_the_numbers_of_steps_count_towards_the_limit_of_json(client: httpx.AsyncClient) -> None:
    body: dict[str, Any] = {"text": "word " * 14, "layers": [0], "heads": [0]}  # 196 weights
    assert (await ask(client, **body)).status_code == 200
    response = await ask(client, **body, steps=HEAD)  # 8 x 14 x 8 + 4 x 14 x 4 + 3 x 14 x 14 = 1708
    assert response.status_code == 200
    response = await ask(client, **{**body, "text": "word " * 16}, steps=HEAD)  # 256 + 1024 + 256 + 768 = 2304
    assert (response.status_code, response.json()["code"]) == (422, "limit_exceeded")
    for output in ("2304", "2000", "2048", "steps", "application/x-npz"):
        assert output in response.json()["detail"].replace(",", "")
    assert (await ask(client, "application/x-npz", **{**body, "text": "word " * 16}, steps=HEAD)).status_code == 200


@pytest.mark.parametrize("choice", [{}, {"layers": [0], "heads": [2]}, {"average_heads": True, "kinds": ["encoder"]}])
async def test_png_is_a_picture(client: httpx.AsyncClient, choice: dict[str, Any]) -> None:
    response = await ask(client, "image/png", **choice)
    assert response.headers["content-type"] == "image/png"
    assert response.content.startswith(b"\x89PNG\r\n\x1a\n")


@pytest.mark.parametrize("choice", [{"kinds": ["encoder", "cross"]}, {"layers": [0, 1]}, {"steps": HEAD}])
async def test_a_picture_of_more_than_one_layer_or_kind_or_of_steps_is_refused(
    client: httpx.AsyncClient, service: RoteService, choice: dict[str, Any]
) -> None:
    response = await ask(client, "image/png", **choice)
    assert response.status_code == 422
    assert [entry["field"] for entry in response.json()["errors"]] == list(choice)
    assert service.calls == []


@pytest.mark.parametrize(
    ("accept", "media_type"),
    [
        ("*/*", "application/json"),
        ("image/*", "image/png"),
        ("application/x-npz, application/json;q=0.5", "application/x-npz"),
        ("image/png, */*;q=0.8", "image/png"),
        ("image/png, */*", "image/png"),
        ("application/json;q=0, */*", "application/x-npz"),
    ],
)
async def test_the_accept_header_selects_the_format(client: httpx.AsyncClient, accept: str, media_type: str) -> None:
    assert (await ask(client, accept)).headers["content-type"] == media_type


async def test_a_client_that_accepts_no_format_is_refused_with_all_formats(client: httpx.AsyncClient) -> None:
    response = await ask(client, "image/jpeg")
    assert (response.status_code, response.json()["code"]) == (406, "not_acceptable")
    for media_type in ("application/json", "application/x-npz", "image/png"):
        assert media_type in response.json()["detail"]


async def test_a_json_response_over_the_limit_is_refused_with_smaller_formats(client: httpx.AsyncClient) -> None:
    body: dict[str, Any] = {"text": "word " * 20, "kinds": ["encoder"]}  # 6 layers x 4 heads x 20 x 20 = 9600 weights
    response = await ask(client, **body)
    assert (response.status_code, response.json()["code"]) == (422, "limit_exceeded")
    for output in ("9600", "2000", "average_heads", "application/x-npz"):
        assert output in response.json()["detail"].replace(",", "")
    assert (await ask(client, "application/x-npz", **body)).status_code == 200
    assert (await ask(client, **body, layers=[0])).status_code == 200


@pytest.mark.parametrize(
    ("choice", "field", "bound"),
    [
        ({"steps": {"kind": "self", "layer": 0, "head": 0}}, "steps.kind", None),
        ({"steps": {"kind": "cross", "layer": -1, "head": 0}}, "steps.layer", 0),
        ({"steps": {"kind": "cross", "layer": 0, "head": 0, "heads": 1}}, "steps.heads", None),
        ({"steps": {"kind": "cross", "layer": 0}}, "steps.head", None),
        ({"layers": [2]}, "layers[0]", 1),
        ({"heads": [0, 9]}, "heads[1]", 3),
        ({"layers": [-1]}, "layers[0]", 0),
        ({"kinds": ["self"]}, "kinds[0]", None),
        ({"kinds": []}, "kinds", None),
        ({"head": [1]}, "head", None),
    ],
)
async def test_a_layer_head_or_kind_that_does_not_exist_is_named(
    client: httpx.AsyncClient, choice: dict[str, Any], field: str, bound: int | None
) -> None:
    response = await ask(client, **choice)
    assert response.status_code == 422
    (entry,) = response.json()["errors"]
    assert entry["field"] == field
    assert bound is None or entry["bound"] == bound


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (SeveralSentences(2), "several_sentences"),
        (SourceTooLong(300, 256), "source_too_long"),
        (EmptySource(), "empty_source"),
        (UnknownHead("cross", "layer", 2, 2), "unknown_head"),
    ],
)
async def test_a_text_without_attention_is_refused_with_a_reason(
    client: httpx.AsyncClient, service: RoteService, error: Exception, code: str
) -> None:
    service.request_error = error
    response = await ask(client)
    assert (response.status_code, response.json()["code"]) == (422, code)
    assert response.json()["detail"] == str(error)
