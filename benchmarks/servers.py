"""The servers under test, as separate processes."""

from __future__ import annotations

import http.client
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

PATIENCE_S = 300.0
"""Maximal time until a server is ready."""

UNCACHED = {"VERSO_CACHE_BYTES": "0", "VERSO_COALESCE": "off"}
"""Settings that disable cache and coalescing, so that every sentence is decoded."""


@dataclass(frozen=True)
class Server:
    """The command of a server.

    Args:
        name: Name in tables.
        command: Arguments of the Python interpreter.
        environment: Variables in addition to those of this process.
        port_option: Option for the port on the command line; if empty, the port is set in the environment.
        folder: The checkout whose code runs.
    """

    name: str
    command: Sequence[str]
    environment: dict[str, str] = field(default_factory=dict)
    port_option: str = ""
    folder: Path = ROOT


def verso(bundle: Path, num_threads: int, **settings: str) -> Server:
    """The service, without its cache.

    Args:
        bundle: The served bundle.
        num_threads: Threads of the model.
        settings: Further ``VERSO_*`` settings.
    """
    required = {"VERSO_MODEL": str(bundle), "VERSO_DEVICE": "cpu", "VERSO_THREADS": str(num_threads)}
    return Server("Verso", ("-m", "app"), {**required, **UNCACHED, "VERSO_LOG_LEVEL": "warning", **settings})


def static(
    name: str, model: Path, num_workers: int, num_threads: int, max_batch: int, wait_ms: float, beam_size: int
) -> Server:
    """The static server; :mod:`benchmarks.static_server` explains the arguments."""
    options = {
        "--model": str(model),
        "--workers": str(num_workers),
        "--threads": str(num_threads),
        "--max-batch": str(max_batch),
        "--wait-ms": str(wait_ms),
        "--beam-size": str(beam_size),
    }
    flat = [word for pair in options.items() for word in pair]
    return Server(name, ("-m", "benchmarks.static_server", *flat), port_option="--port")


@dataclass(frozen=True)
class Running:
    """A server that is ready.

    Args:
        port: Its port on this machine.
        pid: Id of its process.
    """

    port: int
    pid: int


@contextmanager
def running(server: Server) -> Iterator[Running]:
    """A server, started and ready; it is killed on exit, even if it has unfinished requests."""
    port = free_port()
    clean = {name: value for name, value in os.environ.items() if not name.startswith("VERSO_")}
    command = [sys.executable, *server.command]
    if server.port_option:
        command += [server.port_option, str(port)]
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            command, cwd=server.folder, env={**clean, **server.environment, "VERSO_PORT": str(port)}, stderr=errors
        )
        try:
            end = time.monotonic() + PATIENCE_S
            while not is_ready(port):
                if process.poll() is not None or time.monotonic() > end:
                    errors.seek(0)
                    output = errors.read().decode(errors="replace")
                    raise SystemExit(f"{server.name} did not start:\n{output}")
                time.sleep(0.05)
            yield Running(port, process.pid)
        finally:
            # Its remaining requests were cancelled, and a drain would wait until they are decoded.
            process.kill()
            process.wait()


def is_ready(port: int) -> bool:
    """Whether a server accepts requests."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])
