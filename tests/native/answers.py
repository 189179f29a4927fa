"""What ``replay.cpp`` asks again: models of every shape and kind, and with numbers at the bounds of float32."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast, get_args

import torch

from model.artifacts.checkpoint import load_checkpoint
from model.artifacts.manifest import Precision
from model.artifacts.pretrained import PRETRAINED, pretrained_shortlist
from model.artifacts.script import script
from model.decoding.native.cohort import NativeCohort
from model.decoding.native.library import find_library
from model.decoding.native.packed import NativeModel
from model.decoding.options import Scoring
from model.decoding.policy import DecodingPolicy
from model.decoding.sentence import DecodingRequest
from model.decoding.shortlist import Shortlist
from model.network.config import ModelConfig
from model.network.transformer import Transformer
from model.text.tokenizer import Tokenizer
from model.translation.options import TranslationOptions
from tests.model.test_instruction_sets import SHAPES as SHAPES_OF_SETS
from tests.model.test_native import POLICIES, random_options
from tests.model.test_shortlist import random_table
from tests.model.tiny import VOCABULARY, random_sources
from tests.model.torch_layers import randomise, small_config
from tests.native.recorder import Recorder

PRECISIONS: tuple[Precision, ...] = ("int8", "bfloat16", "float32")
_JOIN_TOGETHER = 4
_WIDTHS = (1, 3)

SHAPES: dict[str, dict[str, Any]] = {
    **SHAPES_OF_SETS,
    "several blocks": {**SHAPES_OF_SETS["several blocks"], "source_vocab_size": 300, "target_vocab_size": 300},
    "long sources": {
        "d_model": 128,
        "num_heads": 8,
        "d_ff": 260,
        "encoder_layers": 1,
        "decoder_layers": 1,
        "max_positions": 130,
    },
}

_SPOILED = "no width a multiple of 16"


@dataclass(frozen=True)
class Questions:
    """What one model is asked.

    Args:
        model: The model, scripted or not.
        config: Its architecture.
        sources: Source tokens.
        vocabulary: Its special tokens.
        longest_target: See :class:`NativeCohort`.
        widths: Rows of a sentence; each is tried.
        shortlist: The candidates of each source token, or None for the whole vocabulary.
        options: Of a sentence, given the width.
    """

    model: object
    config: ModelConfig
    sources: list[list[int]]
    vocabulary: Tokenizer
    longest_target: int
    widths: Sequence[int]
    shortlist: Shortlist | None
    options: Callable[[int], TranslationOptions]


def record(path: Path, isa: str = "auto", shipped: bool = False) -> None:
    """Write a recording.

    Args:
        path: The file.
        isa: The instruction set that answers.
        shipped: Whether to ask the shipped translator, and not small models with random weights.

    Raises:
        RuntimeError: The compiled decoder cannot be used here.
    """
    result = find_library()
    if result.library is None:
        raise RuntimeError(result.reason)
    recorder = Recorder(result.library, path)
    for name, request in shipped_questions() if shipped else questions():
        recorder.name = name
        _ask(NativeModel(cast(Any, recorder), request.model, request.config, request.shortlist, isa), request)
    recorder.close()


def questions() -> Iterator[tuple[str, Questions]]:
    """Small models with random weights, by name."""
    for precision in PRECISIONS:
        for shape, changes in SHAPES.items():
            longest = 110 if shape == "long sources" else 35
            shortlists = [None, random_table(6, vocab_size=300)] if shape == "several blocks" else [None]
            for shortlist in shortlists:
                name = f"{shape}, {precision}{', shortlist' if shortlist else ''}"
                yield name, _small(changes, precision, longest, shortlist)
        for number in ("nan", "inf", "1e38", "1e-42"):
            yield f"{number}, {precision}", _small(SHAPES[_SPOILED], precision, 9, spoiled=float(number))


def _small(
    changes: dict[str, Any],
    precision: Precision,
    longest: int,
    shortlist: Shortlist | None = None,
    spoiled: float | None = None,
) -> Questions:
    config = small_config(**changes)
    model = Transformer(config, VOCABULARY.pad_id).eval()
    randomise(model)
    with torch.no_grad():
        model.output.bias[VOCABULARY.end_id] += 1.0  # some sentences end before the limit
        if spoiled is not None:
            model.encoder[0].feed_forward.wide.bias[-1] = spoiled  # type: ignore[union-attr,operator]
    rng = random.Random(f"{config} {precision}")

    def options(width: int) -> TranslationOptions:
        return random_options(rng, width, rng.choice(get_args(Scoring)))

    sources = random_sources(8, vocab_size=config.source_vocab_size, seed=3, longest=longest)
    scripted = script(model, precision)
    return Questions(scripted, config, sources, VOCABULARY, 30, _WIDTHS, shortlist, options)


def shipped_questions() -> Iterator[tuple[str, Questions]]:
    """The shipped translator, with sentences of its own language."""
    checkpoint = load_checkpoint(PRETRAINED)
    texts = ("The cat sees the old house.", "Nobody remembers why the train was late on Monday, at 7:30.", "Yes.")
    sources = [checkpoint.tokenizer.encode(text, "de", "en") for text in texts]

    def options(width: int) -> TranslationOptions:
        return TranslationOptions(decoding="greedy" if width == 1 else "beam", beam_size=width, return_scores=True)

    for precision in PRECISIONS:
        for shortlist in (None, pretrained_shortlist()) if precision == "int8" else (None,):
            module, longest = script(checkpoint.build(), precision), checkpoint.config.max_positions - 1
            name = f"shipped, {precision}{', shortlist' if shortlist else ''}"
            yield (
                name,
                Questions(
                    module, checkpoint.config, sources, checkpoint.tokenizer, longest, (1, 4), shortlist, options
                ),
            )


def _ask(model: NativeModel, request: Questions) -> None:
    for width in request.widths:
        # With one row another policy: it sums the exponentials of the logits after some are forbidden.
        other = width == 1 and request.vocabulary is VOCABULARY
        _decode(model, request, width, POLICIES["forbidden tokens lend their share"] if other else DecodingPolicy())
    targets = [[request.vocabulary.start_id, *source][: request.longest_target] for source in reversed(request.sources)]
    model.attention(request.sources, targets)
    for source, target in list(zip(request.sources, targets, strict=True))[:3]:
        model.logits(source, target)


def _decode(model: NativeModel, request: Questions, width: int, policy: DecodingPolicy) -> None:
    group = NativeCohort(model, request.vocabulary, width, request.longest_target, policy)
    requests = [DecodingRequest(key, source, request.options(width)) for key, source in enumerate(request.sources)]
    for begin in range(0, len(requests), _JOIN_TOGETHER):
        group.join(requests[begin : begin + _JOIN_TOGETHER])
        group.step()
    while group.num_sentences:
        group.step()
