"""``/v3/translation_memories``: translation memories, and imports and exports of TMX files as jobs."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Request
from starlette.responses import Response

from app.errors import InvalidParameter, MemoryFileTooLarge, ServiceError, problem_for
from app.http.access import owner_of
from app.http.compat.deepl.dependency import ADMITTED, AdmittedRoute, reads
from app.http.compat.deepl.documentation import errors, no_content, success
from app.http.compat.deepl.memory_answers import (
    MEMORIES,
    MEMORY,
    MEMORY_EXPORT,
    MEMORY_IMPORT,
    MEMORY_JOB,
    MEMORY_SEGMENTS,
    DeepLMemories,
    DeepLMemory,
    DeepLMemoryExport,
    DeepLMemoryImport,
    DeepLMemoryJob,
    DeepLMemoryParameters,
    DeepLMemoryResult,
    DeepLMemorySegment,
    DeepLMemorySegments,
    DeepLMemoryTarget,
    DeepLSourceFile,
)
from app.http.compat.deepl.memory_jobs import MemoryJob
from app.http.compat.deepl.parameters import (
    IMPORT_EXAMPLES,
    ImportParameters,
    MemoriesParameters,
    SegmentsParameters,
)
from app.http.compat.deepl.protocol import answer, state_of
from app.http.routes.memories import TmxExport, uncounted_body
from app.http.state import memories_of, settings_of
from app.memories.store import MemoryInfo
from app.memories.unit import StoredUnit

router = APIRouter(route_class=AdmittedRoute)
files_router = APIRouter()
"""Routes without a key: their URLs are secrets of jobs, which clients use without a key."""

_PAGE_UNITS = 500
_MAX_SCANNED = 10_000
"""Units that one page of a filtered list reads; the next page continues after them."""


@router.get(
    "/v3/translation_memories",
    name="deepl_memories",
    summary="Translation memories",
    responses={**success(MEMORIES), **errors(400, 403)},
)
async def all_memories(request: Request, body: Annotated[MemoriesParameters, reads(MemoriesParameters)]) -> Response:
    """A page of the translation memories, the oldest first."""
    stored = await memories_of(request).all(owner_of(request))
    first = body.page * body.page_size
    page = stored[first : first + body.page_size]
    return answer(DeepLMemories(translation_memories=list(map(_described, page)), total_count=len(stored)))


@router.post(
    "/v3/translation_memories/import",
    name="deepl_import_memory",
    status_code=201,
    summary="Begin the import of a TMX file",
    responses={**success(MEMORY_IMPORT, 201), **errors(400, 403, 413)},
)
async def create_import(
    request: Request, body: Annotated[ImportParameters, reads(ImportParameters, IMPORT_EXAMPLES)]
) -> Response:
    """A job that imports a TMX file as a new translation memory, once the file is sent to its `upload_url`."""
    file, limit = body.source_file, settings_of(request).max_memory_file_bytes
    if file.content_length > limit:
        raise MemoryFileTooLarge(limit)
    name = body.parameters.display_name if body.parameters is not None else None
    job = state_of(request).memory_jobs.add(
        MemoryJob(
            owner_of(request),
            "import",
            "awaiting_input",
            time.time(),
            name=name or file.file_name,
            content_type=file.content_type,
            content_length=file.content_length,
        )
    )
    url = str(request.url_for("deepl_upload_memory", secret=job.secret))
    return answer(DeepLMemoryImport(job_id=job.id, upload_url=url, expires_at=_shown(job.expires)), 201)


@router.get(
    "/v3/translation_memories/jobs/{job_id}",
    name="deepl_memory_job",
    dependencies=ADMITTED,
    summary="The status of an import or export",
    responses={**success(MEMORY_JOB), **errors(400, 403)},
)
async def job(request: Request, job_id: str) -> Response:
    """The status of a job; that of an export has the URL of the file."""
    return answer(_described_job(request, state_of(request).memory_jobs.get(job_id, owner_of(request))))


@router.get(
    "/v3/translation_memories/{translation_memory_id}",
    name="deepl_memory",
    dependencies=ADMITTED,
    summary="A translation memory",
    responses={**success(MEMORY), **errors(403, 404)},
)
async def get(request: Request, translation_memory_id: str) -> Response:
    """A translation memory, without its segments."""
    return answer(_described(await memories_of(request).get(owner_of(request), translation_memory_id)))


@router.get(
    "/v3/translation_memories/{translation_memory_id}/segments",
    name="deepl_memory_segments",
    summary="The segments of a translation memory",
    responses={**success(MEMORY_SEGMENTS), **errors(400, 403, 404)},
)
async def segments(
    request: Request,
    translation_memory_id: str,
    body: Annotated[SegmentsParameters, reads(SegmentsParameters)],
) -> Response:
    """A page of the segments, the oldest first; with `filter_text`, those that contain it in the source or target.

    A page of a filtered list may have fewer segments than `page_size` although more follow.
    """
    service, owner = memories_of(request), owner_of(request)
    memory = await service.get(owner, translation_memory_id)
    after, num_scanned = body.after, 0
    matching: list[StoredUnit] = []
    has_more = True
    while has_more and len(matching) < body.page_size and num_scanned < _MAX_SCANNED:
        limit = _PAGE_UNITS if body.filter_text else body.page_size
        page = await service.units(owner, memory.id, after, limit)
        has_more = len(page) == limit
        for unit in page:
            if len(matching) == body.page_size:
                has_more = True
                break
            after, num_scanned = unit.id, num_scanned + 1
            if body.matches(unit.source, unit.target):
                matching.append(unit)
    cursor = str(after) if has_more else None
    return answer(
        DeepLMemorySegments(
            segments=list(map(_segment, matching)), segment_count=memory.num_units, next_page_cursor=cursor
        )
    )


@router.delete(
    "/v3/translation_memories/{translation_memory_id}",
    name="deepl_delete_memory",
    status_code=204,
    dependencies=ADMITTED,
    summary="Delete a translation memory",
    responses={**no_content(), **errors(403, 404)},
)
async def delete(request: Request, translation_memory_id: str) -> Response:
    """Delete a translation memory with its segments."""
    await memories_of(request).delete(owner_of(request), translation_memory_id)
    return answer("", 204)


@router.post(
    "/v3/translation_memories/{translation_memory_id}/export",
    name="deepl_export_memory",
    status_code=202,
    dependencies=ADMITTED,
    summary="Export a translation memory as TMX",
    responses={**success(MEMORY_EXPORT, 202), **errors(403, 404)},
)
async def create_export(request: Request, translation_memory_id: str) -> Response:
    """A job that is completed at once; its status has the URL of the file."""
    memory = await memories_of(request).get(owner_of(request), translation_memory_id)
    job = state_of(request).memory_jobs.add(
        MemoryJob(owner_of(request), "export", "completed", time.time(), memory=memory.id)
    )
    parameters = DeepLMemoryParameters(translation_memory_id=memory.id)
    return answer(DeepLMemoryExport(job_id=job.id, operation="export", parameters=parameters), 202)


@files_router.put("/v3/translation_memories/uploads/{secret}", name="deepl_upload_memory", include_in_schema=False)
async def upload(request: Request, secret: str) -> Response:
    """Import the file of a job while it arrives. The job says whether that succeeds."""
    job = state_of(request).memory_jobs.of_url(secret, "import")
    if job.status != "awaiting_input":
        raise InvalidParameter("The file of this job has been sent already.")
    job.status = "processing"
    try:
        imported = await memories_of(request).import_tmx(job.owner, uncounted_body(request), name=job.name)
    except ServiceError as error:
        if problem_for(error).retry_after_s is not None:
            job.status = "awaiting_input"
            raise
        job.status, job.error = "failed", str(error)
    except BaseException:  # the client has left
        job.status = "awaiting_input"
        raise
    else:
        job.status, job.memory, job.skipped = "completed", imported.memory.id, imported.skipped
    return answer("", 200)


@files_router.get("/v3/translation_memories/downloads/{secret}", name="deepl_download_memory", include_in_schema=False)
async def download(request: Request, secret: str) -> Response:
    """The file of an export."""
    job = state_of(request).memory_jobs.of_url(secret, "export")
    service = memories_of(request)
    return TmxExport(await service.get(job.owner, job.memory), service.pages(job.owner, job.memory))


def _described(memory: MemoryInfo) -> DeepLMemory:
    return DeepLMemory(
        translation_memory_id=memory.id,
        name=memory.name,
        source_language=memory.source,
        target_languages=list(memory.targets),
        segment_count=memory.num_units,
        creation_time=_shown(memory.created),
        updated_time=_shown(memory.updated),
    )


def _segment(unit: StoredUnit) -> DeepLMemorySegment:
    created, updated = _shown(unit.created), _shown(unit.updated)
    used = None if unit.used is None else _shown(unit.used)
    target = DeepLMemoryTarget(
        target_segment_id=str(unit.id),
        target_language=unit.language,
        target_text=unit.target,
        creation_time=created,
        updated_time=updated,
        last_used_time=used,
    )
    return DeepLMemorySegment(
        source_segment_id=str(unit.id),
        source_text=unit.source,
        targets=[target],
        creation_time=created,
        updated_time=updated,
        last_used_time=used,
    )


def _described_job(request: Request, job: MemoryJob) -> DeepLMemoryJob:
    url = None
    if job.operation == "export":
        url = str(request.url_for("deepl_download_memory", secret=job.secret))
    result = DeepLMemoryResult(
        status=job.status,
        download_url=url,
        expires_at=_shown(job.expires) if url else None,
        error=None if job.error is None else {"message": job.error},
        translation_memory_id=job.memory if job.operation == "import" and job.memory else None,
        skipped_segment_count=job.skipped,
        status_metadata={"required_action": "Upload the file."} if job.status == "awaiting_input" else None,
    )
    is_import = job.operation == "import"
    return DeepLMemoryJob(
        job_id=job.id,
        product="translation_memory",
        operation=job.operation,
        creation_time=_shown(job.created),
        parameters=DeepLMemoryParameters(
            translation_memory_id=None if is_import else job.memory, display_name=job.name if is_import else None
        ),
        source_file=DeepLSourceFile(content_type=job.content_type, content_length=job.content_length)
        if is_import
        else None,
        results=[result],
    )


def _shown(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
