"""The service around a translator that needs no model, as a process of its own (``fake_server.py``)."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tests.app.fakes import BUDGET
from tests.server import ServiceProcess

REQUEST_HEAD = (
    b"POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
)


class Process(ServiceProcess):
    """A running service.

    Args:
        wrap: A command that runs the service, such as ``prlimit --nofile=256``.
        environment: Its settings.
    """

    def __init__(self, wrap: Sequence[str] = (), **environment: str) -> None:
        quiet = {"VERSO_HOST": "127.0.0.1", "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "default"}
        budget = {f"VERSO_{name.upper()}": str(value) for name, value in BUDGET.items()}
        super().__init__([*wrap, sys.executable, "-m", "tests.app.fake_server"], quiet | budget | environment)


@contextmanager
def running(wrap: Sequence[str] = (), **environment: str) -> Iterator[Process]:
    """A service that is ended after the test in any case."""
    process = Process(wrap, **environment)
    try:
        yield process
    finally:
        process.close()
