"""A cohort: sentences that decode together. They join, step and leave, and none waits for a longer one."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from model.decoding.sentence import DecodingRequest, Finished


class Cohort(Protocol):
    """Sentences of one beam width that decode together. Not thread-safe: one thread owns it."""

    @property
    def width(self) -> int:
        """Rows of each sentence: the beam size, 1 for greedy search."""
        ...

    @property
    def num_sentences(self) -> int:
        """Sentences that decode now, N."""
        ...

    @property
    def num_rows(self) -> int:
        """Rows of these sentences, N * K."""
        ...

    @property
    def keys(self) -> list[int]:
        """The sentences' keys."""
        ...

    @property
    def longest_source(self) -> int:
        """Tokens of the longest source, markers included."""
        ...

    def join(self, requests: Sequence[DecodingRequest]) -> list[Finished]:
        """Add sentences.

        Args:
            requests: New sentences of this cohort's width, whose keys no sentence of the cohort has.

        Returns:
            Sentences that are already finished.
        """
        ...

    def step(self) -> list[Finished]:
        """Generate at least one token for every sentence; a back-end may take several steps in one call.

        Returns:
            Sentences that finished, and have left.
        """
        ...

    def leave(self, keys: Collection[int]) -> None:
        """Drop cancelled sentences; unknown keys are ignored."""
        ...
