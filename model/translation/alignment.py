"""Alignment: links between tokens of a translation and tokens of its source, computed from attention weights."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from torch import Tensor

from model.text.symbols import Span, shifted

_PUNCTUATION_WEIGHT = 0.2
"""Weight of a link between equal punctuation, less than that of most words."""


@dataclass(frozen=True)
class AlignmentLink:
    """A token of the translation and the source token with the largest attention weight.

    Args:
        source: Characters ``text[start:end]`` of the source text.
        target: Characters of the translation.
        weight: The attention weight in the last decoder layer, 0 to 1.
    """

    source: Span
    target: Span
    weight: float


def sentence_links(
    rows: Tensor, source_spans: Sequence[Span], target_spans: Sequence[Span], source_start: int, target_start: int
) -> Iterator[AlignmentLink]:
    """Link each target token that covers characters to the source token with the largest weight.

    Args:
        rows: Attention weights, (target tokens, source tokens).
        source_spans: Characters of the sentence that each source token covers; markers cover none.
        target_spans: Characters of the sentence's translation that each target token covers.
        source_start: Index of the sentence's first character in the source text.
        target_start: Index of its translation's first character in the translated text.
    """
    visible = [column for column, (start, end) in enumerate(source_spans) if end > start]
    if not visible:
        return
    weights, columns = rows[:, visible].max(dim=1)
    for weight, index, (start, end) in zip(weights.tolist(), columns.tolist(), target_spans, strict=True):
        if start < end:
            source = shifted(source_spans[visible[index]], source_start)
            yield AlignmentLink(source, shifted((start, end), target_start), round(weight, 4))


def nearest_links(
    rows: Tensor, source_spans: Sequence[Span], target_spans: Sequence[Span], source_start: int, target_start: int
) -> Iterator[tuple[Span, Span]]:
    """Link each source token that no target token is linked to to the target token that attends to it the most.

    Args:
        rows: As for :func:`sentence_links`, and so are the others.
        source_spans: Characters of the source tokens.
        target_spans: Characters of the target tokens.
        source_start: Index of the sentence's first character.
        target_start: Index of its translation's first character.
    """
    visible = [column for column, (start, end) in enumerate(source_spans) if end > start]
    written = [row for row, (start, end) in enumerate(target_spans) if end > start]
    if not visible or not written:
        return
    weights = rows[written][:, visible]
    linked = set(weights.argmax(dim=1).tolist())
    for column, row in enumerate(weights.argmax(dim=0).tolist()):
        if column not in linked:
            source = shifted(source_spans[visible[column]], source_start)
            yield source, shifted(target_spans[written[row]], target_start)


def counterpart(
    rows: Tensor, source_spans: Sequence[Span], target_spans: Sequence[Span], target: str, span: Span
) -> Span | None:
    """The words of a translation that are aligned with a span of its source; None if no token is.

    Of several stretches of words, the one with the largest weight is chosen. Punctuation is not a word.

    Args:
        rows: Attention weights, (target tokens, source tokens).
        source_spans: Characters of the sentence that each source token covers; markers cover none.
        target_spans: Characters of the translation that each target token covers.
        target: The translation.
        span: Characters of the sentence.
    """
    visible = [column for column, (start, end) in enumerate(source_spans) if end > start]
    inside = [span[0] < source_spans[column][1] and source_spans[column][0] < span[1] for column in visible]
    if not any(inside):
        return None
    stretches: list[tuple[float, Span]] = []
    weights, columns = rows[:, visible].max(dim=1)
    for weight, index, (start, end) in zip(weights.tolist(), columns.tolist(), target_spans, strict=True):
        if not inside[index] or not _has_word(target[start:end]):
            continue
        start, end = _whole_words(target, start, end)
        if stretches and start <= stretches[-1][1][1] + 1:
            sum_weights, (first, last) = stretches[-1]
            stretches[-1] = sum_weights + weight, (first, max(last, end))
        else:
            stretches.append((weight, (start, end)))
    return max(stretches)[1] if stretches else None


def _has_word(text: str) -> bool:
    return any(map(str.isalnum, text))


def _is_in_word(text: str, start: int, end: int) -> bool:
    """Whether a letter or digit is on both sides of a span, which may be empty: the comma of "3,5" is in a word."""
    return start > 0 and end < len(text) and text[start - 1].isalnum() and text[end].isalnum()


def _whole_words(text: str, start: int, end: int) -> Span:
    """A span extended to the ends of the words that it touches."""
    while _is_in_word(text, start, start):
        start -= 1
    while _is_in_word(text, end, end):
        end += 1
    return start, end


def insertion_point(
    rows: Tensor | None,
    source: str,
    source_spans: Sequence[Span],
    target: str,
    target_spans: Sequence[Span],
    position: int,
    anchors: Mapping[int, int],
    first: int = 0,
) -> int:
    """The target token before which a span of the source is inserted.

    Of all beginnings and ends of words, it is the one that the fewest links cross: words before it should be aligned
    with the source before the position, words after it with the source after it. Punctuation attends to anything, so it
    is aligned with the same punctuation of the source instead.

    Args:
        rows: Attention weights, (target tokens, source tokens); None for an insertion in proportion to the position.
        source: The sentence.
        source_spans: Characters of the sentence that each source token covers; markers cover none.
        target: The translation.
        target_spans: Characters of the translation that each target token covers.
        position: Index of the first character of the span in the sentence.
        anchors: Target tokens whose character in the sentence is certain, with its index.
        first: The first target token that the span may precede.
    """
    candidates = [
        index
        for index, (start, _) in enumerate(target_spans)
        if index >= first and not _is_in_word(target, start, start)
    ]
    candidates.append(len(target_spans))
    visible = [column for column, (start, end) in enumerate(source_spans) if end > start]
    if rows is None or not visible or not target_spans:
        return min(candidates, key=lambda index: abs(index * len(source) - position * len(target_spans)))
    weights, links = (values.tolist() for values in rows[:, visible].max(dim=1))
    signs = _EqualSigns(source)
    crossing = [0.0]
    for index, ((start, end), weight, link) in enumerate(zip(target_spans, weights, links, strict=True)):
        token = target[start:end].strip()
        aligned = source_spans[visible[link]][0]
        if index in anchors:
            aligned, weight = anchors[index], 1.0
        elif not _has_word(token):
            aligned = signs.next(token)
            weight = _PUNCTUATION_WEIGHT if aligned >= 0 else 0.0
        crossing.append(crossing[-1] + (-weight if aligned < position else weight))
    return min(candidates, key=lambda index: crossing[index])


def word_links(
    links: Iterable[AlignmentLink], source: str, target: str, sentences: Sequence[Span]
) -> list[tuple[Span, Span]]:
    """The links of words by attention, and of equal punctuation by order, as punctuation attends to anything.

    The order is that in a sentence, so a missing comma shifts no links of other sentences.

    Args:
        links: Links of all tokens, sentence by sentence.
        source: The source text.
        target: Its translation.
        sentences: The sentences of the source, in order.
    """
    starts = [start for start, _ in sentences]
    pairs: list[tuple[Span, Span]] = []
    for number, links_of_sentence in groupby(links, key=lambda link: bisect_right(starts, link.source[0]) - 1):
        first, last = sentences[number]
        signs = _EqualSigns(source[first:last])
        for link in links_of_sentence:
            token = target[slice(*link.target)].strip()
            if _has_word(token):
                pairs.append((link.source, link.target))
            elif (same := signs.next(token)) >= 0:
                pairs.append((shifted((same, same + len(token)), first), link.target))
    return pairs


class _EqualSigns:
    """Links punctuation of a sentence's translation with the same punctuation of the sentence, by order.

    Args:
        source: The sentence.
    """

    def __init__(self, source: str) -> None:
        self._source = source
        self._occurrences: dict[str, Iterator[int]] = {}

    def next(self, sign: str) -> int:
        """Index of the next occurrence of a sign in the sentence; -1 if there are no more."""
        if not sign:
            return -1
        if sign not in self._occurrences:
            spans = (match.span() for match in re.finditer(re.escape(sign), self._source))
            self._occurrences[sign] = (start for start, end in spans if not _is_in_word(self._source, start, end))
        return next(self._occurrences[sign], -1)
