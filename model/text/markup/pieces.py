"""The choice of pieces of a translation: consecutive words, disjoint from the pieces chosen before."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Sequence


class Pieces:
    """Disjoint pieces of a translation.

    Args:
        weights: The weights of all words summed up, from 0: ``weights[k]`` is that of the first k words. Words that
            belong to no word of the text have weight 0.
    """

    def __init__(self, weights: Sequence[int]) -> None:
        self._weights = weights
        self._taken: list[tuple[int, int]] = []

    def take(self, first: int, last: int) -> None:
        """Reserve the words ``first`` to ``last - 1``."""
        insort(self._taken, (first, last))

    def is_free(self, first: int, last: int) -> bool:
        """Whether no piece has one of these words."""
        index = bisect_right(self._taken, (first, first))
        after = index < len(self._taken) and self._taken[index][0] < last
        before = index > 0 and self._taken[index - 1][1] > first
        return not (after or before)

    def best(self, own: Sequence[int]) -> tuple[int, int] | None:
        """The free piece with the largest weight of own words minus that of others; of equal ones that with most words.

        This is the maximum subarray (Bentley 1984) over the own words, with the others between them as gaps.

        Args:
            own: Words that should be in the piece, in order.

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

    def nearest_unaligned(self, position: int, first: int, last: int, reach: int) -> int | None:
        """The free word of weight 0 between two words that is nearest to a position and within reach, or None."""
        for distance in range(reach):
            for word in (position + distance, position - 1 - distance):
                is_unaligned = first <= word < last and self._weights[word] == self._weights[word + 1]
                if is_unaligned and self.is_free(word, word + 1):
                    return word
        return None
