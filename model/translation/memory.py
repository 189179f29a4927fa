"""What a translation memory has for a sentence, and how a translation used it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from model.text.symbols import Span

MemoryStatus = Literal["exact", "steered", "offered"]


@dataclass(frozen=True)
class MemoryMatch:
    """A stored translation of a sentence, or of a similar one.

    Args:
        source: The stored source text.
        target: Its translation.
        score: The similarity of the sentence and the stored source, 0 to 1; 1 only if they are equal except for the
            amount of whitespace.
        memory: The id of the memory.
        unit: The id of the unit in the memory.
    """

    source: str
    target: str
    score: float
    memory: str
    unit: int

    @property
    def is_exact(self) -> bool:
        """Whether the stored source is the sentence."""
        return self.score == 1.0


@dataclass(frozen=True)
class MemoryUse:
    """A match for a sentence of a translated text.

    Args:
        source: Characters of the sentence in the source text.
        match: The match.
        status: ``exact`` if the translation of the sentence is the stored one, ``steered`` if it was made from the
            stored translation of a similar sentence, ``offered`` if the model translated it without the match.
    """

    source: Span
    match: MemoryMatch
    status: MemoryStatus
