"""The service as a process of its own, and a client of it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

ROOT = Path(__file__).resolve().parents[1]
PATIENCE_S = 120.0


def free_port() -> int:
    """A port of this machine on which nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Server:
    """``python -m app`` on a free port.

    Args:
        bundles: A bundle, or a folder of bundles.
        settings: Further ``VERSO_*`` settings; they win.
    """

    def __init__(self, bundles: Path, **settings: str) -> None:
        clean = {name: value for name, value in os.environ.items() if not name.startswith("VERSO_")}
        which = "VERSO_MODELS" if bundles.is_dir() else "VERSO_MODEL"
        environment = {which: str(bundles), "VERSO_PORT": "0", "VERSO_DEVICE": "cpu", "VERSO_THREADS": "1", **settings}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "app"], cwd=ROOT, env=clean | environment, stderr=subprocess.PIPE, text=True
        )
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        self.client = httpx.Client(timeout=PATIENCE_S, trust_env=False, base_url=self._address())

    def _read(self) -> None:
        assert self.process.stderr is not None
        with self.process.stderr as lines:
            self.lines.extend(lines)

    def _address(self) -> str:
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            for line in list(self.lines):
                if "address" in line:
                    return str(json.loads(line)["address"])
            time.sleep(0.02)
        raise AssertionError(f"no address: {self.lines}")

    def wait_until_ready(self) -> None:
        end = time.monotonic() + PATIENCE_S
        while self.client.get("/readyz").status_code != 200:
            assert time.monotonic() < end, self.lines
            time.sleep(0.05)

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.finish()

    def finish(self) -> int:
        code = self.process.wait(PATIENCE_S)
        self._reader.join(PATIENCE_S)
        self.client.close()
        return code

    def admitted(self) -> float:
        """Number of sentences that wait, decode or are finished."""
        where = ("verso_queue_sentences", "verso_running_sentences", "verso_sentences_total")
        lines = self.client.get("/metrics").text.splitlines()
        return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(where))

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
        running.process.kill()
        running.finish()
