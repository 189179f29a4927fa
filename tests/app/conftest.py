"""Fixtures for the tests of the service."""

from __future__ import annotations

from typing import Protocol

import pytest

from app.commands import serve
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
