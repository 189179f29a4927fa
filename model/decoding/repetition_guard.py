"""Repetition loops and empty outputs: how they are detected, and how such sentences are decoded a second time.

Autoregressive models fall into loops on input unlike their training text (Holtzman et al. 2020 describe it), and end
at once on fragments that mean little on their own. Models that ask for it with ``retry_loops`` have such a sentence
decoded once more with a guard. The guard is not on from the start: it also forbids good answers in which a phrase
rightly occurs twice.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from model.decoding.options import DecodingOptions

LOOP_REPEATS = 4
"""Consecutive occurrences of a sequence of words that count as a loop."""

_LONGEST_SEQUENCE = 6
_GUARD_NGRAM_SIZE = 2
"""With 3, "Drei drei drei drei" passes: its first word is another token."""

_GUARD_MIN_TOKENS = 3
"""A full stop alone is two."""

_WORD = re.compile(r"\w+")
_RUN = re.compile(r"([^\w\s])\1*")
_LOOP_SIGNS = 16
"""Equal signs in a row that count as a loop."""


def loops(text: str, source: str = "") -> bool:
    """Whether up to six words occur :data:`LOOP_REPEATS` times in a row in a translation and not in its source.

    A run of one sign is a loop, too, if it is much longer than those of the source.

    Args:
        text: A translation.
        source: What it translates.
    """
    if _has_loop(text) and not _has_loop(source):
        return True
    run = _longest_run(text)
    return run >= _LOOP_SIGNS and run > 2 * _longest_run(source)


def is_empty(text: str, source: str) -> bool:
    """Whether a translation has no word although its source has letters or digits.

    Args:
        text: A translation.
        source: What it translates.
    """
    return not _WORD.search(text) and _WORD.search(source) is not None


def is_suspect(token_ids: Sequence[int]) -> bool:
    """Whether an answer could be empty or a loop, by its tokens; most could not, and need not be decoded to text.

    The first word of a loop may have other tokens than the others, so one repeat less counts.
    """
    return len(token_ids) < _GUARD_MIN_TOKENS or len(token_ids) - len(set(token_ids)) >= LOOP_REPEATS - 2


def guarded(options: DecodingOptions) -> DecodingOptions:
    """The same options with a guard against loops, unless they have one, and against empty outputs."""
    fewest = max(options.min_new_tokens, _GUARD_MIN_TOKENS)
    return replace(
        options,
        no_repeat_ngram_size=options.no_repeat_ngram_size or _GUARD_NGRAM_SIZE,
        min_new_tokens=fewest if options.max_new_tokens is None else min(fewest, options.max_new_tokens),
    )


def _longest_run(text: str) -> int:
    """The largest number of equal signs in a row."""
    return max((len(run[0]) for run in _RUN.finditer(text)), default=0)


def _has_loop(text: str) -> bool:
    words = _WORD.findall(text.lower()) or text.split()
    for size in range(1, _LONGEST_SEQUENCE + 1):
        in_a_row = 0
        for index in range(size, len(words)):
            in_a_row = in_a_row + 1 if words[index] == words[index - size] else 0
            if in_a_row == size * (LOOP_REPEATS - 1):
                return True
    return False
