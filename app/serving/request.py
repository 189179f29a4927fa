"""A request to a translation service: texts, languages, options, and its caller."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from app.engine.caller import UNKNOWN_CALLER, Caller
from model.translation.memory import MemoryMatch
from model.translation.options import TranslationOptions


@dataclass(frozen=True)
class MemoryChoice:
    """The translation memories of a request, as they are stored with a document.

    Args:
        ids: The ids of the memories; earlier ones count first.
        threshold: The score from which on the translation of a similar sentence is used; None to offer it only.
    """

    ids: tuple[str, ...]
    threshold: float | None = None


class Memory(Protocol):
    """The translation memories of a request. Its methods belong to the event loop."""

    @property
    def steers(self) -> bool:
        """Whether the stored translations of similar sentences are used."""
        ...

    async def exact(self, texts: Sequence[str], source: str, target: str) -> Sequence[MemoryMatch | None]:
        """The stored translations of texts, or None.

        Args:
            texts: The texts.
            source: Their language.
            target: The target language.
        """
        ...

    async def best(self, sentences: Sequence[str | None], source: str, target: str) -> Sequence[MemoryMatch | None]:
        """The stored translations of sentences, or that of the most similar one, or None.

        Args:
            sentences: The sentences; None is not looked up.
            source: Their language.
            target: The target language.
        """
        ...


@dataclass(frozen=True)
class TranslationRequest:
    """Texts and how to translate them.

    Args:
        texts: The texts; they may be blank.
        source: Their language, ``auto``, or None.
        target: The target language, or None.
        options: How to decode.
        caller: Its caller; the models are shared fairly among callers.
        waits: Whether to wait, until the deadline, for models that are loading and for room in the queue instead of
            being refused at once: for clients that retry only long after a refusal.
        memory: Where translations of its sentences are looked up; None for nowhere.
        within_s: Seconds until the deadline, for a request that has used time already; by default the settings'.
    """

    texts: Sequence[str]
    source: str | None
    target: str | None
    options: TranslationOptions
    caller: Caller = UNKNOWN_CALLER
    waits: bool = False
    memory: Memory | None = None
    within_s: float | None = None
