"""Fuzzes one target in this process until its time is over: with atheris if it is installed, else by random changes."""

from __future__ import annotations

import faulthandler
import gc
import hashlib
import json
import os
import random
import resource
import signal
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from types import FrameType

from tests.fuzz.guard import ROOT, Forbidden, Guard, the_guard
from tests.fuzz.mutations import enlarged_bytes, mutated_bytes
from tests.fuzz.target import Target

HANG_S = 60.0
"""Seconds after which the process is ended with a traceback of the input that it reads, besides four times the
processor time that it may take; more of that no input may take, however large."""

SLOW_S = 1.0
SLOW_S_PER_KB = 0.04
"""Seconds of processor time that an input may take, and how many more for each kilobyte of it: several times what the
slowest format takes."""

INSTRUMENTED = 5
"""How many times as long code may take with atheris, which counts what it runs."""

GROWTH_BYTES = 700 * 2**20
"""Memory by which the process may grow from its first inputs to its peak."""

_LARGE_EVERY = 40
"""One of so many inputs is a large one, so that code whose time grows faster than its input is slow enough to see."""

_MOST_BYTES = 1_000_000
_CORPUS_EXAMPLES = 2_000


class TooSlow(BaseException):
    """An input took too long; not an Exception, so that nothing takes it for a refusal."""


class TooMuchMemory(Exception):
    """The process needs more memory than it may, at or before this input."""


@dataclass
class Report:
    """What a session did."""

    target: str
    engine: str
    executions: int = 0
    refused: int = 0
    seconds: float = 0.0
    slowest_s: float = 0.0
    start_mb: float = 0.0
    peak_mb: float = 0.0
    findings: dict[str, int] = field(default_factory=dict)
    """How often each error happened, by its kind and place."""


class Session:
    """Runs a target with one input after the other.

    Args:
        target: The target.
        folder: Where findings, the input in work and the report are written.
        seconds: How long it may take.
        engine: What makes the inputs, for the report.
        most: Number of inputs after which it ends, too.
    """

    def __init__(self, target: Target, folder: Path, seconds: float, engine: str, most: float = float("inf")) -> None:
        self.target = target
        self.report = Report(target.name, engine)
        self.folder = folder
        self._current = folder / f"{target.name}.current"
        self._seconds = seconds
        self._most = most
        self._guard: Guard | None = None
        self._base_bytes = 0
        self._began = time.monotonic()
        folder.mkdir(parents=True, exist_ok=True)

    def warm_up(self, seeds: list[bytes]) -> None:
        """Run the seeds without looking at what is imported and run for the first time."""
        for seed in [*seeds, b""]:
            self.one(seed)
        self._guard = the_guard()
        self._base_bytes = _peak_bytes()
        self.report.start_mb = self._base_bytes / 2**20
        self._began = time.monotonic()

    @property
    def is_over(self) -> bool:
        """Whether the time is over, or there were enough inputs."""
        return self.report.executions >= self._most or time.monotonic() - self._began > self._seconds

    def one(self, data: bytes) -> None:
        """Run the target with an input; what goes wrong is kept, and the next input may follow."""
        self._current.write_bytes(data)
        began = time.process_time()
        try:
            self._run(data)
        except self.target.refusals:
            self.report.refused += 1
        except (Exception, Forbidden, TooSlow) as error:  # noqa: BLE001  (each is a finding)
            self._keep(data, error)
        self.report.executions += 1
        self.report.slowest_s = max(self.report.slowest_s, time.process_time() - began)
        self._check_memory(data)

    def _run(self, data: bytes) -> None:
        """Run the target; an input that takes too long is run again, as others use the machine."""
        try:
            self._run_once(data)
        except TooSlow:
            self._run_once(data)

    def _run_once(self, data: bytes) -> None:
        allowed_s = self._allowed_s(data)
        faulthandler.dump_traceback_later(HANG_S + 4 * allowed_s, exit=True)
        gc.disable()  # as in the process that reads documents: it would be most of the time
        try:
            with _processor_limit(allowed_s):
                if self._guard is None:
                    self.target.run(data)
                    return
                with self._guard.watching():
                    self.target.run(data)
        finally:
            gc.enable()
            faulthandler.cancel_dump_traceback_later()

    def _allowed_s(self, data: bytes) -> float:
        """Seconds of processor time that an input may take; until the seeds were run, code is loaded as well."""
        if self._guard is None:
            return HANG_S
        factor = INSTRUMENTED if self.report.engine == "atheris" else 1
        return min(HANG_S, factor * (SLOW_S + SLOW_S_PER_KB * self.target.size(data) / 1000))

    def _check_memory(self, data: bytes) -> None:
        peak = _peak_bytes()
        if self._base_bytes and peak > self._base_bytes + GROWTH_BYTES:
            self._keep(data, TooMuchMemory(f"{(peak - self._base_bytes) / 2**20:.0f} MB more than at the start"))
            self._base_bytes = peak  # the next finding needs as much again

    def _keep(self, data: bytes, error: BaseException) -> None:
        place = f"{type(error).__name__} at {_place(error)}"
        self.report.findings[place] = self.report.findings.get(place, 0) + 1
        if self.report.findings[place] > 1:
            return
        name = self.folder / f"{self.target.name}-{hashlib.sha256(data).hexdigest()[:12]}"
        name.with_suffix(".bin").write_bytes(data)
        name.with_suffix(".txt").write_text("".join(traceback.format_exception(error)), errors="backslashreplace")
        print(
            f"{self.target.name}: {place}: {str(error)[:200]!r}; the input is {name}.bin", file=sys.stderr, flush=True
        )

    def finish(self) -> None:
        """Write the report."""
        self.report.seconds = time.monotonic() - self._began
        self.report.peak_mb = _peak_bytes() / 2**20
        self._current.unlink(missing_ok=True)
        (self.folder / f"{self.target.name}.json").write_text(json.dumps(asdict(self.report)))


@contextmanager
def _processor_limit(allowed_s: float) -> Iterator[None]:
    """Raises TooSlow in the middle of what takes more processor time, or behind it if it is one call of a C library."""

    def stop(signum: int, frame: FrameType | None) -> None:
        raise TooSlow(f"more than {allowed_s:.1f} s of processor time")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, allowed_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _place(error: BaseException) -> str:
    """The last line of this repository's code that an error went through, but for the fuzzer itself."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [
        frame
        for frame in frames
        if Path(frame.filename).is_relative_to(ROOT) and "/.venv/" not in frame.filename and frame.filename != __file__
    ]
    if not ours:
        return "-"
    return f"{Path(ours[-1].filename).relative_to(ROOT)}:{ours[-1].lineno}"


def mutate_until_over(session: Session, corpus: Path | None, seed: int) -> None:
    """Run random changes of the seeds and of the inputs that atheris has found interesting, the same for a seed.

    Args:
        session: The session.
        corpus: A folder of such inputs, which may be missing; None to begin with the seeds alone.
        seed: Of the random changes.
    """
    rng = random.Random(seed)
    inputs = session.target.seeds()
    session.warm_up(inputs)
    reference = sorted(corpus.iterdir()) if corpus is not None and corpus.is_dir() else []
    inputs += [path.read_bytes() for path in rng.sample(reference, min(len(reference), _CORPUS_EXAMPLES))]
    while not session.is_over:
        change = enlarged_bytes if rng.randrange(_LARGE_EVERY) == 0 else mutated_bytes
        data = session.target.mutate(rng.choice(inputs), partial(change, rng=rng), rng)
        session.one(data[:_MOST_BYTES])


def guide_until_over(session: Session, corpus: Path, seed: int) -> None:
    """Run what atheris finds by the coverage of the code; inputs that reach something new are added to the corpus.

    Args:
        session: The session.
        corpus: The folder of its inputs, made if it is missing.
        seed: Of atheris.
    """
    import atheris

    target = session.target
    corpus.mkdir(parents=True, exist_ok=True)
    seeds = target.seeds()
    for content in seeds:
        (corpus / f"seed-{hashlib.sha256(content).hexdigest()[:16]}").write_bytes(content)
    session.warm_up(seeds)

    def one(data: bytes) -> None:
        session.one(data)
        rng = random.Random(data)
        if rng.randrange(_LARGE_EVERY) == 0:
            session.one(target.mutate(data, partial(enlarged_bytes, rng=rng), rng))
        if session.is_over:
            session.finish()
            os._exit(0)  # libFuzzer has no other way out

    def mutate(data: bytes, max_size: int, seed: int) -> bytes:
        rng = random.Random(seed)

        def change(part: bytes) -> bytes:
            if rng.random() < 0.3:
                return mutated_bytes(part, rng)
            return bytes(atheris.Mutate(part or b"x", max(len(part) + 64, 1)))

        return target.mutate(data, change, rng)[:max_size]

    most = min(_MOST_BYTES, max(4096, *(2 * len(content) for content in seeds)))
    # Time and memory are bounded by the session.
    bounds = [f"-max_len={most}", "-timeout=3600", "-rss_limit_mb=0"]
    options = [f"-seed={seed % 2**31 + 1}", f"-artifact_prefix={session.folder}/{target.name}-", "-verbosity=0"]
    atheris.Setup([sys.argv[0], *bounds, *options, str(corpus)], one, custom_mutator=mutate)
    atheris.Fuzz()
