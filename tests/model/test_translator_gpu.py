"""A translator on a GPU answers as on the CPU, and is warm before it is asked."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from model.network.heads import AttentionHead
from model.translation.options import TranslationOptions
from model.translator import Translator
from tests.simulated_gpu.device import Device
from tests.toy import WORDS

pytestmark = pytest.mark.thorough

TEXTS = ["red cat sees old dog.", "house.", "the tree likes the house."]


@pytest.fixture(scope="module")
def on_cpu(toy_bundle: Path) -> Translator:
    return Translator.load(toy_bundle, native=False)


@pytest.fixture
def on_gpu(gpu: Device | None, toy_bundle: Path) -> Iterator[Translator]:
    yield Translator.load(toy_bundle, "cuda")
    torch.cuda.synchronize()  # before its memory is freed


@pytest.mark.sampled(2)
@pytest.mark.parametrize("decoding", ["greedy", "beam"])
def test_texts_alignment_and_confidence_are_those_of_the_cpu(
    decoding: str, on_gpu: Translator, on_cpu: Translator
) -> None:
    options = TranslationOptions(decoding="greedy" if decoding == "greedy" else "beam", return_scores=True)
    assert on_gpu.backend.name == "slots"
    actual, expected = (
        first.translate(TEXTS, options, "en", "de", return_alignment=True, return_confidence=True)
        for first in (on_gpu, on_cpu)
    )
    assert [first.text for first in actual] == [first.text for first in expected]
    for first, other in zip(actual, expected, strict=True):
        assert first.alignment and first.alignment == other.alignment
        assert first.confidence is not None and other.confidence is not None
        assert first.confidence.score == pytest.approx(other.confidence.score, abs=1e-3)
        assert first.score == pytest.approx(other.score, abs=1e-3)


@pytest.mark.parametrize("target_text", [None, "rot Haus."])
def test_attention_and_its_steps_are_those_of_the_cpu(
    target_text: str | None, on_gpu: Translator, on_cpu: Translator
) -> None:
    head = AttentionHead("cross", 0, 1)
    actual, expected = (
        item.attention(TEXTS[0], source="en", target="de", target_text=target_text, steps=head)
        for item in (on_gpu, on_cpu)
    )
    assert (actual.translation, actual.target_tokens) == (expected.translation, expected.target_tokens)
    for name in ("encoder", "decoder", "cross"):
        torch.testing.assert_close(getattr(actual, name), getattr(expected, name), atol=1e-4, rtol=1e-3)
    assert actual.steps is not None and expected.steps is not None
    for name, step in expected.steps.items():
        torch.testing.assert_close(actual.steps[name].cpu(), step, atol=1e-4, rtol=1e-3)


@pytest.mark.slow
def test_nothing_is_captured_for_ordinary_sentences_once_it_is_warm(gpu: Device | None, on_gpu: Translator) -> None:
    on_gpu.warm_up([1, 4])
    graphs = on_gpu.backend.graphs
    assert graphs is not None and graphs.are_on
    captured = graphs.num_captures
    assert captured > 0
    rng = random.Random(0)
    for number in (1, 2, 5) if gpu is not None else (1, 2, 3, 5, 8, 13, 30):
        texts = [" ".join(rng.choices(list(WORDS), k=rng.randint(1, 6))) + "." for _ in range(number)]
        for options in (
            TranslationOptions("greedy"),
            TranslationOptions("greedy", return_scores=True),
            TranslationOptions(),
        ):
            on_gpu.translate(texts, options, "en", "de")
    assert graphs.num_captures == captured
    assert graphs.num_failures == 0


@pytest.mark.slow
def test_thousands_of_sentences_leave_the_memory_as_it_was(gpu: Device | None, on_gpu: Translator) -> None:
    on_gpu.warm_up([4])
    rng = random.Random(0)

    def translate(number: int) -> int:
        """Translate texts; bytes that are not free afterwards."""
        texts = [" ".join(rng.choices(list(WORDS), k=rng.randint(1, 8))) + "." for _ in range(number)]
        on_gpu.translate(texts, TranslationOptions(return_alignment=True), "en", "de")
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        free_bytes, total_bytes = torch.cuda.mem_get_info()
        return total_bytes - free_bytes

    number, rounds = (1000, 5) if gpu is None else (20, 2)
    before = translate(number)
    after = [translate(number) for _ in range(rounds)]
    assert max(after) <= before + 64 * 2**20
