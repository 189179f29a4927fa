"""The use of translation memories, in answers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """A sentence that a translation memory has, or a similar one.

    Args:
        source: The sentence, in the source text.
        status: ``exact`` if its translation is the stored one, ``steered`` if it was made from that of a similar
            sentence, ``offered`` if the model translated it, and a similar sentence is stored.
        score: The similarity, 0 to 1.
        memory: The id of the memory.
        unit: The id of the unit in the memory.
        stored_source: The stored sentence.
        stored_target: Its translation.
    """

    source: tuple[int, int]
    status: str
    score: float
    memory: str
    unit: int
    stored_source: str
    stored_target: str


@dataclass(frozen=True, slots=True)
class MemoryCounts:
    """How many sentences of a document translation memories have, by the status of :class:`MemoryUse`.

    Args:
        exact: Sentences whose translation is the stored one.
        steered: Sentences whose translation was made from that of a similar sentence.
        offered: Sentences that the model translated, and a similar one is stored.
    """

    exact: int
    steered: int
    offered: int
