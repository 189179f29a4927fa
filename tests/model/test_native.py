"""The compiled decoder against the eager model, and against torch's states: the same logits, the same answers."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from model.decoding.cohort import Cohort
from model.decoding.options import DecodingOptions
from model.decoding.sentence import DecodingRequest, Finished
from model.decoding.state import DecoderState, TorchState
from model.export import script
from model.importing.importer import import_checkpoint
from model.native import library
from model.native.state import NativeModel, NativeState, make_native_model, supports
from model.transformer import Transformer
from model.translator import Translator
from tests.model.importing.checkpoints import make_m2m100, make_marian
from tests.model.importing.checkpoints import random_sources as long_sources
from tests.model.tiny import VOCABULARY, random_sources
from tests.model.torch_layers import randomise, small_config

needs_library = pytest.mark.skipif(library.load_library() is None, reason="no AVX-512 VNNI, or no C++ compiler, here")

ARCHITECTURES: dict[str, dict[str, Any]] = {
    "pre-norm": {"norm": "pre"},
    "post-norm, silu": {"norm": "post", "activation": "silu"},
    "untied, unscaled, halves": {
        "share_embeddings": False,
        "tie_output": False,
        "scale_embedding": False,
        "positions": "halves",
        "target_vocab_size": 37,
    },
    "other heads and width in the decoder, no biases": {
        "decoder_num_heads": 4,
        "decoder_d_ff": 40,
        "attention_bias": False,
        "output_bias": False,
        "positions": "tensor2tensor",
        "position_offset": 2,
    },
}


def transformer(**changes: Any) -> Transformer:
    config = small_config(**{"d_model": 64, "num_heads": 2, **changes})
    made = Transformer(config, 0).eval()
    randomise(made)
    return made


def native(module: Any, **changes: Any) -> NativeModel:
    made = make_native_model(module, small_config(**{"d_model": 64, "num_heads": 2, **changes}))
    assert made is not None
    return made


def run(state: DecoderState, sources: list[list[int]], targets: torch.Tensor, width: int = 1) -> torch.Tensor:
    """Logits after every target token, (n, T, V); all rows of a sentence are fed alike."""
    steps = [state.join(sources, targets[:, :1])[:, 0]]
    for place in range(1, targets.size(1)):
        steps.append(state.step(targets[:, place : place + 1].expand(-1, width))[:, -1])
    return torch.stack(steps, dim=1)


@needs_library
@pytest.mark.parametrize("name", ARCHITECTURES)
@torch.inference_mode()
def test_logits_are_those_of_the_eager_model(name: str) -> None:
    changes = ARCHITECTURES[name]
    eager = transformer(**changes)
    sources = random_sources(9, vocab_size=20, seed=1)
    targets = torch.randint(3, 20, (9, 12), generator=torch.Generator().manual_seed(0))
    found = run(NativeState(native(eager, **changes), 3), sources, targets, width=3)
    for row, source in enumerate(sources):
        expected = eager(torch.tensor([source]), targets[row : row + 1])[0]
        torch.testing.assert_close(found[row], expected, atol=1e-4, rtol=1e-4)


@needs_library
@torch.inference_mode()
def test_int8_is_the_int8_of_torch() -> None:
    scripted = script(transformer(), "int8")
    sources = random_sources(9, vocab_size=20, seed=1)
    targets = torch.randint(3, 20, (9, 12), generator=torch.Generator().manual_seed(0))
    found = run(NativeState(native(scripted), 1), sources, targets)
    expected = run(TorchState(scripted, 1, 0, torch.device("cpu")), sources, targets)
    difference = (found - expected).square().mean().sqrt()
    assert float(difference) < 0.02 * float(expected.std()), "a rounding may fall the other way here and there"


@needs_library
@pytest.mark.parametrize("precision", ["float32", "int8"])
@torch.inference_mode()
def test_a_row_is_the_same_to_the_last_bit_in_any_company(precision: str) -> None:
    scripted = script(transformer(), precision)  # type: ignore[arg-type]
    model = native(scripted)
    sources = random_sources(23, vocab_size=20, seed=2)
    targets = torch.randint(3, 20, (23, 6), generator=torch.Generator().manual_seed(0))
    crowd = run(NativeState(model, 1), sources, targets)
    for row in range(23):
        alone = run(NativeState(model, 1), sources[row : row + 1], targets[row : row + 1])
        assert torch.equal(alone[0], crowd[row])


def decode_together(make: Callable[[int], DecoderState], width: int, vocab_size: int) -> dict[int, Finished]:
    """Sentences that join at different times, while some are taken out."""
    group = Cohort(make(width), VOCABULARY, width, 30, torch.device("cpu"))
    options = DecodingOptions(
        decoding="greedy" if width == 1 else "beam", beam_size=width, num_hypotheses=width, return_scores=True
    )
    sources = random_sources(60, vocab_size=vocab_size, seed=3)
    outcomes: dict[int, Finished] = {}
    waiting = list(enumerate(sources))
    turn = 0
    while waiting or group.num_sentences:
        joining, waiting = waiting[: 1 + turn % 5], waiting[1 + turn % 5 :]
        finished = group.join([DecodingRequest(key, source, options) for key, source in joining])
        finished += group.step()
        if turn % 7 == 3 and group.keys:
            group.leave([group.keys[0]])
        outcomes.update((outcome.key, outcome) for outcome in finished)
        turn += 1
    return outcomes


@needs_library
@pytest.mark.parametrize("width", [1, 2, 5])
def test_a_cohort_gives_the_answers_it_gives_with_torch(width: int) -> None:
    eager = transformer()
    model = native(eager)
    found = decode_together(lambda k: NativeState(model, k), width, 20)
    expected = decode_together(lambda k: TorchState(eager, k, 0, torch.device("cpu")), width, 20)
    assert found.keys() == expected.keys()
    assert len(found) > 40
    for key, outcome in found.items():
        one, other = outcome.hypothesis, expected[key].hypothesis
        assert one is not None and other is not None
        for ours, theirs in zip((one, *one.alternatives), (other, *other.alternatives), strict=True):
            assert ours.token_ids == theirs.token_ids
            assert ours.score == pytest.approx(theirs.score, abs=1e-4)


@needs_library
@pytest.mark.parametrize("family", ["marian", "m2m100"])
def test_an_imported_model_gives_the_answers_it_gives_with_torch(family: str, tmp_path: Path) -> None:
    (make_marian if family == "marian" else make_m2m100)(tmp_path, d_model=64)
    import_checkpoint(tmp_path, tmp_path / "bundle.pt", "float32", report=lambda line: None)
    translator = Translator.load(tmp_path / "bundle.pt")
    assert translator._native is not None
    sources = long_sources(200, translator.manifest.architecture["source_vocab_size"], translator._tokenizer.end_id)
    options = DecodingOptions(num_hypotheses=4, max_new_tokens=15, return_scores=True)
    target = "de" if family == "m2m100" else None
    found = translator.translate_tokens(sources, options, target)
    translator._native = None
    ties = 0
    for one, other in zip(found, translator.translate_tokens(sources, options, target), strict=True):
        for ours, theirs in zip((one, *one.alternatives), (other, *other.alternatives), strict=True):
            assert ours.score == pytest.approx(theirs.score, abs=1e-4)
            ties += ours.token_ids != theirs.token_ids
    assert ties <= 4


@needs_library
@pytest.mark.parametrize("source", [[20, 2], [-1, 2], [3] * 41, []], ids=["beyond", "negative", "too long", "empty"])
def test_what_the_model_has_no_row_for_is_refused(source: list[int]) -> None:
    state = NativeState(native(transformer()), 1)
    with pytest.raises(IndexError, match="the model does not have"):
        state.join([source], torch.tensor([[1]]))


@needs_library
def test_an_answer_longer_than_the_positions_is_refused() -> None:
    state = NativeState(native(transformer(max_positions=4), max_positions=4), 1)
    state.join([[3, 2]], torch.tensor([[1]]))
    for _ in range(3):
        state.step(torch.tensor([[5]]))
    with pytest.raises(IndexError, match="the model does not have"):
        state.step(torch.tensor([[5]]))


@pytest.mark.parametrize(
    "changes", [{"activation": "gelu"}, {"embedding_norm": True}, {"num_heads": 8}, {"decoder_num_heads": 8}], ids=str
)
def test_what_the_library_does_not_know_is_left_to_torch(changes: dict[str, Any]) -> None:
    config = small_config(**{"d_model": 64, "num_heads": 2, **changes})
    assert not supports(config)
    assert make_native_model(Transformer(config, 0), config) is None


@pytest.fixture
def _fresh_library(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(library, "_processor_fits", lambda: True)
    monkeypatch.setattr(library, "_FLAGS", ("-DANOTHER",))  # a library of this name was never built
    library.load_library.cache_clear()
    yield
    library.load_library.cache_clear()


@pytest.mark.usefixtures("_fresh_library")
def test_without_a_compiler_torch_decodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert library.load_library() is None


@pytest.mark.usefixtures("_fresh_library")
def test_a_compiler_that_fails_is_named_and_torch_decodes(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: "/bin/false")
    with caplog.at_level(logging.WARNING, logger="model.native"):
        assert library.load_library() is None
    assert "/bin/false" in caplog.text
    assert "torch decodes" in caplog.text
