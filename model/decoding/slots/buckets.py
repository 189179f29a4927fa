"""Sizes of slots. There are few, each a power of two, so that few graphs are captured."""

from __future__ import annotations

from dataclasses import dataclass

_SHORTEST_SOURCE, _SHORTEST_TARGET = 16, 32

SHRINK_AT = 4
"""Sentences move to a smaller bucket if it is smaller by this factor: moving copies the caches."""


@dataclass(frozen=True)
class Bucket:
    """The number and size of a set of slots.

    Args:
        slots: Sentences, N.
        width: Rows of each sentence, K.
        source: Source tokens of each sentence, S.
        target: Target columns of each sentence, start token and given tokens included, T.
    """

    slots: int
    width: int
    source: int
    target: int

    @classmethod
    def for_needs(cls, slots: int, width: int, source: int, target: int) -> Bucket:
        """The smallest bucket of this width that is large enough."""
        return cls(
            next_power_of_two(slots),
            width,
            max(_SHORTEST_SOURCE, next_power_of_two(source)),
            max(_SHORTEST_TARGET, next_power_of_two(target)),
        )

    @property
    def size(self) -> int:
        """Cache columns of all slots: what memory and time grow with."""
        return self.slots * (self.source + self.width * self.target)

    def serves(self, needed: Bucket) -> bool:
        """Whether this bucket is at least as large as another, and not much larger (:data:`SHRINK_AT`)."""
        fits = self.slots >= needed.slots and self.source >= needed.source and self.target >= needed.target
        return self.width == needed.width and fits and self.size < SHRINK_AT * needed.size


def next_power_of_two(number: int) -> int:
    """The smallest power of two that is at least ``number``, which is at least 1."""
    return 1 << (number - 1).bit_length()
