"""Compares a scripted model with the eager one, and refuses it if they differ too much."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from model.artifacts.manifest import Manifest, Precision
from model.decoding.batch import decode_in_order
from model.decoding.eager.state import TorchState
from model.decoding.eager.torch_cohort import TorchCohort
from model.decoding.options import DecodingOptions
from model.decoding.sentence import DecodingRequest
from model.errors import ArtifactError
from model.network.padding import pad
from model.network.transformer import Transformer
from model.process.progress import Progress
from model.text.tokenizer import Tokenizer

LOGIT_BOUNDS: dict[str, float] = {"float32": 1e-4, "float16": 0.02, "bfloat16": 0.1, "int8": 0.25}
"""Bounds of the differences of logits from the eager float32 model: of their root mean square, for float32 of the
largest one."""

BLEU_BOUND = 1.5
"""Maximum loss of BLEU on the held-out sample."""

TIE_MARGIN = 1e-4
"""Two tokens whose logits are closer than this may be ranked differently by two implementations."""

_BATCH_ROWS = 50


@dataclass(frozen=True)
class Comparison:
    """How far a scripted model is from the eager float32 one, on held-out sentences.

    Args:
        max_logit_error: Largest absolute difference of a logit.
        rms_logit_error: Root mean square of the differences.
        num_sentences: Number of decoded sentences, in all directions.
        num_identical: Number of these for which both models chose the same tokens, greedily.
        num_ties: Number of the others whose first different token is a tie (:data:`TIE_MARGIN`).
        bleu: BLEU of the greedy translations, by direction: that of the eager float32 model, then that of this one.
    """

    max_logit_error: float
    rms_logit_error: float
    num_sentences: int
    num_identical: int
    num_ties: int
    bleu: dict[str, tuple[float, float]]

    def to_dict(self) -> dict[str, Any]:
        """The comparison as the manifest stores it."""
        return {
            "max_logit_error": round(self.max_logit_error, 7),
            "rms_logit_error": round(self.rms_logit_error, 7),
            "sentences": self.num_sentences,
            "identical_to_float32": self.num_identical,
            "ties": self.num_ties,
            "greedy_bleu_float32_and_this": {pair: [round(x, 2) for x in both] for pair, both in self.bleu.items()},
        }


def compare(
    eager: Transformer,
    module: Transformer,
    tokenizer: Tokenizer,
    manifest: Manifest,
    sample: Sequence[tuple[str, str]],
    languages: Sequence[str],
    progress: Progress,
) -> Comparison:
    """Run the eager and the scripted model over the same sentences.

    Args:
        eager: The float32 model.
        module: The scripted model, on the same device.
        tokenizer: The tokenizer of both.
        manifest: The manifest of the future bundle.
        sample: Sentence pairs, each in the order of ``languages``.
        languages: The two languages.
        progress: Wraps an iterable in a progress bar.
    """
    from model.scores import bleu_units, score  # sacrebleu is needed here only

    errors = _LogitErrors()
    num_identical, num_ties, num_sentences = 0, 0, 0
    bleu: dict[str, tuple[float, float]] = {}
    for source_language, target_language in manifest.pairs:
        ordered = [pair if source_language == languages[0] else pair[::-1] for pair in sample]
        sources = [
            tokenizer.encode(source, target_language, source_language)[: manifest.max_source_tokens]
            for source, _ in ordered
        ]
        forced_ids = tokenizer.forced_ids(target_language)
        targets = [
            [tokenizer.start_id, *forced_ids, *tokenizer.encode_target(target)][: manifest.max_target_tokens]
            for _, target in ordered
        ]
        _compare_logits(eager, module, sources, targets, tokenizer.pad_id, errors)
        label = f"{source_language}-{target_language}"
        expected, scripted = (
            _decode(model, tokenizer, sources, forced_ids, manifest, _device(eager), f"{label} {name}", progress)
            for model, name in ((eager, "float32 eager"), (module, manifest.precision))
        )
        for source_ids, eager_ids, scripted_ids in zip(sources, expected, scripted, strict=True):
            num_sentences += 1
            num_identical += eager_ids == scripted_ids
            num_ties += eager_ids != scripted_ids and _is_tie(
                eager, source_ids, forced_ids, eager_ids, scripted_ids, tokenizer
            )
        references = [target for _, target in ordered]
        eager_bleu, scripted_bleu = (
            score([tokenizer.decode(ids) for ids in answers], references, tokenize=bleu_units(tokenizer)).bleu
            for answers in (expected, scripted)
        )
        bleu[label] = (eager_bleu, scripted_bleu)
    return Comparison(errors.largest, errors.root_mean_square, num_sentences, num_identical, num_ties, bleu)


@dataclass
class _LogitErrors:
    """Differences of logits, accumulated over batches."""

    sum_of_squares: float = 0.0
    count: int = 0
    largest: float = 0.0

    def add(self, difference: Tensor) -> None:
        self.sum_of_squares += float(difference.square().sum())
        self.count += difference.numel()
        self.largest = max(self.largest, float(difference.abs().max()))

    @property
    def root_mean_square(self) -> float:
        return math.sqrt(self.sum_of_squares / max(self.count, 1))


@torch.inference_mode()
def _compare_logits(
    eager: Transformer,
    module: Transformer,
    sources: Sequence[list[int]],
    targets: Sequence[list[int]],
    pad_id: int,
    errors: _LogitErrors,
) -> None:
    """Add the differences of the logits at all target positions that are not padding."""
    for start in range(0, len(sources), _BATCH_ROWS):
        source = pad(sources[start : start + _BATCH_ROWS], pad_id).to(_device(eager))
        target = pad(targets[start : start + _BATCH_ROWS], pad_id).to(_device(eager))
        errors.add((module.forward(source, target).float() - eager(source, target))[target != pad_id])


def _decode(
    model: Transformer,
    tokenizer: Tokenizer,
    sources: Sequence[list[int]],
    forced_ids: tuple[int, ...],
    manifest: Manifest,
    device: torch.device,
    label: str,
    progress: Progress,
) -> list[list[int]]:
    """Tokens of the greedy translations."""
    outcomes = decode_in_order(
        lambda width: TorchCohort(
            TorchState(model, width, tokenizer.pad_id, device),
            tokenizer,
            width,
            manifest.max_target_tokens,
            device,
            manifest.policy,
        ),
        [DecodingRequest(0, source, DecodingOptions(decoding="greedy"), forced_ids) for source in sources],
        label=label,
        progress=progress,
    )
    answers: list[list[int]] = []
    for outcome in outcomes:
        if outcome.hypothesis is None:
            raise ArtifactError(f"{label}: a held-out sentence could not be decoded: {outcome.error}")
        answers.append(outcome.hypothesis.token_ids)
    return answers


def _device(eager: Transformer) -> torch.device:
    return eager.output.weight.device


@torch.inference_mode()
def _is_tie(
    eager: Transformer,
    source_ids: list[int],
    forced_ids: tuple[int, ...],
    expected: list[int],
    ids: list[int],
    tokenizer: Tokenizer,
) -> bool:
    """Whether the logits of the first tokens that differ are closer than :data:`TIE_MARGIN`."""
    expected, ids = [*expected, tokenizer.end_id], [*ids, tokenizer.end_id]
    index = next((i for i, (a, b) in enumerate(zip(expected, ids, strict=False)) if a != b), None)
    if index is None:
        return False
    prefix = torch.tensor([[tokenizer.start_id, *forced_ids, *expected[:index]]], device=_device(eager))
    logits = eager(torch.tensor([source_ids], device=_device(eager)), prefix)[0, -1]
    return bool((logits[expected[index]] - logits[ids[index]]).abs() < TIE_MARGIN)


def check_bounds(comparison: Comparison, precision: Precision) -> None:
    """Refuse a scripted model that is too far from the eager one.

    Args:
        comparison: The differences that were measured.
        precision: The precision of the scripted model, which determines the bounds.

    Raises:
        ArtifactError: A bound is exceeded.
    """
    error = comparison.max_logit_error if precision == "float32" else comparison.rms_logit_error
    bound = LOGIT_BOUNDS[precision]
    if not error <= bound:
        raise ArtifactError(
            f"The {precision} bundle's logits are {error:.3g} off float32, more than {bound}; nothing was written."
        )
    if precision == "float32":
        different = comparison.num_sentences - comparison.num_identical - comparison.num_ties
        if different:
            raise ArtifactError(
                f"The scripted model gave other tokens than the eager one for {different} of "
                f"{comparison.num_sentences} sentences; nothing was written."
            )
    for pair, (full, this) in comparison.bleu.items():
        if full - this > BLEU_BOUND:
            raise ArtifactError(
                f"The {precision} bundle loses {full - this:.1f} BLEU on {pair}, more than {BLEU_BOUND}; "
                "nothing was written. Choose another precision."
            )
