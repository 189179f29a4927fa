"""Translation memories: the time and memory of an import, and the time of look-ups.

    python -m benchmarks.memories --units 100000
    python -m benchmarks.memories --units 1000000 --queries 0

The units are the sentences of ``data/translated``, repeated with other numbers until there are enough. A child process
imports them from a TMX file, by ``verso memory import``. Then sentences are looked up one after the other: a third is
stored, a third has one word changed, a third has four of its words in another order and is mostly not found. With
``--busy``, other threads of the process compute in Python meanwhile, as a service does for its callers.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import lzma
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import count, islice
from pathlib import Path

from app.memories.lookup import DEFAULT_THRESHOLD, Lookup
from app.memories.service import MemoryService
from app.memories.tmx import TMX_END, tmx_beginning, tmx_units
from app.memories.unit import StoredUnit
from app.settings import Settings
from model.translation.memory import MemoryMatch

WARM_UP = 50
"""Look-ups that are not counted."""

DATA = Path(__file__).resolve().parents[1] / "data" / "translated"


def sentence_pairs() -> Iterator[tuple[str, str]]:
    """Sentences and their translations, endlessly; after the first round with a number that makes them new."""
    lines = [
        lzma.decompress((DATA / f"forward-en.{language}.xz").read_bytes()).decode().splitlines()
        for language in ("en", "de")
    ]
    pairs = [(source, target) for source, target in zip(*lines, strict=True) if source and target]
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


def main() -> int:
    """Measure, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--units", type=int, default=100_000)
    parser.add_argument("--queries", type=int, default=3_000)
    parser.add_argument("--busy", type=int, default=0, help="threads that compute in Python during the look-ups")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as name:
        folder = Path(name)
        file = folder / "units.tmx"
        write_tmx(file, arguments.units)
        print(f"{arguments.units} units, a file of {file.stat().st_size / 1e6:.0f} MB")
        began = time.perf_counter()
        program = "import sys; from app.commands.main import main; sys.exit(main())"
        command = [sys.executable, "-c", program, "memory", "--data-dir", name, "import", str(file)]
        subprocess.run(command, check=True)
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        size = (folder / "memories.sqlite").stat().st_size
        print(
            f"import: {time.perf_counter() - began:.1f} s, {usage.ru_utime + usage.ru_stime:.1f} s of CPU, "
            f"peak {usage.ru_maxrss / 1024:.0f} MiB, database {size / 1e6:.0f} MB"
        )
        if arguments.queries:
            sentences = queries(arguments.units, arguments.queries, random.Random(7))
            with busy_threads(arguments.busy):
                times, cpu_times, scores = asyncio.run(look_up(folder, sentences))
            for what, values in (("look-up", times), ("CPU time of a look-up", cpu_times)):
                cuts = statistics.quantiles(values, n=100)
                print(f"{what}: p50 {cuts[49]:.2f} ms, p99 {cuts[98]:.2f} ms, longest {max(values):.2f} ms")
            for kind, text in enumerate(("stored", "one word changed", "other")):
                own = scores[kind::3]
                print(f"{text}: {sum(score > 0 for score in own) / len(own):.0%} found")
    return 0


if __name__ == "__main__":
    sys.exit(main())
