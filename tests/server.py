"""The service as a process of its own, and a client of it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from tests.waiting import PATIENCE_S, until

ROOT = Path(__file__).resolve().parents[1]


def free_port() -> int:
    """A free port of this machine."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class ServiceProcess:
    """A running service, and its stderr.

    Args:
        command: What runs it.
        environment: Its settings, and further variables.
    """

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        clean = {name: value for name, value in os.environ.items() if not name.startswith("VERSO_")}
        self.popen = subprocess.Popen(
            command,
            cwd=ROOT,
            env=clean | {"VERSO_PORT": "0", **environment},
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
        with self.popen.stderr as lines:
            self.lines.extend(line.rstrip("\n") for line in lines)

    def logged(self, message: str) -> dict[str, Any] | None:
        for line in list(self.lines):
            if line.startswith("{") and (record := json.loads(line))["message"].startswith(message):
                result: dict[str, Any] = record
                return result
        return None

    def wait_for_line(self, message: str) -> dict[str, Any]:
        return until(lambda: self.logged(message), lambda: f"{message!r} in {self.lines}")

    @property
    def address(self) -> str:
        address: str = self.wait_for_line("listening")["address"]
        return address

    def new_client(self) -> httpx.Client:
        return httpx.Client(base_url=self.address, timeout=PATIENCE_S, trust_env=False)

    def wait_until_ready(self) -> None:
        with self.new_client() as client:
            until(lambda: client.get("/readyz").status_code == 200, lambda: f"ready: {self.lines}")

    def wait(self) -> int:
        code = self.popen.wait(PATIENCE_S)
        self._reader.join(PATIENCE_S)
        return code

    def close(self) -> None:
        self.popen.kill()  # does nothing to a process that has ended
        self.wait()


class Server(ServiceProcess):
    """``python -m app`` on a free port, with a client.

    Args:
        bundles: A bundle, or a folder of bundles.
        settings: Further ``VERSO_*`` settings; they win.
    """

    def __init__(self, bundles: Path, **settings: str) -> None:
        which = "VERSO_MODELS" if bundles.is_dir() else "VERSO_MODEL"
        environment = {which: str(bundles), "VERSO_DEVICE": "cpu", "VERSO_THREADS": "1", **settings}
        super().__init__([sys.executable, "-m", "app"], environment)
        self.client = self.new_client()

    def wait(self) -> int:
        code = super().wait()
        self.client.close()
        return code

    def stop(self) -> int:
        self.popen.send_signal(signal.SIGTERM)
        return self.wait()

    def admitted(self) -> float:
        """Number of sentences that wait, decode or are finished."""
        path = ("verso_queue_sentences", "verso_running_sentences", "verso_sentences_total")
        lines = self.client.get("/metrics").text.splitlines()
        return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(path))

    def translate(self, **fields: Any) -> dict[str, Any]:
        response = self.client.post("/translate", json={"target": "de", **fields})
        assert response.status_code == 200, response.text
        body: dict[str, Any] = response.json()
        return body


@contextmanager
def served(bundles: Path, **settings: str) -> Iterator[Server]:
    """A server that is ready, and is stopped afterwards."""
    running = Server(bundles, **settings)
    try:
        running.wait_until_ready()
        yield running
    finally:
        running.close()
