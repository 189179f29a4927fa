"""The service around a translator that needs no model, as a process of its own (``fake_server.py``)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import httpx

from tests.app.fakes import BUDGET
from tests.server import ROOT
from tests.waiting import until

PATIENCE_S = 60.0
REQUEST_HEAD = (
    b"POST /translate HTTP/1.1\r\nHost: verso\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
)


class Process:
    """A running service, its stderr, and a client.

    Args:
        wrap: A command that runs the service, such as ``prlimit --nofile=256``.
        environment: Its settings.
    """

    def __init__(self, wrap: Sequence[str] = (), **environment: str) -> None:
        clean = {name: value for name, value in os.environ.items() if not name.startswith("VERSO_")}
        clean |= {"VERSO_HOST": "127.0.0.1", "VERSO_PORT": "0", "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "default"}
        clean |= {f"VERSO_{name.upper()}": str(value) for name, value in BUDGET.items()}
        self.popen = subprocess.Popen(
            [*wrap, sys.executable, "-m", "tests.app.fake_server"],
            cwd=ROOT,
            env=clean | environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.popen.stderr is not None
        self.lines.extend(line.rstrip("\n") for line in iter(self.popen.stderr.readline, ""))

    def logged(self, message: str) -> dict[str, Any] | None:
        for line in list(self.lines):
            if line.startswith("{") and (record := json.loads(line))["message"].startswith(message):
                found: dict[str, Any] = record
                return found
        return None

    def wait_for_line(self, message: str) -> dict[str, Any]:
        return until(lambda: self.logged(message), lambda: f"{message!r} in {self.lines}")

    @property
    def address(self) -> str:
        address: str = self.wait_for_line("listening")["address"]
        return address

    def client(self) -> httpx.Client:
        return httpx.Client(base_url=self.address, timeout=PATIENCE_S, trust_env=False)

    def wait_until_ready(self) -> None:
        with self.client() as client:
            until(lambda: client.get("/readyz").status_code == 200, lambda: f"ready: {self.lines}")

    def wait(self) -> int:
        code = self.popen.wait(PATIENCE_S)
        self._reader.join(PATIENCE_S)
        return code

    def close(self) -> None:
        if self.popen.poll() is None:
            self.popen.kill()
        self.wait()
        assert self.popen.stderr is not None
        self.popen.stderr.close()


@contextmanager
def running(wrap: Sequence[str] = (), **environment: str) -> Iterator[Process]:
    """A service that is ended after the test in any case."""
    process = Process(wrap, **environment)
    try:
        yield process
    finally:
        process.close()
