"""``GET /models``: the loaded models and their limits."""

from __future__ import annotations

import pytest

from app.http.schemas.models import ModelsResponse
from tests.app.serving import RoteService, client_of, rote_app

pytestmark = pytest.mark.anyio


async def test_a_loaded_model_is_listed_with_pairs_limits_licence_and_card() -> None:
    async with client_of(rote_app(RoteService(), max_texts=7, deadline_s=12.0)) as client:
        response = await client.get("/models")
    ModelsResponse.model_validate_json(response.content)
    (model,) = response.json()["models"]
    assert (model["name"], model["precision"], model["device"]) == ("rote", "float32", "cpu")
    assert (model["memory_bytes"], model["in_memory"]) == (1_000_000, True)
    assert model["pairs"] == [["en", "de"], ["de", "en"]]
    assert model["languages"] == ["en", "de", "fr"]
    assert (model["decoding"]["scoring"], model["decoding"]["length_penalty"]) == ("marian", 1.0)
    assert (model["licence"], model["attribution"]) == ("Apache-2.0", ["Nobody"])
    assert (model["limits"]["max_texts"], model["limits"]["deadline_s"]) == (7, 12.0)
    assert (model["limits"]["max_source_tokens"], model["limits"]["max_target_tokens"]) == (64, 64)
    assert set(model["card"]) == {"training", "scores", "precision", "confidence"}
    assert model["card"]["confidence"] == {"calibrated": False}


async def test_the_route_is_not_ready_before_a_model_is_loaded() -> None:
    async with client_of(rote_app(RoteService(state="loading"))) as client:
        response = await client.get("/models")
    assert (response.status_code, response.json()["code"]) == (503, "not_ready")
    assert int(response.headers["retry-after"]) > 0


async def test_without_any_model_the_list_is_empty() -> None:
    async with client_of(rote_app(RoteService(state="empty"))) as client:
        response = await client.get("/models")
    assert (response.status_code, response.json()) == (200, {"models": []})
