"""A request to a translation service: texts, languages, options, and its caller."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.engine.caller import UNKNOWN_CALLER, Caller
from model.translation.options import TranslationOptions


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
        within_s: Seconds until the deadline, for a request that has used time already; by default the settings'.
    """

    texts: Sequence[str]
    source: str | None
    target: str | None
    options: TranslationOptions
    caller: Caller = UNKNOWN_CALLER
    waits: bool = False
    within_s: float | None = None
