"""Many models in one service: memory, latency of a first use, throughput with requests spread over all of them.

    python -m benchmarks.many_models
    python -m benchmarks.many_models --models 8 --seconds 3 --folder /tmp/made     (the shortest useful run)

95 models with random weights, in the shape of Firefox's smallest models, are served by one process: once with memory
for all of them, and once for a part of them (``VERSO_MODEL_MEMORY``). The models that fit are used for the first time,
one after the other, while another caller sends requests to the first one. Then callers send requests, each for a random
model: first with Zipf's law, as languages are used, then each model with the same probability. Answers have 20 tokens,
greedy; the cache of sentences is off. The bundles take 5 GB in the folder, and are kept if ``--folder`` names one.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import tempfile
import time
import urllib.request
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from benchmarks.command_line import parser, positive, prepare_environment
from benchmarks.http_client import Answer, Call, Connections, Load, post, run
from benchmarks.servers import UNCACHED, Server, running
from benchmarks.tables import markdown, percentile

Pair = tuple[str, str]

_TOKENS = 20
_PATIENCE_S = 60.0
_PROBE_S = 0.1
_EXPONENT = 1.0
"""Of Zipf's law: the n-th language has this power of 1 / n of the first one's requests."""


@dataclass(frozen=True)
class Scenario:
    """A service and its load.

    Args:
        name: Its name in tables.
        memory_bytes: ``VERSO_MODEL_MEMORY``.
        num_first: Models that are used once before the load, in the order of their frequency: those that fit.
    """

    name: str
    memory_bytes: int
    num_first: int


def call(kind: str, pair: Pair, rng: random.Random) -> Call:
    """A request for one sentence of made words, whose translation has a fixed length."""
    from benchmarks.made_models import words

    text = " ".join(words(rng, 8))
    fields: dict[str, Any] = {"decoding": "greedy", "min_new_tokens": _TOKENS, "max_new_tokens": _TOKENS}
    return post(kind, text=text, source=pair[0], target=pair[1], **fields)


def metrics(port: int) -> dict[str, float]:
    """The metrics of the service without labels, and those of loads."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as response:
        lines = response.read().decode().splitlines()
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines if line[:1] != "#")}


def load_cpu_s(folder: Path) -> float:
    """CPU time of loading a model and warming it up, which other work on the machine does not change much."""
    from app.serving.service import WARM_UP_WIDTHS
    from model.translator import Translator

    paths = sorted(folder.glob("*.verso"))[:4]
    times = []
    for path in paths:
        began = time.process_time()
        Translator.load(path, num_threads=1).warm_up(WARM_UP_WIDTHS)
        times.append(time.process_time() - began)
    return min(times)


def milliseconds(answers: Sequence[Answer], share: float) -> str:
    """A percentile of latencies."""
    return f"{percentile([answer.latency_s for answer in answers], share) * 1000:.0f} ms"


def failures(answers: Sequence[Answer]) -> int:
    """Answers that are no translation."""
    return sum(answer.status != 200 for answer in answers)


class Measurement:
    """Measures one scenario.

    Args:
        scenario: The service.
        folder: The bundles.
        pairs: Their directions.
        options: The command line.
    """

    def __init__(self, scenario: Scenario, folder: Path, pairs: Sequence[Pair], options: argparse.Namespace) -> None:
        self._scenario, self._folder, self._pairs, self._options = scenario, folder, pairs, options
        self._rng = random.Random(1)

    def run(self) -> dict[str, str]:
        """The figures by name."""
        variables = {
            "VERSO_MODELS": str(self._folder),
            "VERSO_THREADS": str(self._options.threads),
            "VERSO_DEVICE": "cpu",
            "VERSO_LOG_LEVEL": "warning",
            "VERSO_MODEL_MEMORY": str(self._scenario.memory_bytes),
            **UNCACHED,
        }
        began = time.monotonic()
        with running(Server("Verso", ("-m", "app"), variables)) as server:
            figures = {"ready after": f"{time.monotonic() - began:.1f} s"}
            process = psutil.Process(server.pid)
            figures["memory when ready"] = f"{process.memory_info().rss / 1e6:.0f} MB"
            figures |= self._first_uses(server.port)
            figures |= self._spread(server.port, "Zipf", [rank**-_EXPONENT for rank in range(1, len(self._pairs) + 1)])
            figures |= self._spread(server.port, "uniform", [1.0] * len(self._pairs))
            values = metrics(server.port)
            rss = process.memory_info().rss
        figures["models in memory at the end"] = f"{values['verso_models_in_memory']:.0f}"
        figures["their memory, as stated"] = f"{values['verso_model_bytes'] / 1e6:.0f} MB"
        figures["memory of the process at the end"] = f"{rss / 1e6:.0f} MB"
        return figures

    def _first_uses(self, port: int) -> dict[str, str]:
        """Use models for the first time, while another caller uses the first one, which is loaded."""
        first, *others = self._pairs[: self._scenario.num_first]
        quiet = [call("quiet", first, self._rng) for _ in range(30)]
        alone = asyncio.run(run(Load(port, quiet, 1, _PATIENCE_S))).answers
        calls = [call("first", pair, self._rng) for pair in others]
        firsts, probed = asyncio.run(self._with_probes(port, calls, call("probe", first, self._rng)))
        again = asyncio.run(run(Load(port, [call("again", pair, self._rng) for pair in others[-5:]], 1, 60))).answers
        values = metrics(port)
        load_s = values["verso_model_load_seconds_sum"] / max(1.0, values["verso_model_load_seconds_count"])
        return {
            "first use, p50": milliseconds(firsts, 0.5),
            "first use, p95": milliseconds(firsts, 0.95),
            "load, mean": f"{load_s * 1000:.0f} ms",
            "a model in memory, p50": milliseconds(again, 0.5),
            "another model meanwhile, p50 (alone)": f"{milliseconds(probed, 0.5)} ({milliseconds(alone, 0.5)})",
            "another model meanwhile, p95 (alone)": f"{milliseconds(probed, 0.95)} ({milliseconds(alone, 0.95)})",
            "failures of these": str(failures([*firsts, *probed, *again, *alone])),
        }

    @staticmethod
    async def _with_probes(port: int, calls: Sequence[Call], probe: Call) -> tuple[list[Answer], list[Answer]]:
        """Send calls one after the other, and meanwhile a probe ten times a second."""
        connections, probes = Connections(port), []
        sending = asyncio.create_task(run(Load(port, calls, 1, _PATIENCE_S)))
        while not sending.done():
            began = time.perf_counter()
            status, body = await connections.ask(probe, _PATIENCE_S)
            probes.append(Answer("probe", status, time.perf_counter() - began, body))
            await asyncio.sleep(_PROBE_S)
        await connections.close()
        return (await sending).answers, probes

    def _spread(self, port: int, name: str, weights: Sequence[float]) -> dict[str, str]:
        """Callers that send requests for random models."""
        before = metrics(port)
        rng, seconds = self._rng, self._options.seconds
        calls = [call(name, pair, rng) for pair in rng.choices(self._pairs, weights, k=round(2_000 * seconds))]
        outcome = asyncio.run(run(Load(port, calls, self._options.clients, _PATIENCE_S, seconds)))
        after = metrics(port)
        loads, evictions = (
            after[metric] - before[metric]
            for metric in ('verso_model_loads_total{outcome="loaded"}', "verso_model_evictions_total")
        )
        answers = outcome.answers
        return {
            f"{name}: requests/s": f"{(len(answers) - failures(answers)) / outcome.seconds:.1f}",
            f"{name}: p50, p95": f"{milliseconds(answers, 0.5)}, {milliseconds(answers, 0.95)}",
            f"{name}: failures, loads, evictions": f"{failures(answers)}, {loads:.0f}, {evictions:.0f}",
        }


def main() -> None:
    """Run the command."""
    options = _options()
    prepare_environment()
    from benchmarks.made_models import make_bundles

    with nullcontext(options.folder) if options.folder else tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        path.mkdir(parents=True, exist_ok=True)
        pairs = make_bundles(path, options.models, options.decoder)
        print(f"{len(pairs)} bundles of {_file_bytes(path) / 1e6:.0f} MB", file=sys.stderr, flush=True)
        print(f"CPU time of a load: {load_cpu_s(path) * 1000:.0f} ms")
        total = sum(_stated(path))
        shares = [1.0] if options.share == 1 else [1.0, options.share] if options.all else [options.share]
        scenarios = [
            Scenario(f"{share:.0%} fit", round(total * share), max(2, int(len(pairs) * share))) for share in shares
        ]
        columns = []
        for scenario in scenarios:
            print(scenario.name, file=sys.stderr, flush=True)
            columns.append(Measurement(scenario, path, pairs, options).run())
    rows = [[name, *(column.get(name, "") for column in columns)] for name in columns[0]]
    print(markdown(["", *(scenario.name for scenario in scenarios)], rows))
    if options.json:
        options.json.write_text(json.dumps(dict(zip([s.name for s in scenarios], columns, strict=True)), indent=2))


def _file_bytes(folder: Path) -> int:
    return next(path.stat().st_size for path in folder.glob("*.verso"))


def _stated(folder: Path) -> list[int]:
    """The memory that each bundle states."""
    from model.artifacts.bundle import read_manifest
    from model.artifacts.memory import loaded_bytes

    return [loaded_bytes(path.stat().st_size, read_manifest(path), "cpu") for path in folder.glob("*.verso")]


def _options() -> argparse.Namespace:
    arguments = parser(__doc__, threads=2)
    arguments.add_argument("--models", type=positive(int), default=95, metavar="N", help="default %(default)s")
    arguments.add_argument("--share", type=positive(float), default=0.25, help="of the memory; default %(default)s")
    help_ = "measure only the part of the models"
    arguments.add_argument("--only-share", dest="all", action="store_false", help=help_)
    arguments.add_argument("--clients", type=positive(int), default=16, metavar="N", help="default %(default)s")
    arguments.add_argument("--seconds", type=positive(float), default=20.0, help="of each load; default %(default)s")
    arguments.add_argument("--decoder", choices=("ssru", "self_attention"), default="ssru", help="default %(default)s")
    arguments.add_argument("--folder", type=Path, metavar="DIR", help="where bundles are made, or were made before")
    arguments.add_argument("--json", type=Path, metavar="FILE", help="also write the figures here")
    return arguments.parse_args()


if __name__ == "__main__":
    main()
