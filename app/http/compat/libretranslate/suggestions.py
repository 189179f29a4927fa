"""Suggested translations: stored in the memory of the caller's corrections, and used by ``/translate``."""

from __future__ import annotations

from fastapi import Request

from app.errors import InvalidParameter
from app.http.access import NOBODY, owner_of
from app.http.compat.libretranslate.languages import find_language
from app.http.compat.libretranslate.parameters import not_supported, read_string
from app.http.compat.parameters import Parameters
from app.http.state import memories_of, settings_of
from app.memories.store import CORRECTIONS
from app.memories.unit import Unit
from app.serving.request import Memory, MemoryChoice
from model.languages import LanguagePairs

SUGGESTIONS_DISABLED = "Suggestions are disabled on this server."
"""LibreTranslate's words."""

CHOICE = MemoryChoice((CORRECTIONS,))


def takes_suggestions(request: Request) -> bool:
    """Whether suggestions of a caller are stored. If there are keys, those of callers without one are not."""
    return settings_of(request).suggestions == "on" and owner_of(request) != NOBODY


def suggestions_of(request: Request) -> Memory | None:
    """The suggestions that translations of a caller use; None if there are none."""
    memories = memories_of(request)
    if not takes_suggestions(request) or not memories.has_any:
        return None
    return memories.chosen(owner_of(request), CHOICE)


async def add_suggestion(request: Request, parameters: Parameters, pairs: LanguagePairs) -> None:
    """Store a suggestion.

    Args:
        request: The request.
        parameters: The fields sent.
        pairs: The language pairs served.

    Raises:
        InvalidParameter: A field is missing or wrong.
        MemoryStoreFull: No more can be stored.
    """
    text, translation = read_string(parameters, "q"), read_string(parameters, "s")
    source, target = _language(parameters, "source", pairs), _language(parameters, "target", pairs)
    flaw = Unit(text, translation, target).flaw
    if flaw is not None:
        raise InvalidParameter(f"Invalid request: {flaw}")
    await memories_of(request).add_correction(owner_of(request), source, target, text, translation)


def _language(parameters: Parameters, name: str, pairs: LanguagePairs) -> str:
    """The language in a field, as its model spells it."""
    sent = read_string(parameters, name)
    code = find_language(sent, pairs.languages)
    if code is None:
        raise not_supported(sent)
    return code
