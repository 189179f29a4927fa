"""A configuration for a prepared text: its vocabulary and statistics are found, and the settings written as YAML."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

import yaml

from model.errors import ConfigError
from model.text.tokenizer import VersoTokenizer
from model.text.tokenizer_training import learn_tokenizer
from model.training.corpus import Pair, spread
from model.training.defaults import FittingSettings, TextStatistics, fitting_vocab_size

_SAMPLE = 50_000
"""Pairs from which the vocabulary is tried; the training learns it from the whole text."""

_VOCAB_SIZES = (400, 500, 700, 1000, 2000, 4000, 8000, 16_000, 32_000)
_LATIN_END = "\u0250"
_LATIN_EXTENDED = ("\u1e00", "\u1eff")


def try_vocabulary(pairs: Sequence[Pair], languages: tuple[str, str]) -> VersoTokenizer:
    """A vocabulary of the size that fits the text.

    A text of few words allows fewer tokens, and a script of many characters needs more; then the nearest size is taken
    that can be learned.

    Args:
        pairs: The training text; a sample of it is used.
        languages: Its languages.

    Raises:
        ConfigError: No size is possible.
    """
    preferred = fitting_vocab_size(sum(len(first) + len(second) for first, second in pairs))
    smaller = [size for size in reversed(_VOCAB_SIZES) if size < preferred]
    larger = [size for size in _VOCAB_SIZES if size > preferred]
    sample = [side for pair in spread(pairs, _SAMPLE) for side in pair]
    for size in (preferred, *smaller, *larger):
        try:
            return learn_tokenizer(sample, size, sorted(languages), normalisation="nfc", reserve_symbols=True)
        except ConfigError as error:
            refused = error
    raise refused


def text_statistics(pairs: Sequence[Pair], languages: tuple[str, str], tokenizer: VersoTokenizer) -> TextStatistics:
    """What the settings depend on in a training text.

    Args:
        pairs: The text.
        languages: Its languages.
        tokenizer: A vocabulary for it.
    """
    sample = spread(pairs, _SAMPLE)
    num_tokens = sum(len(tokenizer.encode_target(side)) for pair in sample for side in pair)
    letters = ["".join(filter(str.isalpha, "".join(side))) for side in zip(*spread(sample, 1000), strict=True)]
    return TextStatistics(
        num_pairs=len(pairs),
        num_tokens=num_tokens * len(pairs) // len(sample),
        vocab_size=tokenizer.vocab_size,
        has_capitals=all(2 * sum(map(_has_case, side)) > len(side) for side in letters),
        is_latin=all(2 * sum(map(_is_latin, side)) > len(side) for side in letters),
    )


def _has_case(letter: str) -> bool:
    return letter.isupper() or letter.islower()


def _is_latin(letter: str) -> bool:
    return letter < _LATIN_END or _LATIN_EXTENDED[0] <= letter <= _LATIN_EXTENDED[1]


def configuration_text(name: str, languages: tuple[str, str], length_ratio: float, fitting: FittingSettings) -> str:
    """A configuration as YAML, with the reason for each setting as a comment.

    Args:
        name: Name of the model.
        languages: The languages of ``train`` and ``dev``, the corpora it names.
        length_ratio: Characters of the second language for each character of the first.
        fitting: The settings.
    """
    lines = [
        "# Written by 'verso prepare'. Every key is explained in model/training/settings.py.",
        _entry("name", name),
        _entry("languages", list(languages)),
        *_comment(f"Both directions in one model; for one of them: pairs: [{languages[0]}-{languages[1]}]"),
        *_comment("Paths start from the folder given with --data."),
        _entry("train", [{"path": "train", "length_ratio": length_ratio}]),
        _entry("dev", "dev"),
        "",
    ]
    for key, setting in fitting.settings.items():
        lines += [*_comment(setting.reason), _entry(key, setting.value)]
    lines += [
        "",
        *_comment("Of the trained weights; shown by 'verso inspect' and GET /models."),
        _entry("licence", "unstated"),
        _entry("attribution", []),
    ]
    return "\n".join(lines) + "\n"


def _comment(text: str) -> list[str]:
    return textwrap.wrap(text, 110, initial_indent="# ", subsequent_indent="# ")


def _entry(key: str, value: Any) -> str:
    written = yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=1000, allow_unicode=True)
    return f"{key}: {written.removesuffix('...' + chr(10)).strip()}"
