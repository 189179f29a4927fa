"""A document as its owner sees it, and as it is stored."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from pydantic import TypeAdapter

from app.engine.caller import Priority
from app.serving.request import Memory, MemoryChoice
from model.translation.options import TranslationOptions

Status = Literal["queued", "running", "done", "failed", "cancelled"]

ACTIVE: tuple[Status, ...] = ("queued", "running")
"""Statuses of documents that are or will be translated."""

OPTIONS = TypeAdapter(TranslationOptions)
"""Converts options to JSON and back."""

MEMORY = TypeAdapter(MemoryChoice)
"""Converts a choice of memories to JSON and back."""

MemoryOf = Callable[[str, MemoryChoice], Memory]
"""The memories that an owner has chosen."""

KEPT_S = 86_400.0
"""Seconds for which a document is kept after it has ended."""


class MemoryCounts(NamedTuple):
    """How translation memories were used for sentences (:class:`model.translation.memory.MemoryUse`).

    Args:
        exact: Sentences whose translation is the stored one.
        steered: Sentences whose translation was made from that of a similar one.
        offered: Sentences that the model translated, and a similar one is stored.
    """

    exact: int = 0
    steered: int = 0
    offered: int = 0


NO_MEMORY = MemoryCounts()
"""No sentence is in a memory."""

MAX_ATTEMPTS = 3
"""How often the same units are translated together by services that end before a unit is finished. The next attempt
translates each unit alone, and if the service ends again, the unit at which it ended is given up."""

DATABASE = "documents.sqlite3"
"""The file of the tables, in the folder of the documents."""


@dataclass(frozen=True)
class Document:
    """A document to translate.

    Args:
        id: Its id, a secret of its owner.
        filename: Its name at its owner's; shown, and never used as a path.
        source: Its language, in the model's spelling.
        target: The target language.
        options: The :class:`~model.translation.options.TranslationOptions`, as JSON.
        status: Its status.
        num_characters: Characters of its texts.
        num_done: Sentences that are processed.
        num_sentences: All its sentences, or None before they have been counted.
        num_left: Processed sentences that could not be translated and stay as they are.
        created_at: When it was added, in seconds since 1970.
        expires_at: When it will be deleted.
        problem: Why it failed, as an RFC 9457 problem.
        owner: The id of its owner's key; empty without a key.
        priority: The priority of its owner's documents.
        request: Identifies the request that added it; see :class:`Sender`.
        memory: The :class:`~app.serving.request.MemoryChoice`, as JSON; empty if none is used.
        num_exact: Processed sentences that the memories have; this and the next two are those of :class:`MemoryCounts`.
        num_steered: Processed sentences for which they have a similar one that was used.
        num_offered: Processed sentences for which they have a similar one that was not used.
        seconds_left: Estimated seconds until it is done; None if unknown.
    """

    id: str
    filename: str
    source: str
    target: str
    options: str
    status: Status
    num_characters: int
    created_at: float
    expires_at: float
    num_done: int = 0
    num_sentences: int | None = None
    num_left: int = 0
    problem: dict[str, Any] | None = None
    owner: str = ""
    priority: Priority = Priority.INTERACTIVE
    request: str = ""
    memory: str = ""
    num_exact: int = 0
    num_steered: int = 0
    num_offered: int = 0
    seconds_left: float | None = None

    @property
    def was_in_target(self) -> bool:
        """Whether it came back unchanged because its sentences were in the target language."""
        return self.status == "done" and self.source == self.target and bool(self.num_sentences)

    @property
    def memory_counts(self) -> MemoryCounts | None:
        """How memories were used so far; None if none is used."""
        return MemoryCounts(self.num_exact, self.num_steered, self.num_offered) if self.memory else None

    @property
    def is_active(self) -> bool:
        """Whether it is or will be translated."""
        return self.status in ACTIVE


async def _any_number(num_characters: int) -> None:
    """Admit every document."""


async def _uncounted() -> None:
    """Count nothing."""


@dataclass(frozen=True)
class Sender:
    """The caller that sends a document.

    Args:
        owner: The id of its key, empty for a caller without a key, or None if the service has no keys.
        priority: The priority of its documents.
        request: Identifies the request and its repetitions; empty if repetitions cannot be recognised.
        admit: Called with the number of characters before the document is stored; its exception refuses the document.
        count: Called when the document is stored; its exception refuses the document, which is then removed.
    """

    owner: str | None = None
    priority: Priority = Priority.INTERACTIVE
    request: str = ""
    admit: Callable[[int], Awaitable[None]] = _any_number
    count: Callable[[], Awaitable[None]] = _uncounted


ANYBODY = Sender()
"""A caller of a service without keys."""


@dataclass(frozen=True)
class DocumentResult:
    """A translated file.

    Args:
        filename: The name of the source, with the target language before the ending.
        media_type: Its media type.
        content: Its bytes.
    """

    filename: str
    media_type: str
    content: bytes
