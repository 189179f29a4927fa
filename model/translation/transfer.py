"""The translation of a sentence from the stored translation of a similar one.

Where the sentences differ, the model's translations of both differ, too: those words of the stored translation are
replaced, and all others stay. It is the proportional analogy of Lepage & Denoual (2005, doi:10.1007/s10590-006-9010-x),
"stored source is to sentence as stored translation is to translation", with the model's own translations as the pattern
of the change.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

_WORD = re.compile(r"\w+|[^\w\s]")

MAX_WORDS = 1_000
MAX_CHANGES = 20
"""Words of a translation and parts of it that may change; a longer one is translated by the model alone."""

MAX_CHANGED = 0.5
"""Share of the words that may change: beyond it, little of the stored translation would stay."""


def steered(stored_source: str, stored: str, sentence: str, before: str, after: str) -> str | None:
    """The translation of a sentence by the stored translation of a similar one; None if that does not fit.

    Args:
        stored_source: The stored sentence.
        stored: Its stored translation.
        sentence: The sentence.
        before: The model's translation of the stored sentence.
        after: The model's translation of the sentence.
    """
    old, new = _WORD.findall(stored_source), _WORD.findall(sentence)
    is_number = [a == b or (a.isdecimal() and b.isdecimal()) for a, b in zip(old, new, strict=False)]
    if len(old) == len(new) and all(is_number):
        with_numbers = transferred(stored, stored_source, sentence)
        if with_numbers is not None:
            return with_numbers
    return transferred(stored, before, after) or _with_other_word(stored, before, after)


def _with_other_word(stored: str, before: str, after: str) -> str | None:
    """A stored translation with the only word by which two translations differ, wherever it stands in them."""
    old, new = (Counter(_WORD.findall(text)) for text in (before, after))
    removed, added = list((old - new).elements()), list((new - old).elements())
    if len(removed) != 1 or len(added) != 1:
        return None
    spans = [match.span() for match in _WORD.finditer(stored) if match[0] == removed[0]]
    if len(spans) != 1:
        return None
    return stored[: spans[0][0]] + added[0] + stored[spans[0][1] :]


def transferred(stored: str, before: str, after: str) -> str | None:
    """A stored translation with the changes from one translation to another; None if they do not fit it.

    Args:
        stored: The stored translation.
        before: The model's translation of the stored source.
        after: The model's translation of the sentence.
    """
    old_words, new_words, words = (_WORD.findall(text) for text in (before, after, stored))
    if max(len(old_words), len(new_words), len(words)) > MAX_WORDS:
        return None
    differences = _differences(old_words, new_words)
    num_changed = sum(max(last - first, new_last - new_first) for first, last, new_first, new_last in differences)
    if not differences or len(differences) > MAX_CHANGES or num_changed > MAX_CHANGED * len(words):
        return None
    spans = [match.span() for match in _WORD.finditer(after)]
    stored_spans = [match.span() for match in _WORD.finditer(stored)]
    changes: list[tuple[int, int, str]] = []
    for first, last, new_first, new_last in differences:
        is_replacement = last > first and new_last > new_first
        place = _place(old_words, first, last, words, needs_neighbour=not is_replacement)
        if place is None:
            return None
        index, left, right = place
        length = last - first + left + right
        begin, end = stored_spans[index][0], stored_spans[index + length - 1][1]
        new = after[spans[new_first - left][0] : spans[new_last + right - 1][1]]
        changes.append((begin, end, new))
    changes.sort()
    overlap = any(end > begin for (_, end, _), (begin, _, _) in pairwise(changes))
    if overlap:
        return None
    for begin, end, new in reversed(changes):
        stored = stored[:begin] + new + stored[end:]
    return stored


def _differences(before: Sequence[str], after: Sequence[str]) -> list[tuple[int, int, int, int]]:
    """The parts in which two sequences of words differ: first and last index in each."""
    # Imported here: only similar sentences need it.
    from rapidfuzz.distance import Indel

    differences: list[tuple[int, int, int, int]] = []
    for operation in Indel.opcodes(before, after):
        if operation.tag == "equal":
            continue
        part = (operation.src_start, operation.src_end, operation.dest_start, operation.dest_end)
        if differences and differences[-1][1] == part[0] and differences[-1][3] == part[2]:
            part = (differences[-1][0], part[1], differences[-1][2], part[3])
            differences.pop()
        differences.append(part)
    return differences


def _place(
    before: Sequence[str], first: int, last: int, words: Sequence[str], *, needs_neighbour: bool
) -> tuple[int, int, int] | None:
    """Where changed words are in a stored translation: the index, and the neighbours that tell it on either side.

    Args:
        before: The words of the translation that changes.
        first: Index of the first changed word.
        last: Index after the last one.
        words: The words of the stored translation.
        needs_neighbour: Whether the change needs a word beside it, as it adds or removes words.
    """
    for left, right in ((0, 0), (1, 0), (0, 1), (1, 1)):
        if (needs_neighbour and not left + right) or first - left < 0 or last + right > len(before):
            continue
        wanted = list(before[first - left : last + right])
        places = _occurrences(words, wanted)
        if len(places) == 1 and len(_occurrences(before, wanted)) == 1:
            return places[0], left, right
    return None


def _occurrences(words: Sequence[str], wanted: Sequence[str]) -> list[int]:
    """Where a sequence of words occurs."""
    length = len(wanted)
    return [index for index in range(len(words) - length + 1) if words[index : index + length] == wanted]
