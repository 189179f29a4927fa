"""Training settings that fit an amount of text and a machine, with the reason for each.

The functions are pure. Their assumptions were measured in this repository where a comment says so; the rest follows
publications or is an extrapolation, and is named as such.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

AFTERNOON_H = 5.0
"""Hours that a training may take by default."""

CORE_RATE = 14e9
"""Parameters times target tokens that one processor core trains in a second, in bfloat16. Measured on an AMD EPYC
(Zen 4): 8.9 M parameters at 3,120 tokens a second on two cores (docs/decisions/0013), 2.4 M at some 6,000 on one."""

GPU_RATE = 4e12
"""The same for one GPU: an assumption, a third of the bfloat16 peak of a consumer GPU of 2020. GPUs of data centres are
several times faster."""

CORE_TOKENS_PER_S = 7000.0
GPU_TOKENS_PER_S = 100_000.0
"""Target tokens a second of one core and of one GPU at most: small models are bound by other things than products."""

FILL = 0.8
"""Share of ``batch_tokens`` that is target tokens; the rest is padding and the longer source (docs/decisions/0013)."""

_MIN_TOKENS_PER_PARAMETER = 3
"""A shape that sees fewer target tokens than this in the time is too large: a smaller one learns more."""

_MIN_UPDATES = 2000
_NUM_EVALUATIONS = 20


@dataclass(frozen=True)
class Hardware:
    """What a model is trained on.

    Args:
        kind: ``cpu`` or ``cuda``.
        num_cores: Processor cores.
        num_gpus: GPUs, with ``cuda``.
    """

    kind: Literal["cpu", "cuda"]
    num_cores: int = 1
    num_gpus: int = 0

    def tokens_per_s(self, num_parameters: int) -> float:
        """Target tokens that are trained in a second."""
        if self.kind == "cpu":
            return self.num_cores * min(CORE_RATE / num_parameters, CORE_TOKENS_PER_S)
        return self.num_gpus * min(GPU_RATE / num_parameters, GPU_TOKENS_PER_S)

    @property
    def num_processes(self) -> int:
        """Processes that train: one for each GPU."""
        return 1 if self.kind == "cpu" else self.num_gpus

    def __str__(self) -> str:
        number, name = (self.num_cores, "processor core") if self.kind == "cpu" else (self.num_gpus, "GPU")
        return f"{number} {name}" + ("s" if number > 1 else "")


@dataclass(frozen=True)
class TextStatistics:
    """What the settings depend on in a training text.

    Args:
        num_pairs: Sentence pairs.
        num_tokens: Target tokens of one pass over the text in both directions.
        vocab_size: Size of the vocabulary.
        has_capitals: Whether both languages have capitals.
        is_latin: Whether both languages are written in Latin letters.
    """

    num_pairs: int
    num_tokens: int
    vocab_size: int
    has_capitals: bool = True
    is_latin: bool = True

    @property
    def num_short_pairs(self) -> int:
        """Pairs of 15 tokens a side with as much text: long sentences teach more than short ones."""
        return max(1, self.num_tokens // 30)


@dataclass(frozen=True)
class Shape:
    """A size of the model.

    Args:
        name: Its name in messages.
        max_pairs: Largest text for which it is chosen, in pairs of 15 tokens a side.
        model: Fields of :class:`model.network.config.ModelConfig`.
        learning_rate: Peak with Muon. 0.003 at width 256 and 0.005 at width 128 were used in this repository; the
            others are extrapolated.
        cpu_batch_tokens: ``batch_tokens`` on a processor, where more was not faster (docs/decisions/0014).
        gpu_batch_tokens: ``batch_tokens`` on a GPU, which needs large products.
    """

    name: str
    max_pairs: float
    model: Mapping[str, int]
    learning_rate: float
    cpu_batch_tokens: int
    gpu_batch_tokens: int

    def num_parameters(self, vocab_size: int) -> int:
        """Weights of the matrices, with one table for both embeddings and the output."""
        d, d_ff = self.model["d_model"], self.model["d_ff"]
        encoder = self.model["encoder_layers"] * (4 * d * d + 2 * d * d_ff)
        decoder = self.model["decoder_layers"] * (8 * d * d + 2 * d * d_ff)
        return encoder + decoder + vocab_size * d


def _model(d_model: int, num_heads: int, encoder_layers: int, decoder_layers: int) -> dict[str, int]:
    return {
        "d_model": d_model,
        "num_heads": num_heads,
        "d_ff": 4 * d_model,
        "encoder_layers": encoder_layers,
        "decoder_layers": decoder_layers,
    }


SHAPES = (
    Shape("tiny", 30_000, _model(128, 4, 4, 2), 0.005, 2000, 4000),
    Shape("small", 500_000, _model(256, 4, 6, 2), 0.003, 2500, 8000),
    Shape("base", 5_000_000, _model(512, 8, 6, 3), 0.0015, 4000, 16000),
    Shape("big", math.inf, _model(1024, 16, 6, 3), 0.0007, 4000, 16000),
)
"""The shapes, smallest first. Decoders are shallow, because each of their layers runs for every generated token."""


@dataclass(frozen=True)
class Setting:
    """A value of a configuration.

    Args:
        value: As YAML writes it.
        reason: Why it fits.
    """

    value: Any
    reason: str


@dataclass(frozen=True)
class FittingSettings:
    """Settings for a text and a machine.

    Args:
        shape: The size of the model.
        num_parameters: Its weights.
        num_tokens: Target tokens of the whole training.
        tokens_per_s: Target tokens a second that were assumed.
        settings: Keys of :class:`model.training.settings.TrainingSettings`.
    """

    shape: Shape
    num_parameters: int
    num_tokens: int
    tokens_per_s: float
    settings: dict[str, Setting]


def fitting_vocab_size(num_characters: int) -> int:
    """The size of the vocabulary for a text, from 1,000 to 16,000.

    A token should occur often enough to be learned. Small texts therefore do better with small vocabularies (Sennrich &
    Zhang 2019, arXiv:1905.11901; Ding et al. 2019, arXiv:1905.10453). The translator of everyday sentences has 8,000
    tokens for 14 million characters.

    Args:
        num_characters: Of both languages.
    """
    for most, size in ((500_000, 1000), (2_000_000, 2000), (5_000_000, 4000), (60_000_000, 8000)):
        if num_characters <= most:
            return size
    return 16_000


def fitting_settings(
    text: TextStatistics, hardware: Hardware, hours: float = AFTERNOON_H, measured: tuple[Shape, float] | None = None
) -> FittingSettings:
    """The settings for a text and a machine.

    The amount of text decides how large a model can become without learning the text by heart: up to 30,000 pairs the
    tiny shape is chosen, up to 500,000 the small one, for millions base and big; pairs of long sentences count more.
    The machine then decides how much of that it can train: if the time does not allow three target tokens for each
    parameter, the next smaller shape is taken.

    Small texts are repeated more often, from 60 passes at 10,000 pairs to six at a million, with more dropout and
    sampled segmentation against overfitting. Multi30k's 29,000 pairs took 76 passes in one direction; the text of the
    translator of everyday sentences eight in both, for want of time. If the time ends earlier, there are fewer passes.

    Args:
        text: The training text.
        hardware: The machine.
        hours: Time that the updates may take.
        measured: A shape, which is then kept, and its measured target tokens a second; assumed ones unless given.
    """
    shape = _shape(text, hardware, hours) if measured is None else measured[0]
    num_parameters = shape.num_parameters(text.vocab_size)
    tokens_per_s = hardware.tokens_per_s(num_parameters) if measured is None else measured[1]
    batch_tokens = shape.cpu_batch_tokens if hardware.kind == "cpu" else shape.gpu_batch_tokens
    tokens_per_update = FILL * batch_tokens * hardware.num_processes
    passes = min(60.0, max(6.0, 45 * math.sqrt(20_000 / text.num_short_pairs)))
    useful = max(_MIN_UPDATES, passes * text.num_tokens / tokens_per_update)
    affordable = hours * 3600 * tokens_per_s / tokens_per_update
    evaluate_every = max(10, _rounded(min(useful, affordable) / _NUM_EVALUATIONS))
    num_tokens = int(_NUM_EVALUATIONS * evaluate_every * tokens_per_update)
    limit = "more would hardly help" if useful <= affordable else f"as many as {hours:g} hours allow"
    why = f"{num_tokens / text.num_tokens:.1f} passes over the text in both directions, {limit}."
    model = Setting(
        {**shape.model, "dropout": _dropout(text.num_short_pairs)},
        f"{shape.name}: {num_parameters / 1e6:.1f} M parameters, for {text.num_pairs:,} pairs and {hardware}. "
        "Dropout is higher for less text.",
    )
    settings = {
        "model": model,
        **_text_settings(text),
        "batch_tokens": Setting(batch_tokens, "Padded size of a batch; torchrun trains one on each GPU."),
        **_schedule(_NUM_EVALUATIONS * evaluate_every, shape.learning_rate, why),
        "evaluate_every": Setting(evaluate_every, f"{_NUM_EVALUATIONS} evaluations and checkpoints."),
        "dev_sentences": Setting(500, "At most, for each evaluation and direction."),
        "average": Setting(3, "The mean of the last checkpoints is exported."),
        "seed": Setting(1, "Same seed, text and settings: same batches."),
    }
    return FittingSettings(shape, num_parameters, num_tokens, tokens_per_s, settings)


def _text_settings(text: TextStatistics) -> dict[str, Setting]:
    """How text becomes tokens."""
    sampling = 0.3 if text.num_short_pairs < 1_000_000 else 0.1
    settings = {
        "vocab_size": Setting(text.vocab_size, "Small for a small text, so that every token occurs often enough."),
        "normalisation": Setting("nfc", "Characters come back as they were written."),
        "reserve_symbols": Setting(True, "64 tokens that no text is encoded to, such as placeholders."),
        "max_tokens_per_sentence": Setting(120, "Longer pairs are left out, and counted when the training starts."),
        "subword_sampling": Setting(sampling, "Other segmentations of the same text; more of it for less text."),
        "target_subword_sampling": Setting(round(sampling / 3, 2), "Likewise, less of it."),
        "augment": Setting(_augment(text), "Shares of pairs that are written the way people type."),
        "fold_capitals": Setting(text.has_capitals, "Sentences in capitals are translated in lower case."),
        "retry_loops": Setting(True, "Repetition loops and empty outputs are decoded again with a guard."),
    }
    if text.num_short_pairs >= 50_000:  # in less text, words are not aligned well enough
        shares = {"placeholders": 0.1, "glossary": 0.05}
        settings["controls"] = Setting(shares, "Shares of pairs that teach placeholders and glossary terms.")
    return settings


def _schedule(max_steps: int, learning_rate: float, reason: str) -> dict[str, Setting]:
    """How the weights are updated."""
    return {
        "max_steps": Setting(max_steps, reason),
        "optimizer": Setting("muon", "Needs fewer updates than adamw (docs/decisions/0014)."),
        "learning_rate": Setting(learning_rate, "For this width. If the loss rises or becomes NaN, halve it."),
        "weight_decay": Setting(0.05, "As the translator that ships."),
        "warmup_steps": Setting(max(1, min(1000, max_steps // 10)), "A tenth of the updates, 1,000 at most."),
        "cooldown_steps": Setting(max_steps // 4, "The last quarter, in which the rate falls to zero."),
    }


def _shape(text: TextStatistics, hardware: Hardware, hours: float) -> Shape:
    """The shape for an amount of text, or the largest smaller one that can be trained in the time."""
    number = next(number for number, shape in enumerate(SHAPES) if text.num_short_pairs <= shape.max_pairs)
    for shape in reversed(SHAPES[: number + 1]):
        num_parameters = shape.num_parameters(text.vocab_size)
        if hours * 3600 * hardware.tokens_per_s(num_parameters) >= _MIN_TOKENS_PER_PARAMETER * num_parameters:
            return shape
    return SHAPES[0]


def _dropout(num_pairs: int) -> float:
    for most, dropout in ((30_000, 0.3), (150_000, 0.2), (1_000_000, 0.15)):
        if num_pairs <= most:
            return dropout
    return 0.1


def _augment(text: TextStatistics) -> dict[str, float]:
    """Augmentation without ``names``, which knows the names of English and German corpora only."""
    capitals = {"upper": 0.02, "lower": 0.03} if text.has_capitals else {}
    typos = {"typos": 0.04} if text.is_latin else {}  # wrong letters are Latin ones
    return {**capitals, "unpunctuated": 0.03, **typos, "signs": 0.02, "joined": 0.05}


def _rounded(number: float) -> int:
    """A number with its first two digits."""
    if number < 10:
        return max(1, int(number))
    unit = 10 ** (int(math.log10(number)) - 1)
    return int(number // unit * unit)
