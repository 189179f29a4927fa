"""Bodies of answers about translation memories, and examples."""

from __future__ import annotations

from typing import Literal

from app.http.compat.deepl.answers import CREATED, DeepLAnswer
from app.http.schemas.memories import MEMORY_ID


class DeepLMemory(DeepLAnswer):
    """A translation memory."""

    translation_memory_id: str
    """Its id."""

    name: str
    """Its name."""

    source_language: str
    """The language of its source texts."""

    target_languages: list[str]
    """The languages of its translations."""

    segment_count: int
    """Number of its translations."""

    creation_time: str
    """When it was created."""

    updated_time: str
    """When it was last changed."""


class DeepLMemories(DeepLAnswer):
    """Translation memories."""

    translation_memories: list[DeepLMemory]
    """A page of them, the oldest first."""

    total_count: int
    """Number of all."""


class DeepLMemoryTarget(DeepLAnswer):
    """The translation of a segment."""

    target_segment_id: str
    """Its id."""

    target_language: str
    """Its language."""

    target_text: str
    """The translation."""

    creation_time: str
    """When it was added."""

    updated_time: str
    """When it was last changed."""

    last_used_time: str | None = None
    """When it last answered a request."""


class DeepLMemorySegment(DeepLAnswer):
    """A text and its translation."""

    source_segment_id: str
    """Its id."""

    source_text: str
    """The text."""

    targets: list[DeepLMemoryTarget]
    """Its translation."""

    creation_time: str
    """When it was added."""

    updated_time: str
    """When it was last changed."""

    last_used_time: str | None = None
    """When it last answered a request."""


class DeepLMemorySegments(DeepLAnswer):
    """A page of segments."""

    segments: list[DeepLMemorySegment]
    """The segments."""

    segment_count: int
    """Number of all translations of the memory."""

    next_page_cursor: str | None = None
    """The `page_cursor` of the next page, if there may be more."""


class DeepLMemoryImport(DeepLAnswer):
    """A job that imports a file."""

    job_id: str
    """Its id."""

    upload_url: str
    """The URL to send the file to, without a key."""

    expires_at: str
    """When the URL expires."""


class DeepLMemoryParameters(DeepLAnswer):
    """The parameters of a job."""

    translation_memory_id: str | None = None
    """The memory that is exported."""

    display_name: str | None = None
    """The name of the memory that is created."""


class DeepLMemoryExport(DeepLAnswer):
    """A job that exports a memory."""

    job_id: str
    """Its id."""

    operation: str
    """Always `export`."""

    parameters: DeepLMemoryParameters
    """The memory."""


class DeepLSourceFile(DeepLAnswer):
    """The file of an import."""

    content_type: str | None = None
    """Its declared media type."""

    content_length: int | None = None
    """Its declared size."""


class DeepLMemoryResult(DeepLAnswer):
    """The result of a job."""

    status: Literal["awaiting_input", "processing", "completed", "failed"]
    """Its status."""

    download_url: str | None = None
    """The URL of an exported file."""

    expires_at: str | None = None
    """When that URL expires."""

    error: dict[str, str] | None = None
    """Why it failed, as `message`."""

    translation_memory_id: str | None = None
    """The memory that an import has created."""

    skipped_segment_count: int | None = None
    """Units of an imported file that could not be used."""

    status_metadata: dict[str, str] | None = None
    """What the client has to do, as `required_action`."""


class DeepLMemoryJob(DeepLAnswer):
    """A job."""

    job_id: str
    """Its id."""

    product: str
    """Always `translation_memory`."""

    operation: Literal["import", "export"]
    """What it does."""

    creation_time: str
    """When it was created."""

    parameters: DeepLMemoryParameters
    """Its parameters."""

    source_file: DeepLSourceFile | None = None
    """The file of an import."""

    results: list[DeepLMemoryResult]
    """Its result."""


_JOB_ID = "5a3d0f0c-6f6d-4f57-a1a5-3b1d6f1f3a60"

_JOB_EXPIRES = "2026-01-31T09:15:00.123Z"

_JOB_URL = "http://localhost:8000/v3/translation_memories"

MEMORY = DeepLMemory(
    translation_memory_id=MEMORY_ID,
    name="Manuals",
    source_language="en",
    target_languages=["de"],
    segment_count=1,
    creation_time=CREATED,
    updated_time=CREATED,
)

MEMORIES = DeepLMemories(translation_memories=[MEMORY], total_count=1)

MEMORY_SEGMENTS = DeepLMemorySegments(
    segments=[
        DeepLMemorySegment(
            source_segment_id="17",
            source_text="Close the valve.",
            targets=[
                DeepLMemoryTarget(
                    target_segment_id="17",
                    target_language="de",
                    target_text="Schließen Sie das Ventil.",
                    creation_time=CREATED,
                    updated_time=CREATED,
                )
            ],
            creation_time=CREATED,
            updated_time=CREATED,
        )
    ],
    segment_count=1,
)

MEMORY_IMPORT = DeepLMemoryImport(job_id=_JOB_ID, upload_url=f"{_JOB_URL}/uploads/SECRET", expires_at=_JOB_EXPIRES)

MEMORY_EXPORT = DeepLMemoryExport(
    job_id=_JOB_ID, operation="export", parameters=DeepLMemoryParameters(translation_memory_id=MEMORY_ID)
)

MEMORY_JOB = DeepLMemoryJob(
    job_id=_JOB_ID,
    product="translation_memory",
    operation="export",
    creation_time=CREATED,
    parameters=DeepLMemoryParameters(translation_memory_id=MEMORY_ID),
    results=[
        DeepLMemoryResult(status="completed", download_url=f"{_JOB_URL}/downloads/SECRET", expires_at=_JOB_EXPIRES)
    ],
)
