"""Suggested translations, which are stored in the memory of the caller's corrections."""

from __future__ import annotations

from fastapi import Request

from app.errors import InvalidParameter
from app.http.access import owner_of
from app.http.compat.libretranslate.languages import find_language
from app.http.compat.libretranslate.parameters import not_supported, read_string
from app.http.compat.parameters import Parameters
from app.http.state import memories_of
from app.memories.unit import Unit
from model.languages import LanguagePairs

SUGGESTIONS_DISABLED = "Suggestions are disabled on this server."
"""LibreTranslate's words."""


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
    unit = Unit(text, translation, target)
    if unit.flaw is not None:
        raise InvalidParameter(f"Invalid request: {unit.flaw}")
    await memories_of(request).add_corrections(owner_of(request), source, [unit])


def _language(parameters: Parameters, name: str, pairs: LanguagePairs) -> str:
    """The language in a field, as its model spells it."""
    sent = read_string(parameters, name)
    code = find_language(sent, pairs.languages)
    if code is None:
        raise not_supported(sent)
    return code
