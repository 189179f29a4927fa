"""A toy translator with a recurrent decoder, from training to answers: every form, precision and back-end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from model import TranslationOptions, Translator
from model.artifacts.bundle import load_bundle
from model.artifacts.checkpoint import load_checkpoint
from model.artifacts.convert import convert_bundle
from model.artifacts.export import export_bundle
from model.decoding.native import library
from model.errors import UnknownHead
from model.network.heads import AttentionHead
from model.network.quantised import int8_is_supported
from tests.toy import WORDS, train_toy

PRECISIONS: list[Any] = ["float32", "bfloat16", "float16", *(["int8"] if int8_is_supported() else [])]
TEXTS = ["red cat sees old dog.", "tree likes house.", "dog."]
CHOICES: list[dict[str, Any]] = [{}, {"native": False}, {"slots": True}]
"""Arguments of translators: the compiled decoder where it can be used, torch step by step, and slots."""

EXPECTED = [" ".join(WORDS[word] for word in text[:-1].split()) + "." for text in TEXTS]

needs_library = pytest.mark.skipif(library.load_library() is None, reason="the compiled decoder cannot be used here")


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train_toy(tmp_path_factory.mktemp("recurrent"), recurrent=True)


@pytest.fixture(scope="module")
def bundles(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, Path]]:
    """The bundles of each precision: TorchScript, and data only."""
    folder = tmp_path_factory.mktemp("bundles")
    forms = {}
    for precision in PRECISIONS:
        scripted, data = folder / f"{precision}.pt", folder / f"{precision}.verso"
        export_bundle(load_checkpoint(checkpoint), precision, scripted, report=lambda line: None)
        convert_bundle(scripted, data)
        forms[precision] = (scripted, data)
    return forms


def translated(translator: Translator, **options: Any) -> list[str]:
    return [result.text for result in translator.translate(TEXTS, TranslationOptions(**options), target="de")]


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("form", [0, 1], ids=["TorchScript", "data"])
def test_a_trained_translator_answers_in_every_precision_and_form(
    bundles: dict[str, tuple[Path, Path]], precision: str, form: int
) -> None:
    for choice in CHOICES:
        translator = Translator(load_bundle(bundles[precision][form]), **choice)
        for options in ({"decoding": "greedy"}, {"beam_size": 4}):
            assert translated(translator, **options) == EXPECTED, (options, choice)


@needs_library
@pytest.mark.parametrize("decoding", ["greedy", "beam"])
def test_every_back_end_gives_the_same_scores_searches_alignment_and_confidence(
    bundles: dict[str, tuple[Path, Path]], decoding: Any
) -> None:
    answers = []
    for choice in CHOICES[:2]:
        translator = Translator(load_bundle(bundles["float32"][1]), **choice)
        options = TranslationOptions(decoding, return_scores=True, return_search=True)
        answers.append(translator.translate(TEXTS, options, target="de", return_alignment=True, return_confidence=True))
    for own, theirs in zip(*answers, strict=True):
        assert own.text == theirs.text
        assert own.score == pytest.approx(theirs.score, abs=1e-4)
        assert own.search is not None and theirs.search is not None
        assert [len(step) for step in own.search] == [len(step) for step in theirs.search]
        assert [link.target for link in own.alignment or ()] == [link.target for link in theirs.alignment or ()]
        assert own.confidence is not None and theirs.confidence is not None
        assert own.confidence.score == pytest.approx(theirs.confidence.score, abs=1e-3)


def test_its_attention_has_no_heads_in_the_decoder_and_a_row_for_each_choice(
    bundles: dict[str, tuple[Path, Path]],
) -> None:
    translator = Translator.load(bundles["float32"][1])
    attention = translator.attention(TEXTS[0], target="de", steps=AttentionHead("cross", 0, 1))
    length = len(attention.target_tokens)
    assert attention.decoder.shape == (1, 0, length, length)
    assert attention.cross.shape == (1, 2, length, len(attention.source_tokens))
    torch.testing.assert_close(attention.cross.sum(-1), torch.ones(1, 2, length))
    assert attention.decoder_input_tokens == ["", *attention.target_tokens[:-1]]
    assert attention.steps is not None
    assert not attention.steps["embedding"][0].any(), "the first input is zero"
    with pytest.raises(UnknownHead, match="the decoder of this model is recurrent"):
        translator.attention(TEXTS[0], target="de", steps=AttentionHead("decoder", 0, 0))
