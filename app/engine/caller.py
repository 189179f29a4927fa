"""Callers and their priorities. The queue is fair among callers."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class Priority(IntEnum):
    """How urgent the sentences of a caller are; smaller values go first."""

    INTERACTIVE = 0
    """A client waits for the answer."""

    BULK = 1
    """No client waits for each answer: documents, large jobs."""

    @property
    def label(self) -> str:
        """Its name in metrics and on the command line."""
        return self.name.lower()


@dataclass(frozen=True)
class Caller:
    """A client, key or job that shares the model with others.

    The same id with a different priority is a different caller with its own queue.

    Args:
        id: Identifies the caller, for example by an address or by the id of a key.
        priority: How urgent its sentences are.
    """

    id: str
    priority: Priority = Priority.INTERACTIVE

    def __hash__(self) -> int:
        """From the id alone: the engine counts its sentences by caller in most turns."""
        return hash(self.id)


UNKNOWN_CALLER = Caller("")
"""The caller of sentences whose caller is unknown."""
