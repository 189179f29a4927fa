"""Translation memories: the time and memory of an import, and the time of look-ups.

    python -m benchmarks.memories --units 100000
    python -m benchmarks.memories --units 1000000 --queries 0
    python -m benchmarks.memories --units 100000 --callers 64

The units are the sentences of ``data/translated``, repeated with other numbers until there are enough. A child process
imports them from a TMX file, by ``verso memory import``. Then sentences are looked up one after the other: a third is
stored, a third has one word changed, a third has four of its words in another order and is mostly not found. With
``--busy``, other threads of the process compute in Python meanwhile, as a service does for its callers.

With ``--callers``, the same sentences are sent to a service with the shipped model, by so many callers at a time, each
of whom sends the next one after an answer (:mod:`benchmarks.timed_look_ups`). Each translation looks its text up as a
whole, and then its sentence. The times of a look-up are those until the request has the result, on the thread of
look-ups, and of CPU time.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import count, islice
from pathlib import Path

from app.memories.lookup import DEFAULT_THRESHOLD, Lookup
from app.memories.service import MemoryService
from app.memories.tmx import TMX_END, tmx_beginning, tmx_units
from app.memories.unit import StoredUnit
from app.settings import Settings
from benchmarks.http_client import Load, Outcome, load_sender, post
from benchmarks.processes import started
from benchmarks.servers import ROOT, running, verso
from benchmarks.tables import percentile
from model.artifacts.pretrained import build_pretrained
from model.training.corpus import read_parallel
from model.translation.memory import MemoryMatch

WARM_UP = 50
"""Look-ups that are not counted."""

_IMPORT = """
import sys
from app.commands.main import main
code = main()
from benchmarks.processes import peak_memory_bytes
print(peak_memory_bytes())
sys.exit(code)
"""
"""Imports a file, and prints the id of the memory and the peak memory of the process."""

DATA = Path(__file__).resolve().parents[1] / "data" / "translated"


def sentence_pairs() -> Iterator[tuple[str, str]]:
    """Sentences and their translations, endlessly; after the first round with a number that makes them new."""
    pairs = [pair for pair in read_parallel(DATA / "forward-en", ("en", "de")) if all(pair)]
    for number in count():
        for source, target in pairs:
            yield (source, target) if not number else (f"{number}. {source}", f"{number}. {target}")


def write_tmx(path: Path, num_units: int) -> None:
    """Write a TMX file with so many units."""
    pairs = islice(sentence_pairs(), num_units)
    with path.open("wb") as file:
        file.write(tmx_beginning("en"))
        while part := [StoredUnit(0, *pair, "de", 0.0, 0.0, None) for pair in islice(pairs, 1_000)]:
            file.write(tmx_units("en", part))
        file.write(TMX_END)


def queries(num_units: int, number: int, rng: random.Random) -> list[str]:
    """Sentences to look up, a third of each kind."""
    stored = [source for source, _ in islice(sentence_pairs(), num_units)]
    words = sorted({word for source in stored[:10_000] for word in source.split()})
    sentences: list[str] = []
    for index in range(number):
        parts = rng.choice(stored).split()
        if index % 3 == 1:
            parts[rng.randrange(len(parts))] = rng.choice(words)
        elif index % 3 == 2:
            parts = [*rng.sample(parts, min(4, len(parts))), *rng.sample(words, 6)]
        sentences.append(" ".join(parts))
    return sentences


@contextmanager
def busy_threads(number: int) -> Iterator[None]:
    """Threads that compute in Python and pause, as an event loop does."""
    is_over = threading.Event()

    def compute() -> None:
        while not is_over.is_set():
            json.loads(json.dumps(list(range(500))))
            time.sleep(0.0002)

    threads = [threading.Thread(target=compute, daemon=True) for _ in range(number)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        is_over.set()
        for thread in threads:
            thread.join()


async def look_up(folder: Path, sentences: Sequence[str]) -> tuple[list[float], list[float], list[float]]:
    """The milliseconds of each look-up, those of CPU time, and the score of the best match or 0."""
    service = MemoryService(Settings(data_dir=folder))
    times: list[float] = []
    scores: list[float] = []
    cpu_times: list[float] = []

    def best(sentence: str, lookup: Lookup) -> MemoryMatch | None:
        began = time.thread_time()
        (match,) = lookup.best(lookup.pairs(None, (), "en", "de"), [sentence], DEFAULT_THRESHOLD)
        cpu_times.append(1000 * (time.thread_time() - began))
        return match

    for sentence in sentences:
        began = time.perf_counter()
        match = await service.look_up(partial(best, sentence))
        times.append(1000 * (time.perf_counter() - began))
        scores.append(0.0 if match is None else match.score)
    await service.close()
    return times[WARM_UP:], cpu_times[WARM_UP:], scores


def beside_callers(folder: Path, memory: str, sentences: Sequence[str], num_callers: int, num_threads: int) -> None:
    """Translate sentences with a memory for some callers at a time, and print the times of the look-ups.

    Args:
        folder: The folder of the memory.
        memory: Its id.
        sentences: What the callers send.
        num_callers: The number of callers.
        num_threads: Threads of the model.
    """
    times = folder / "times.json"
    server = verso(build_pretrained("cpu"), num_threads, VERSO_DATA_DIR=str(folder))
    server = replace(server, environment={**server.environment, "PYTHONPATH": str(ROOT)})
    program = str(Path(__file__).with_name("timed_look_ups.py"))
    calls = [post("sentence", text=text, source="en", target="de", memory=memory) for text in sentences]
    with (
        started("the callers", load_sender) as client,
        running(replace(server, command=(program, str(times)))) as service,
    ):
        client.run(Load(service.port, calls[:WARM_UP], num_callers, 60.0))
        os.kill(service.pid, signal.SIGUSR1)
        outcome: Outcome = client.run(Load(service.port, calls, num_callers, 60.0))
        os.kill(service.pid, signal.SIGUSR2)
        while not times.exists():
            time.sleep(0.05)
    failed = [answer for answer in outcome.answers if answer.status != 200]
    if failed:
        raise SystemExit(f"{failed[0].status} {failed[0].body.decode()}")
    print(f"{num_callers} callers: {len(calls) / outcome.seconds:.0f} translations a second")
    rows: list[list[float]] = json.loads(times.read_text(encoding="utf-8"))
    waits, elapsed, cpu = zip(*rows, strict=True)
    for what, values in (("look-up, with its wait", waits), ("look-up", elapsed), ("CPU time of a look-up", cpu)):
        show(what, values)


def show(what: str, times: Sequence[float]) -> None:
    """Print quantiles of times in milliseconds."""
    p50, p99 = percentile(times, 0.5), percentile(times, 0.99)
    print(f"{what}: p50 {p50:.2f} ms, p99 {p99:.2f} ms, longest {max(times):.2f} ms ({len(times)})")


def main() -> int:
    """Measure, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--units", type=int, default=100_000)
    parser.add_argument("--queries", type=int, default=3_000)
    parser.add_argument("--busy", type=int, default=0, help="threads that compute in Python during the look-ups")
    parser.add_argument("--callers", type=int, default=0, help="callers of a service at a time; 0 starts none")
    parser.add_argument("--threads", type=int, default=1, help="threads of the model of that service")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as name:
        folder = Path(name)
        file = folder / "units.tmx"
        write_tmx(file, arguments.units)
        print(f"{arguments.units} units, a file of {file.stat().st_size / 1e6:.0f} MB")
        began = time.perf_counter()
        command = [sys.executable, "-c", _IMPORT, "memory", "--data-dir", name, "import", str(file)]
        process = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        memory, peak_bytes = process.stdout.split()
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        size = (folder / "memories.sqlite").stat().st_size
        print(
            f"import: {time.perf_counter() - began:.1f} s, {usage.ru_utime + usage.ru_stime:.1f} s of CPU, "
            f"peak {int(peak_bytes) / 2**20:.0f} MiB, database {size / 1e6:.0f} MB"
        )
        if arguments.queries:
            sentences = queries(arguments.units, arguments.queries, random.Random(7))
            with busy_threads(arguments.busy):
                times, cpu_times, scores = asyncio.run(look_up(folder, sentences))
            for what, values in (("look-up", times), ("CPU time of a look-up", cpu_times)):
                show(what, values)
            for kind, text in enumerate(("stored", "one word changed", "other")):
                own = scores[kind::3]
                print(f"{text}: {sum(score > 0 for score in own) / len(own):.0%} found")
            if arguments.callers:
                beside_callers(folder, memory, sentences, arguments.callers, arguments.threads)
    return 0


if __name__ == "__main__":
    sys.exit(main())
