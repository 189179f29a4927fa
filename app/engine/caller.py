"""The callers among which the queue is fair."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum


class Priority(IntEnum):
    """How urgent the sentences of a caller are; a smaller value goes first."""

    INTERACTIVE = 0
    """A client waits for the answer."""

    BULK = 1
    """No client waits for each answer: documents, large jobs."""

    @property
    def label(self) -> str:
        """Its name for people."""
        return self.name.lower()


@dataclass(frozen=True)
class Caller:
    """A client, key or job among which the model is shared.

    The same id with another priority is another caller, with a queue of its own.

    Args:
        id: Distinguishes callers, for example an address or a key's id.
        priority: How urgent its sentences are.
    """

    id: str
    priority: Priority = field(default=Priority.INTERACTIVE, hash=False)  # hashing an enumeration is slow


UNKNOWN_CALLER = Caller("")
"""The caller of sentences whose caller is unknown."""
