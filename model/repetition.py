"""Answers that say the same over and over: how they are told, and what is done about them.

Autoregressive models fall into loops on input unlike their training text (Holtzman et al. 2020 describe it). Models
that ask for it with ``retry_loops`` decode such a sentence a second time with a guard. The guard is not on from the
start: it forbids good answers too, where a phrase stands twice by right.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from model.decoding.options import DecodingOptions

LOOP_REPEATS = 4
"""So often a stretch of words stands in a row before it is called a loop."""

_LONGEST_STRETCH = 6
_GUARD_NGRAM_SIZE = 2
"""With 3, "Drei drei drei drei" passes: its first word is another token."""

_WORD = re.compile(r"\w+")


def loops(text: str, source: str = "") -> bool:
    """Whether a stretch of up to six words stands in a row :data:`LOOP_REPEATS` times, and not in the source too.

    Args:
        text: A translation.
        source: What it translates.
    """
    return _has_loop(text) and not _has_loop(source)


def may_loop(token_ids: Sequence[int]) -> bool:
    """Whether an answer has tokens enough more than once; most have not, and need not be looked at as text."""
    return len(token_ids) - len(set(token_ids)) >= LOOP_REPEATS - 1


def guarded(options: DecodingOptions) -> DecodingOptions:
    """The same with a guard against loops, where there is none yet."""
    return replace(options, no_repeat_ngram_size=options.no_repeat_ngram_size or _GUARD_NGRAM_SIZE)


def _has_loop(text: str) -> bool:
    words = _WORD.findall(text.lower()) or text.split()
    for size in range(1, _LONGEST_STRETCH + 1):
        in_a_row = 0
        for place in range(size, len(words)):
            in_a_row = in_a_row + 1 if words[place] == words[place - size] else 0
            if in_a_row == size * (LOOP_REPEATS - 1):
                return True
    return False
