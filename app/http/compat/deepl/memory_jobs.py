"""Imports and exports of translation memories as jobs, in the memory of this process."""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from app.errors import InvalidParameter

KEPT_S = 3_600.0
"""Seconds for which a job and its URL are valid."""

MAX_JOBS_OF_OWNER = 100
"""Jobs of an owner that are kept; a further one replaces the oldest."""

MAX_JOBS = 10_000
"""The same for all owners together."""

JobStatus = Literal["awaiting_input", "processing", "completed", "failed"]


@dataclass(eq=False)
class MemoryJob:
    """An import or an export.

    Args:
        owner: The owner of the memory.
        operation: What it does.
        status: Its status.
        created: When it was created, in seconds since 1970.
        memory: The id of the memory; empty for an import that has none yet.
        name: The name of the memory that an import creates.
        content_type: The declared media type of the file.
        content_length: The declared size of the file.
        error: Why it failed.
        skipped: Units of the file that could not be used.
        id: Its id.
        secret: The secret part of its URL, which is all that a client needs to upload or download the file.
    """

    owner: str | None
    operation: Literal["import", "export"]
    status: JobStatus
    created: float
    memory: str = ""
    name: str = ""
    content_type: str | None = None
    content_length: int | None = None
    error: str | None = None
    skipped: int | None = None
    id: str = field(default_factory=lambda: str(uuid.uuid4()))
    secret: str = field(default_factory=lambda: secrets.token_urlsafe(32))

    @property
    def expires(self) -> float:
        """When it and its URL expire."""
        return self.created + KEPT_S


class MemoryJobs:
    """The jobs of a process.

    Args:
        clock: Seconds since 1970.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._jobs: dict[str, MemoryJob] = {}

    def add(self, job: MemoryJob) -> MemoryJob:
        """Keep a new job.

        Args:
            job: The job.
        """
        now = self._clock()
        self._jobs = {id: other for id, other in self._jobs.items() if other.expires > now}
        of_owner = [id for id, other in self._jobs.items() if other.owner == job.owner]
        if len(of_owner) >= MAX_JOBS_OF_OWNER:
            del self._jobs[of_owner[0]]
        elif len(self._jobs) >= MAX_JOBS:
            del self._jobs[next(iter(self._jobs))]
        self._jobs[job.id] = job
        return job

    def get(self, id: str, owner: str | None) -> MemoryJob:
        """A job of an owner.

        Raises:
            InvalidParameter: The owner has none with this id.
        """
        job = self._jobs.get(id)
        if job is None or owner not in (None, job.owner) or job.expires <= self._clock():
            raise InvalidParameter("Value for 'job_id' not supported: there is no such job; jobs are kept for an hour.")
        return job

    def of_url(self, secret: str, operation: Literal["import", "export"]) -> MemoryJob:
        """The job of a URL.

        Args:
            secret: The last part of its URL.
            operation: What the URL is for.

        Raises:
            InvalidParameter: The URL is wrong or has expired.
        """
        for job in self._jobs.values():
            is_valid = job.operation == operation and job.expires > self._clock()
            if is_valid and secrets.compare_digest(job.secret.encode(), secret.encode()):
                return job
        raise InvalidParameter("The URL is wrong or has expired; create another job.")
