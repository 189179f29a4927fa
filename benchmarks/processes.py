"""Measured processes, and the load by other programs."""

from __future__ import annotations

import multiprocessing
import os
import platform
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import metadata
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import psutil

USUAL_PACKAGES = ("torch", "transformers", "ctranslate2", "numpy", "sentencepiece", "tokenizers", "verso-translate")


def peak_memory_bytes() -> int:
    """Peak resident memory of this process so far.

    Neither ``ru_maxrss``, which starts with the parent's, nor psutil, which does not report a peak on Linux.
    """
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return 1024 * int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")))


@contextmanager
def environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables for as long as the context lasts.

    Args:
        variables: Values by name.
    """
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


class Worker:
    """A worker process that runs jobs.

    Args:
        name: Name in messages.
        target: Its main function; gets a connection and ``arguments``.
        arguments: Arguments of ``target``.
        variables: Environment variables of the process, besides ours.
    """

    def __init__(
        self, name: str, target: Callable[..., None], *arguments: object, variables: Mapping[str, str] | None = None
    ) -> None:
        context = multiprocessing.get_context("spawn")
        self._name = name
        connections: tuple[Connection[Any, Any], Connection[Any, Any]] = context.Pipe()
        self._connection, theirs = connections
        self._process = context.Process(target=target, args=(theirs, *arguments), daemon=True)
        with environment(variables or {}):  # libraries read them when they are loaded
            self._process.start()
        theirs.close()

    @property
    def pid(self) -> int:
        """The id of the process."""
        return self._process.pid or 0

    def wait_until_loaded(self) -> None:
        """Wait until it is ready; to be called once, before any job."""
        self._receive()

    def run(self, job: Any) -> Any:
        """Run a job."""
        self._connection.send(job)
        return self._receive()

    def close(self) -> None:
        """End the process."""
        if self._process.is_alive():
            self._process.terminate()
        self._process.join()

    def _receive(self) -> Any:
        try:
            answer = self._connection.recv()
        except EOFError:
            self._process.join()
            raise SystemExit(f"{self._name} ended with code {self._process.exitcode}") from None
        if isinstance(answer, str):
            raise SystemExit(f"{self._name} failed:\n{answer}")
        return answer


class OtherPrograms:
    """The share of the processors that other programs use from now on.

    Args:
        own: Ids of processes that do not count.
    """

    def __init__(self, own: Sequence[int]) -> None:
        self._own = own
        self._began = self._read()

    def share(self) -> float:
        """The share: 0 if no other program ran, 1 if they used all cores."""
        elapsed, foreign = (after - before for after, before in zip(self._read(), self._began, strict=True))
        return max(0.0, foreign / elapsed / (os.cpu_count() or 1))

    def _read(self) -> tuple[float, float]:
        """The time, and the processor time of all processes except our own, in seconds."""
        times = psutil.cpu_times()
        # Without guest time, which user time includes.
        busy = times.user + times.nice + times.system + times.irq + times.softirq + times.steal
        return time.perf_counter(), busy - sum(map(cpu_seconds, self._own))


@contextmanager
def started(
    name: str, target: Callable[..., None], *arguments: object, variables: Mapping[str, str] | None = None
) -> Iterator[Worker]:
    """A :class:`Worker` that is ended on exit."""
    worker = Worker(name, target, *arguments, variables=variables)
    try:
        yield worker
    finally:
        worker.close()


def cpu_seconds(pid: int) -> float:
    """Processor time of a process so far, in user and kernel mode."""
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)


def _processor() -> dict[str, str]:
    """The first processor's properties in ``/proc/cpuinfo``."""
    found: dict[str, str] = {}
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        key, _, value = line.partition(":")
        found.setdefault(key.strip(), value.strip())
    return found


def processor_flags() -> list[str]:
    """The instructions of this processor, as ``/proc/cpuinfo`` names them."""
    return _processor().get("flags", "").split()


def describe_machine(num_threads: int, packages: Sequence[str] = ()) -> dict[str, Any]:
    """Processor, threads and versions.

    Args:
        num_threads: Threads of each engine or server.
        packages: Packages whose versions to add to the usual ones.
    """
    processor = _processor()
    flags = processor_flags()
    versions = {"python": platform.python_version()}
    for package in (*USUAL_PACKAGES, *packages):
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            versions[package] = "not installed, run from source"
    return {
        "processor": processor.get("model name", platform.processor()),
        "family_and_model": f"{processor.get('cpu family', '?')}/{processor.get('model', '?')}",
        "instructions": [
            flag for flag in ("avx2", "avx_vnni", "avx512f", "avx512_vnni", "avx512_bf16", "amx_int8") if flag in flags
        ],
        "cores": len(os.sched_getaffinity(0)),
        "threads": num_threads,
        "load_at_start": os.getloadavg()[0],
        "system": platform.platform(),
        "versions": versions,
    }


def machine_line(machine: dict[str, Any]) -> str:
    """Two lines with the results of :func:`describe_machine`."""
    versions = ", ".join(f"{package} {version}" for package, version in machine["versions"].items())
    return (
        f"{machine['processor']} (family/model {machine['family_and_model']}; {', '.join(machine['instructions'])}), "
        f"{machine['cores']} cores, {machine['threads']} threads, load {machine['load_at_start']:.1f} at the start\n"
        f"{versions}"
    )
