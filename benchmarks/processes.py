"""Measured processes, and the load by other programs."""

from __future__ import annotations

import multiprocessing
import os
import platform
import statistics
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib import metadata
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import psutil

USUAL_PACKAGES = ("torch", "transformers", "ctranslate2", "numpy", "sentencepiece", "tokenizers", "verso-translate")

DISTURBANCE = 0.05
"""Maximal share of the processors that other programs may use in a turn."""

T = TypeVar("T")

Work: TypeAlias = Callable[[Any], Any]
"""A function of a worker process that runs a job and returns its result, which must not be a string."""


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
        load: Called in the process with ``arguments``; returns the function that runs a job.
        arguments: Arguments of ``load``.
        variables: Environment variables of the process, besides ours.
    """

    def __init__(
        self, name: str, load: Callable[..., Work], *arguments: object, variables: Mapping[str, str] | None = None
    ) -> None:
        context = multiprocessing.get_context("spawn")
        self._name = name
        connections: tuple[Connection[Any, Any], Connection[Any, Any]] = context.Pipe()
        self._connection, child_connection = connections
        self._process = context.Process(target=_serve, args=(child_connection, load, arguments), daemon=True)
        with environment(variables or {}):  # libraries read them when they are loaded
            self._process.start()
        child_connection.close()
        self._is_loaded = False

    @property
    def pid(self) -> int:
        """The id of the process."""
        return self._process.pid or 0

    def run(self, job: Any) -> Any:
        """Run a job; the first one waits until the process is loaded."""
        self.wait_until_loaded()
        self._connection.send(job)
        return self._receive()

    def wait_until_loaded(self) -> None:
        """Wait until the process is ready for its first job."""
        if not self._is_loaded:
            self._receive()
            self._is_loaded = True

    def close(self) -> None:
        """End the process."""
        if self._process.is_alive():
            self._process.terminate()
        self._process.join()

    def _receive(self) -> Any:
        try:
            result = self._connection.recv()
        except EOFError:
            self._process.join()
            raise SystemExit(f"{self._name} ended with code {self._process.exitcode}") from None
        if isinstance(result, str):
            raise SystemExit(f"{self._name} failed:\n{result}")
        return result


def _serve(connection: Connection[Any, Any], load: Callable[..., Work], arguments: Sequence[object]) -> None:
    """Main function of a worker process: load, then run jobs until the parent ends. Errors are sent as tracebacks."""
    try:
        warnings.simplefilter("ignore")
        work = load(*arguments)
        connection.send(None)
        while True:
            connection.send(work(connection.recv()))
    except EOFError:
        pass
    except Exception:  # noqa: BLE001  (the parent reports any error)
        connection.send(traceback.format_exc())


@contextmanager
def started(
    name: str, load: Callable[..., Work], *arguments: object, variables: Mapping[str, str] | None = None
) -> Iterator[Worker]:
    """A :class:`Worker` that is ended on exit."""
    worker = Worker(name, load, *arguments, variables=variables)
    try:
        yield worker
    finally:
        worker.close()


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


class Turns:
    """Runs turns, repeats those that other programs disturbed, and records the disturbances of those that count.

    Args:
        patience: Maximal repetitions of a disturbed turn.
        pause_s: Pause before each turn, in seconds.
    """

    def __init__(self, patience: int, pause_s: float = 0.0) -> None:
        self._patience = patience
        self._pause_s = pause_s
        self._shares: list[float] = []
        self._num_repeated = 0

    def run(self, turn: Callable[[], T], own: Sequence[int], *, counts: bool) -> T:
        """The result of a turn.

        Args:
            turn: Does the work.
            own: Ids of processes that do not count as other programs.
            counts: False for a warm-up, which is neither repeated nor recorded.
        """
        for attempt in range(1 + self._patience):
            time.sleep(self._pause_s)
            others = OtherPrograms(own)
            result = turn()
            share = others.share()
            if not counts:
                return result
            if share <= DISTURBANCE or attempt == self._patience:
                break
            self._num_repeated += 1
        self._shares.append(share)
        return result

    def figures(self) -> dict[str, Any]:
        """The shares of the processors that other programs used, and the number of repeated turns."""
        return {
            "median_share": round(statistics.median(self._shares), 3),
            "largest_share": round(max(self._shares), 3),
            "repeated_turns": self._num_repeated,
        }


def turns_line(figures: Mapping[str, Any]) -> str:
    """A sentence with the figures of :class:`Turns`."""
    return (
        f"Other programs used {figures['median_share']:.0%} of the processors (median of the turns; at most "
        f"{figures['largest_share']:.0%}); {figures['repeated_turns']} turns were repeated."
    )


def cpu_seconds(pid: int) -> float:
    """Processor time of a process so far, in user and kernel mode."""
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)


def family_cpu_seconds(pid: int) -> float:
    """Processor seconds of a process and those that it has started."""
    total = 0.0
    for process in _family(pid):
        with suppress(psutil.Error):
            total += cpu_seconds(process.pid)
    return total


def _family(pid: int) -> list[psutil.Process]:
    """A process and those that it has started."""
    process = psutil.Process(pid)
    return [process, *process.children(recursive=True)]


def family_memory_bytes(pid: int) -> int:
    """Memory of a process and of those that it has started; what they share counts once."""
    total = 0
    for process in _family(pid):
        with suppress(psutil.Error):
            total += process.memory_full_info().pss
    return total


def _processor() -> dict[str, str]:
    """The first processor's properties in ``/proc/cpuinfo``."""
    properties: dict[str, str] = {}
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        key, _, value = line.partition(":")
        properties.setdefault(key.strip(), value.strip())
    return properties


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
