"""``/memories``: translation memories, their units, and look-ups in them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Annotated

from fastapi import APIRouter, Body, Query, Request, Response
from starlette.types import Receive, Scope, Send

from app.errors import (
    FieldProblem,
    ImportRunning,
    InvalidRequest,
    LimitExceeded,
    MemoryFileRefused,
    MemoryFileTooLarge,
    MemoryNotFound,
    MemoryStoreFull,
    MemoryUnitNotFound,
    StorageFull,
    StorageUnavailable,
)
from app.http.access import needs, owner_of
from app.http.attachment import attachment
from app.http.json_route import json_route
from app.http.limits import check_texts
from app.http.middleware import release_body
from app.http.openapi import BODY_ERRORS, answers
from app.http.schemas.answers import shown_time
from app.http.schemas.memories import (
    ADDED_UNITS,
    DELETED_MEMORIES,
    IMPORTED,
    MATCHES,
    MATCHES_REQUESTS,
    MEMORIES,
    MEMORY,
    MEMORY_REQUESTS,
    UNIT,
    UNITS,
    UNITS_REQUESTS,
    AddedUnitsBody,
    DeletedMemoriesBody,
    ImportedBody,
    MatchBody,
    MatchesBody,
    MatchesRequest,
    MemoriesBody,
    MemoryBody,
    MemoryRequest,
    UnitBody,
    UnitsBody,
    UnitsRequest,
)
from app.http.state import memories_of, settings_of
from app.memories.store import CORRECTIONS, MemoryInfo
from app.memories.tmx import MEDIA_TYPE, TMX_END, tmx_beginning, tmx_units
from app.memories.unit import StoredUnit, Unit
from app.telemetry.logs import log_fields

router = APIRouter(tags=["translation memories"], route_class=json_route(needs("translate")))

_STORAGE = (StorageFull, StorageUnavailable)

_ID = {"name": "id", "in": "path", "required": True, "schema": {"type": "string", "title": "Id"}}
"""The parameter in the OpenAPI document: FastAPI describes only those that it reads itself."""

_TMX = (
    '<tmx version="1.4"><header srclang="en"/><body><tu><tuv xml:lang="en"><seg>Good morning.</seg></tuv>'
    '<tuv xml:lang="de"><seg>Guten Morgen.</seg></tuv></tu></body></tmx>'
)

_FILE = {
    "requestBody": {
        "required": True,
        "content": {
            MEDIA_TYPE: {
                "schema": {"type": "string", "format": "binary"},
                "examples": {"a file": {"summary": "a file", "value": _TMX}},
            }
        },
    }
}


@router.post(
    "/memories",
    status_code=201,
    summary="Create a translation memory",
    responses=answers(MEMORY, *BODY_ERRORS, MemoryStoreFull, *_STORAGE, status=201),
)
async def create_memory(
    request: Request, body: Annotated[MemoryRequest, Body(openapi_examples=MEMORY_REQUESTS)]
) -> MemoryBody:
    """Create an empty translation memory. With `VERSO_DATA_DIR` it survives a restart."""
    return memory_body(await memories_of(request).create(owner_of(request), body.name, body.source))


@router.get(
    "/memories", summary="The translation memories of the caller", responses=answers(MEMORIES, StorageUnavailable)
)
async def memories(request: Request) -> MemoriesBody:
    """The memories of the caller's key, the oldest first; without keys, all."""
    return MemoriesBody(memories=[memory_body(memory) for memory in await memories_of(request).all(owner_of(request))])


@router.delete(
    "/memories",
    summary="Delete all translation memories of the caller",
    responses=answers(DELETED_MEMORIES, *_STORAGE),
)
async def delete_memories(request: Request) -> DeletedMemoriesBody:
    """Delete all memories of the caller's key, with their units; without keys, all."""
    return DeletedMemoriesBody(deleted=await memories_of(request).delete_all(owner_of(request)))


@router.post(
    "/memories/matches",
    summary="Look a sentence up",
    responses=answers(MATCHES, *BODY_ERRORS, LimitExceeded, MemoryNotFound, StorageUnavailable),
)
async def matches(
    request: Request, body: Annotated[MatchesRequest, Body(openapi_examples=MATCHES_REQUESTS)]
) -> MatchesBody:
    """The stored translations of a sentence and of similar ones, the best first.

    The similarity is that of the characters: twice those that both sentences have in the same order, divided by those
    of both together.
    """
    check_texts(body.text, settings_of(request))
    service, owner, ids = memories_of(request), owner_of(request), body.memory or ()
    if not service.has_any:
        if set(ids) - {CORRECTIONS}:
            raise MemoryNotFound(next(id for id in ids if id != CORRECTIONS))
        return MatchesBody(matches=[])
    similar = await service.look_up(
        lambda lookup: lookup.similar(
            lookup.pairs(owner, ids, body.source, body.target), body.text, body.threshold, body.limit
        )
    )
    return MatchesBody(matches=[MatchBody.model_validate(match) for match in similar])


@router.get(
    "/memories/{id}", summary="A translation memory", responses=answers(MEMORY, MemoryNotFound, StorageUnavailable)
)
async def memory(request: Request, id: str) -> MemoryBody:
    """A memory, without its units."""
    return memory_body(await memories_of(request).get(owner_of(request), id))


@router.delete(
    "/memories/{id}",
    summary="Delete a translation memory",
    responses=answers(MEMORY, MemoryNotFound, *_STORAGE),
)
async def delete_memory(request: Request, id: str) -> MemoryBody:
    """Delete a memory with its units, which are no longer found at once; the answer is the memory as it was."""
    return memory_body(await memories_of(request).delete(owner_of(request), id))


@router.get(
    "/memories/{id}/units",
    summary="The units of a translation memory",
    responses=answers(UNITS, MemoryNotFound, InvalidRequest, StorageUnavailable),
)
async def units(
    request: Request,
    id: str,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
    after: Annotated[int, Query(ge=0, le=2**62)] = 0,
    target: str | None = None,
) -> UnitsBody:
    """The units of a memory, the oldest first; with `target`, those with a translation in this language.

    A page has at most `limit` units. If there may be more, `next` is the `after` of the next page.
    """
    page = await memories_of(request).units(owner_of(request), id, after, limit, target)
    return UnitsBody(units=list(map(unit_body, page)), next=page[-1].id if len(page) == limit else None)


@router.post(
    "/memories/{id}/units",
    summary="Add units to a translation memory",
    responses=answers(ADDED_UNITS, *BODY_ERRORS, MemoryNotFound, MemoryStoreFull, *_STORAGE),
    openapi_extra={"parameters": [_ID]},
)
async def add_units(
    request: Request, body: Annotated[UnitsRequest, Body(openapi_examples=UNITS_REQUESTS)]
) -> AddedUnitsBody:
    """Add units, or replace those with the same source. All are added, or none.

    With the id `corrections` they are added to the caller's memory of corrected sentences, which is created if needed.
    """
    service, owner, id = memories_of(request), owner_of(request), request.path_params.get("id", "")
    units = [Unit(unit.source, unit.target, body.target) for unit in body.units]
    log_fields(request.scope)["units"] = len(units)
    if id != CORRECTIONS:
        added = await service.add(owner, id, units)
    elif body.source is None:
        raise InvalidRequest([FieldProblem("source", "is required for corrections")])
    else:
        memory, added = await service.add_corrections(owner, body.source, units)
        id = memory.id
    return AddedUnitsBody(memory=id, added=added.new, replaced=added.replaced, unchanged=added.unchanged)


@router.delete(
    "/memories/{id}/units/{unit}",
    summary="Delete a unit of a translation memory",
    responses=answers(UNIT, MemoryNotFound, MemoryUnitNotFound, InvalidRequest, *_STORAGE),
)
async def delete_unit(request: Request, id: str, unit: int) -> UnitBody:
    """Delete a unit; the answer is the unit as it was."""
    return unit_body(await memories_of(request).delete_unit(owner_of(request), id, min(max(unit, -1), 2**62)))


@router.post(
    "/memories/{id}/tmx",
    summary="Import a TMX file",
    responses=answers(
        IMPORTED, MemoryNotFound, MemoryStoreFull, MemoryFileRefused, MemoryFileTooLarge, ImportRunning, *_STORAGE
    ),
    openapi_extra=_FILE,
)
async def import_tmx(request: Request, id: str) -> ImportedBody:
    """Add the units of a TMX file, which is the body of the request, to a memory.

    The file is read while it arrives, so it may be large. After an error the memory keeps the units before it.
    """
    imported = await memories_of(request).import_tmx(owner_of(request), uncounted_body(request), id)
    added = imported.added
    log_fields(request.scope)["units"] = added.new + added.replaced + added.unchanged
    return ImportedBody(
        memory=imported.memory.id,
        added=added.new,
        replaced=added.replaced,
        unchanged=added.unchanged,
        skipped=imported.skipped,
    )


@router.get(
    "/memories/{id}/tmx",
    summary="Export a translation memory as TMX",
    response_class=Response,
    responses=answers(_TMX, MemoryNotFound, StorageUnavailable, media_type=MEDIA_TYPE),
)
async def export_tmx(request: Request, id: str) -> Response:
    """The units of a memory as a TMX file."""
    service, owner = memories_of(request), owner_of(request)
    return TmxExport(await service.get(owner, id), service.pages(owner, id))


class TmxExport(Response):
    """A response that is a TMX file, written page by page, in the task of the request.

    Args:
        memory: The memory.
        pages: Its units.
    """

    def __init__(self, memory: MemoryInfo, pages: AsyncGenerator[list[StoredUnit], None]) -> None:
        super().__init__(None, media_type=MEDIA_TYPE, headers=attachment(f"{memory.name[:100]}.tmx"))
        del self.headers["content-length"]
        self._source = memory.source
        self._pages = pages

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the file."""
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})

        async def send_part(content: bytes) -> None:
            await send({"type": "http.response.body", "body": content, "more_body": True})

        async with aclosing(self._pages):
            await send_part(tmx_beginning(self._source))
            async for page in self._pages:
                await send_part(tmx_units(self._source, page))
        await send({"type": "http.response.body", "body": TMX_END})


async def uncounted_body(request: Request) -> AsyncIterator[bytes]:
    """The body of a request piece by piece; what has been read is not among the bodies in memory."""
    async for chunk in request.stream():
        release_body(request.scope)
        yield chunk


def memory_body(memory: MemoryInfo) -> MemoryBody:
    """The description of a memory for clients."""
    return MemoryBody(
        id=memory.id,
        name=memory.name,
        source=memory.source,
        targets=memory.targets,
        units=memory.num_units,
        corrections=memory.purpose == CORRECTIONS,
        created_at=shown_time(memory.created),
        updated_at=shown_time(memory.updated),
    )


def unit_body(unit: StoredUnit) -> UnitBody:
    """A unit for clients."""
    return UnitBody(
        id=unit.id,
        source=unit.source,
        target=unit.target,
        language=unit.language,
        created_at=shown_time(unit.created),
        updated_at=shown_time(unit.updated),
        used_at=None if unit.used is None else shown_time(unit.used),
    )
