"""Repetition loops and empty outputs: their detection, and the options of a second decoding.

Autoregressive models fall into loops on input unlike their training text (Holtzman et al. 2020), and end at once on
fragments that mean little on their own. If the manifest has ``retry_loops``, such a sentence is decoded again with a
guard. The first decoding has no guard, as it also forbids good answers in which a phrase rightly occurs twice.
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
"""With 3, "Drei drei drei drei" would pass: its first word is a different token."""

_GUARD_MIN_TOKENS = 3
"""A full stop alone is two tokens."""

_WORD = re.compile(r"\w+")
_RUN = re.compile(r"([^\w\s])\1*")
_LOOP_SIGNS = 16
"""Equal signs in a row that count as a loop."""


def loops(text: str, source: str = "") -> bool:
    """Whether up to six words occur :data:`LOOP_REPEATS` times in a row in a translation and not in its source.

    A run of one sign also counts, if it is much longer than those of the source.

    Args:
        text: A translation.
        source: Its source.
    """
    if _has_loop(text) and not _has_loop(source):
        return True
    run = _longest_run(text)
    return run >= _LOOP_SIGNS and run > 2 * _longest_run(source)


def is_empty(text: str, source: str) -> bool:
    """Whether a translation has no word although its source has letters or digits.

    Args:
        text: A translation.
        source: Its source.
    """
    return not _WORD.search(text) and _WORD.search(source) is not None


def is_suspect(token_ids: Sequence[int]) -> bool:
    """Whether an answer could be empty or a loop, by its tokens, so that most answers are not decoded to text.

    The first word of a loop may have other tokens than its repeats, so one repeat less is enough.
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
    if len(words) - len(set(words)) < LOOP_REPEATS - 1:
        return False  # most texts
    for size in range(1, _LONGEST_SEQUENCE + 1):
        num_equal = 0
        for index in range(size, len(words)):
            num_equal = num_equal + 1 if words[index] == words[index - size] else 0
            if num_equal == size * (LOOP_REPEATS - 1):
                return True
    return False
