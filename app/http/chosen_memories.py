"""The translation memories that a request names."""

from __future__ import annotations

from fastapi import Request

from app.http.access import owner_of
from app.http.schemas.memory_fields import MemoryFields
from app.http.state import memories_of
from app.serving.request import Memory, MemoryChoice


async def chosen_memories(request: Request, body: MemoryFields) -> Memory | None:
    """The memories of a request; None if it names none.

    Args:
        request: The request.
        body: Its body.

    Raises:
        MemoryNotFound: The caller has no memory with one of the ids.
    """
    choice = await memory_choice(request, body)
    return None if choice is None else memories_of(request).chosen(owner_of(request), choice)


async def memory_choice(request: Request, body: MemoryFields) -> MemoryChoice | None:
    """As :func:`chosen_memories`, to be stored with a document."""
    if body.memory is None:
        return None
    choice = MemoryChoice(tuple(body.memory), body.memory_threshold)
    await memories_of(request).check(owner_of(request), choice)
    return choice
