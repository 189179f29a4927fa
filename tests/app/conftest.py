"""Fixtures for the tests of the service."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from typing import Protocol

import pytest

from app.commands import serve
from app.documents.file_process import FileProcess
from app.processes import worker
from tests.app.serving import RoteService


class FailedStart(Protocol):
    def __call__(self, **environ: str) -> str: ...


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def service() -> RoteService:
    """A service with predefined answers."""
    return RoteService()


@pytest.fixture(scope="module")
def idle_file_processes() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Services of a module take over the processes of documents that others leave idle: each takes a third of a second
    to start."""
    start, close = worker.started, FileProcess.close
    idle: list[subprocess.Popen[bytes]] = []

    def take(module: str) -> subprocess.Popen[bytes]:
        if module != "app.documents.file_worker":
            return start(module)
        while idle:
            process = idle.pop()
            if process.poll() is None:
                return process
            process.communicate()
        return start(module)

    async def leave(files: FileProcess) -> None:
        own = files._worker
        if own._process is not None and not own._one_job.locked():
            idle.append(own._process)
            own._process = None
        await close(files)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(worker, "started", take)
        patched.setattr(FileProcess, "close", leave)
        yield idle
    for process in idle:
        process.communicate()


@pytest.fixture
def failed_start(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> FailedStart:
    """Serves in this process, with settings that make the start fail; returns what is written to stderr."""
    # The state of the process stays as it is.
    monkeypatch.setattr("signal.signal", lambda number, handler: None)
    monkeypatch.setattr(serve, "configure_logging", lambda level: None)
    monkeypatch.setattr(serve, "share_freed_memory", lambda: None)

    def start(**environ: str) -> str:
        assert serve.main([], {"VERSO_PORT": "0", **environ}) == 1
        return capsys.readouterr().err

    return start
