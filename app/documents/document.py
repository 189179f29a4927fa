"""A document as its owner sees it, and as it is stored."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import TypeAdapter

from app.engine.caller import Priority
from model.translation.options import TranslationOptions

Status = Literal["queued", "running", "done", "failed", "cancelled"]

ACTIVE: tuple[Status, ...] = ("queued", "running")
"""Of documents that are being translated, or will be."""


OPTIONS = TypeAdapter(TranslationOptions)
"""How options are stored."""

KEPT_S = 86_400.0
"""Seconds for which a document is kept after it has ended."""

DATABASE = "documents.sqlite3"
"""The file of the tables, in the folder of the documents."""


@dataclass(frozen=True)
class Document:
    """A document to translate.

    Args:
        id: Its id, which only its owner knows.
        filename: What its owner calls it; shown, and never used as a path.
        source: Its language, in the model's spelling.
        target: The target language.
        options: How to translate it, as JSON.
        status: What has become of it.
        num_characters: Characters of its texts.
        num_done: Sentences that are translated.
        num_sentences: All its sentences, or None before it has been counted.
        num_left: Of those done, sentences that could not be translated and stay as they are.
        created_at: When it was added, in seconds since 1970.
        expires_at: When it will be deleted.
        problem: Why it failed, as RFC 9457 describes it.
        owner: Whose it is: the id of a key, or nothing.
        priority: How urgent its owner's documents are.
        request: The request that added it, as :class:`Sender` has it.
        seconds_left: Seconds until it is done, from the speed so far; None if that is not known.
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
    seconds_left: float | None = None

    @property
    def is_active(self) -> bool:
        """Whether it is being translated, or will be."""
        return self.status in ACTIVE


async def _any_number(num_characters: int) -> None:
    """Admits every document."""


async def _uncounted() -> None:
    """Counts nothing."""


@dataclass(frozen=True)
class Sender:
    """Who sends a document.

    Args:
        owner: Whose it becomes: the id of a key, nothing for a caller without one, or None if there are no keys.
        priority: How urgent its owner's documents are.
        request: What the request and its repetitions have in common, and no other request has; nothing if it cannot be
            told from others.
        admit: Called with the number of its characters before it is stored; what it raises refuses the document.
        count: Called when it is stored; what it raises refuses the document, which is then removed.
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
        filename: The name of the source, with the target language before its ending.
        media_type: What it is.
        content: Its bytes.
    """

    filename: str
    media_type: str
    content: bytes
