"""Words of a text and of its translation, which of them belong together, and the choice of consecutive ones."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator, Sequence

from model.text.symbols import Span

# Accents and vowel signs, which belong to the letter before them, and joiners.
_SIGNS = (
    "\u0300-\u036f\u0483-\u0489\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06ed\u0711\u0730-\u074a"
    "\u0900-\u0dff\u0e31-\u0e4e\u0eb1-\u0ece\u0f00-\u0fff\u102b-\u109d\u17b4-\u17dd\u1dc0-\u1dff\u200c\u200d"
    "\u20d0-\u20ff\ufe00-\ufe0f\ufe20-\ufe2f\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f"
)
# Chinese and Japanese have no spaces, so each character is a word here.
_IDEOGRAPHS = "\u2e80-\u2fff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_WORD = re.compile(rf"[{_IDEOGRAPHS}][{_SIGNS}]*|(?:(?![{_IDEOGRAPHS}])\w|[{_SIGNS}])+|[^\w\s][{_SIGNS}]*")
_MAX_WORDS_OF_LINK = 8

REACH = 8
"""Number of words on each side of a mark among which an aligned one is searched."""


def words(text: str, whole: Sequence[Span] = ()) -> list[Span]:
    """The words of a text; each punctuation mark is one as well.

    Args:
        text: Any text.
        whole: Spans that are one word each, in order.
    """
    spans: list[Span] = []
    position = 0
    for start, end in [*whole, (len(text), len(text))]:
        spans += [match.span() for match in _WORD.finditer(text, position, start)]
        if start < end:
            spans.append((start, end))
        position = end
    return spans


def pattern_of(text: str, start: int, end: int) -> str:
    """Matches a part of a text: as a part of a longer word only if it is one there.

    Args:
        text: The text.
        start: Index of the first character of the part.
        end: Index after its last one.
    """
    before, after = text[max(0, start - 1) : start + 1], text[end - 1 : end + 1]
    is_begin, is_end = not (len(before) == 2 and before.isalnum()), not (len(after) == 2 and after.isalnum())
    return (
        (r"(?<!\w)" if text[start].isalnum() and is_begin else "")
        + re.escape(text[start:end])
        + (r"(?!\w)" if text[end - 1].isalnum() and is_end else "")
    )


class WordLinks:
    """The words of a text and of its translation, linked by a word alignment.

    Args:
        source: Words of the text.
        target: Words of its translation.
        links: Spans of the text and of the translation that belong together, in any order.
        nearest: For parts of the text without a link, the most probable words of the translation.
    """

    def __init__(
        self,
        source: Sequence[Span],
        target: Sequence[Span],
        links: Sequence[tuple[Span, Span]],
        nearest: Sequence[tuple[Span, Span]] = (),
    ) -> None:
        self.source = source
        self.target = target
        self._source_starts = [start for start, _ in source]
        self._target_starts = [start for start, _ in target]
        votes: dict[int, dict[int, float]] = {}
        for source_span, target_span in links:
            for target_word, target_size in _overlapping(target, self._target_starts, target_span):
                counts = votes.setdefault(target_word, {})
                for source_word, source_size in _overlapping(source, self._source_starts, source_span):
                    share = source_size / (source_span[1] - source_span[0])
                    counts[source_word] = counts.get(source_word, 0) + target_size * share
        self.source_of = {
            word: max(counts, key=lambda source_word: (counts[source_word], -source_word))
            for word, counts in votes.items()
            if counts
        }
        """By word of the translation: the word of the text it belongs to, for those that belong to one."""
        self.targets_of: dict[int, list[int]] = {}
        """By word of the text: the words of the translation that belong to it, in order."""
        for word in sorted(self.source_of):
            self.targets_of.setdefault(self.source_of[word], []).append(word)
        self.nearest_to: dict[int, int] = {}
        """By word of the text without a word of the translation: the one that it most probably belongs to."""
        for target_word, counts in votes.items():
            for source_word in counts:
                if source_word not in self.targets_of:
                    self.nearest_to.setdefault(source_word, target_word)
        for source_span, target_span in nearest:
            for target_word, _ in _overlapping(target, self._target_starts, target_span):
                for source_word, _ in _overlapping(source, self._source_starts, source_span):
                    if source_word not in self.targets_of:
                        self.nearest_to.setdefault(source_word, target_word)

    def source_in(self, start: int, end: int) -> range:
        """The words of the text that start in a span."""
        return range(bisect_left(self._source_starts, start), bisect_left(self._source_starts, end))

    def source_before(self, position: int) -> int:
        """The last word of the text that ends at or before a position, or -1."""
        index = bisect_left(self._source_starts, position) - 1
        return index if index < 0 or self.source[index][1] <= position else index - 1

    def source_after(self, position: int) -> int:
        """The first word of the text that starts at or after a position, or the number of words."""
        return bisect_left(self._source_starts, position)

    def source_around(self, start: int, end: int) -> int:
        """The word of the text that contains these characters and at least one more, or -1."""
        index = bisect_right(self._source_starts, start) - 1
        if index < 0:
            return -1
        word = self.source[index]
        inside = (
            word[0] < start < word[1] if start == end else word[0] <= start and end <= word[1] and (start, end) != word
        )
        return index if inside else -1


def _overlapping(spans: Sequence[Span], starts: Sequence[int], span: Span) -> Iterator[tuple[int, int]]:
    """The first words that a span overlaps, with the number of common characters."""
    index = max(0, bisect_right(starts, span[0]) - 1)
    for word in range(index, min(len(spans), index + _MAX_WORDS_OF_LINK)):
        start, end = spans[word]
        if start >= span[1]:
            break
        common = min(span[1], end) - max(span[0], start)
        if common > 0:
            yield word, common


class Pieces:
    """Disjoint pieces of a translation.

    Args:
        weights: Cumulative weights: ``weights[k]`` is the sum for the first k words. Words that belong to no word of
            the text have weight 0.
    """

    def __init__(self, weights: Sequence[int]) -> None:
        self._weights = weights
        self._reserved: list[tuple[int, int]] = []

    def reserve(self, first: int, last: int) -> None:
        """Make the words ``first`` to ``last - 1`` a piece."""
        insort(self._reserved, (first, last))

    def is_free(self, first: int, last: int) -> bool:
        """Whether no piece has one of these words."""
        index = bisect_right(self._reserved, (first, first))
        after = index < len(self._reserved) and self._reserved[index][0] < last
        before = index > 0 and self._reserved[index - 1][1] > first
        return not (after or before)

    def best(self, own: Sequence[int]) -> tuple[int, int] | None:
        """The free piece with the largest weight of own words minus that of others, then with the most words.

        This is the maximum subarray (Bentley 1984) over the own words, with the others between them as gaps.

        Args:
            own: The words that the piece should contain, in order.

        Returns:
            Its first word and the word after its last one, or None if no own word is free.
        """
        best: tuple[int, int] | None = None
        best_value = (0, 0)
        start, value, count, previous = 0, 0, 0, -1
        for word in own:
            if not self.is_free(word, word + 1):
                continue
            gap = self._weights[word] - self._weights[previous + 1] if previous >= 0 else 0
            if previous < 0 or value < gap or not self.is_free(previous, word):
                start, value, count = word, 0, 0
            else:
                value -= gap
            value += self._weights[word + 1] - self._weights[word]
            count += 1
            previous = word
            if (value, count) > best_value:
                best, best_value = (start, word + 1), (value, count)
        return best

    def nearest(self, words: Sequence[int], limits: tuple[int, int], near: int, heaviest: int) -> int | None:
        """The free word of at most a weight that is nearest to a position and within reach, or None.

        Args:
            words: The words to choose from, in order.
            limits: The range of indices in them.
            near: The index in them of the first word after the position.
            heaviest: The largest weight.
        """
        for distance in range(REACH):
            for index in (near + distance, near - 1 - distance):
                if limits[0] <= index < limits[1]:
                    word = words[index]
                    is_light = self._weights[word + 1] - self._weights[word] <= heaviest
                    if is_light and self.is_free(word, word + 1):
                        return word
        return None
