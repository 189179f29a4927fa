"""The choice of a back-end and its reason."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from model.decoding.backend import Backend, ModelToDecode, choose_backend, preferred_backend
from model.decoding.native import library, packed
from model.decoding.options import DecodingOptions
from model.decoding.policy import DecodingPolicy
from model.decoding.sentence import DecodingRequest
from model.network.config import ModelConfig
from tests.model.tiny import VOCABULARY, tiny_transformer


@pytest.fixture
def model() -> ModelToDecode:
    # The library needs a head width of 16 or 32; no test here runs it.
    config = ModelConfig(source_vocab_size=12, target_vocab_size=12, d_model=32, num_heads=2)
    return ModelToDecode(
        tiny_transformer(), VOCABULARY, DecodingPolicy(), config.to_dict(), "float32", 60, torch.device("cpu")
    )


def greedy_answer(chosen: Backend) -> list[int]:
    cohort = chosen.cohort(1)
    finished = cohort.join([DecodingRequest(0, [3, 4, 5, 2], DecodingOptions(decoding="greedy"))])
    while not finished:
        finished = cohort.step()
    assert finished[0].hypothesis is not None
    return finished[0].hypothesis.token_ids


def test_slots_and_eager_give_equal_outputs_and_the_reason_of_their_choice(model: ModelToDecode) -> None:
    slots, eager = choose_backend(model, slots=True), choose_backend(model, native=False)
    assert (slots.name, eager.name) == ("slots", "eager")
    assert slots.reason == "requested"
    assert eager.reason == "not slots, because the model is not on a GPU; not native, because it is switched off"
    assert greedy_answer(slots) == greedy_answer(eager)


@pytest.mark.parametrize(
    ("changes", "unavailable", "reason"),
    [
        ({"precision": "float16"}, None, "it computes in float32, bfloat16 or int8, and the bundle is in float16"),
        (
            {"architecture": {"norm": "residual-post"}},
            None,
            "the norm is residual-post, and the compiled decoder has pre and post",
        ),
        ({}, "there is no compiler", "there is no compiler"),
    ],
    ids=["precision", "architecture", "library"],
)
def test_the_reason_against_the_compiled_library_is_named(
    model: ModelToDecode,
    changes: dict[str, object],
    unavailable: str | None,
    reason: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(packed, "find_library", lambda: library.Availability(reason=unavailable))
    if "architecture" in changes:
        changes = {"architecture": {**model.architecture, **changes["architecture"]}}  # type: ignore[dict-item]
    chosen = choose_backend(replace(model, **changes), slots=False)  # type: ignore[arg-type]
    assert chosen.name == "eager"
    assert chosen.reason == f"not slots, because they are switched off; not native, because {reason}"


def test_a_bundle_without_a_slot_step_is_decoded_eagerly(model: ModelToDecode) -> None:
    old: Any = torch.nn.Identity()
    chosen = choose_backend(replace(model, module=old), slots=True)
    assert chosen.name == "eager"
    assert "export it again" in chosen.reason and "slots were requested" in chosen.reason


def test_the_back_end_for_a_gpu_can_be_predicted_without_one(model: ModelToDecode) -> None:
    gpu = torch.device("cuda")
    result = preferred_backend(model.architecture, "float16", gpu)
    assert (result.name, result.reason) == ("slots", "the fastest on a GPU")
    old = preferred_backend(model.architecture, "float16", gpu, has_slots=False)
    assert old.name == "eager" and "export it again" in old.reason and "not on the CPU" in old.reason
