"""Placement of line breaks in a translation: the ends of lines in their order, the others between words."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate, groupby

from model.text.markup.marked_text import MarkedText, MarkKind
from model.text.markup.word_links import WordLinks
from model.text.symbols import Span


def place_breaks(marked: MarkedText, translation: str, links: WordLinks, proper: Sequence[int]) -> dict[int, Span]:
    """The characters of a translation that line breaks replace, by the index of their mark.

    Lines are translated one by one, so their ends keep their order. A break in a sentence goes to the space that the
    fewest links cross, so that the words on both of its sides are those of the source as far as possible.

    Args:
        marked: The text.
        translation: Its translation.
        links: Their words.
        proper: The words of the translation that are no signs and no kept texts; a line has at least one.

    Returns:
        The line breaks that have a position.
    """
    breaks = [(index, mark.start) for index, mark in enumerate(marked.marks) if mark.kind is MarkKind.BREAK]
    if not breaks:
        return {}
    ends = [index for index, character in enumerate(translation) if character == "\n"]
    lines = list(accumulate((character == "\n" for character in marked.text), initial=0))
    starts = [start for start, _ in links.target]
    edges = [0, *(bisect_left(starts, end) for end in ends), len(starts)]
    is_line_by_line = len(ends) == lines[-1]
    spans: dict[int, Span] = {}
    first = 0
    for line, group in groupby(breaks, lambda mark: lines[mark[1]]):
        *inside, last = group
        if marked.text[last[1] : marked.marks[last[0]].end] != "\n":
            inside.append(last)
        elif is_line_by_line:
            spans[last[0]] = ends[line], ends[line] + 1
        begin, end = edges[line : line + 2] if is_line_by_line else (0, len(starts))
        first = max(first, begin)
        num_words = bisect_left(proper, end) - bisect_left(proper, first)
        least = 2 if num_words >= 2 * len(inside) + 2 else 1
        for num_left, (index, position) in zip(range(len(inside), 0, -1), inside, strict=True):
            word = _best_word(
                translation, position, first, (proper, bisect_left(proper, end) - least * num_left), links, least
            )
            if word >= 0:
                spans[index] = links.target[word][1], links.target[word][1] + 1
                first = word + 1
    return spans


def _best_word(
    translation: str, position: int, first: int, after: tuple[Sequence[int], int], links: WordLinks, least: int
) -> int:
    """The word before the space that a line break replaces, or -1 if there is none.

    Args:
        translation: The translation.
        position: Index of the line break in the text.
        first: The first word that the line can have.
        after: The words that are no signs, and the index of the last one of them that may be after the break.
        links: The words of both.
        least: The fewest words of the line.
    """
    proper, limit = after
    begin = bisect_left(proper, first)
    if limit < begin + least:
        return -1
    crossing, fewest, best = 0, 0, -1
    for word in range(first, proper[limit]):
        source = links.source_of.get(word)
        if source is not None:
            crossing += 1 if links.source[source][0] >= position else -1
        end = links.target[word][1]
        if word >= proper[begin + least - 1] and translation[end].isspace() and (best < 0 or crossing < fewest):
            best, fewest = word, crossing
    return best
