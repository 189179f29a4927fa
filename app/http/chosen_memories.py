"""The translation memories that a request names."""

from __future__ import annotations

from fastapi import Request

from app.http.access import NOBODY, owner_of
from app.http.schemas.memory_fields import MemoryFields
from app.http.state import memories_of, settings_of
from app.memories.store import CORRECTIONS
from app.serving.request import Memory, MemoryChoice

_CORRECTIONS = MemoryChoice((CORRECTIONS,), threshold=1.0)


def keeps_corrections(request: Request) -> bool:
    """Whether the caller's corrections are stored without naming a memory; if there are keys, only with a key."""
    return settings_of(request).suggestions == "on" and owner_of(request) != NOBODY


def corrections_of(request: Request) -> MemoryChoice | None:
    """The corrections of the caller, for requests of protocols that name no memory; None if none are stored."""
    return _CORRECTIONS if keeps_corrections(request) and memories_of(request).has_any else None


async def chosen_memories(request: Request, body: MemoryFields) -> Memory | None:
    """The memories of a request; None if it names none.

    Args:
        request: The request.
        body: Its body.

    Raises:
        MemoryNotFound: The caller has no memory with one of the ids.
    """
    return memory_of(request, await memory_choice(request, body))


def memory_of(request: Request, choice: MemoryChoice | None) -> Memory | None:
    """The memories of the caller that a request has chosen, for a translation; None if it has chosen none."""
    return None if choice is None else memories_of(request).chosen(owner_of(request), choice)


async def memory_choice(request: Request, body: MemoryFields) -> MemoryChoice | None:
    """As :func:`chosen_memories`, to be stored with a document."""
    if body.memory is None:
        return None
    choice = MemoryChoice(tuple(body.memory), body.memory_threshold)
    await memories_of(request).check(owner_of(request), choice)
    return choice
