"""A soak: a service with keys under mixed load for a long time.

    python -m benchmarks.soak --minutes 30

A service with the shipped translator, keys, documents, glossaries and a small cache, so that it is full soon. First a
service without load, keys and cache answers everything that will be asked, one request after the other: these are the
right answers. Then the service's capacity is measured: 16 users who each do one thing after the other. For the given
time, users then arrive as a Poisson process at 70 % of that rate, whether or not earlier ones were answered; besides,
every 20 seconds on average, a user sends a document or thousands of sentences. scenarios.py has their uses.

Every answer is compared. A sentence that was corrected must be answered with its correction from then on. At the end,
the usage that was counted for each key must be equal to what was answered, and the folder for data must have all
corrections, and no document or memory that was deleted.

Latency is that of the whole use, from the time at which it was due. Memory is that of the service's process; its drift
is the growth along a line of least squares from the end of the warm-up to the end of the load. The warm-up is long,
because memory reaches its highest level only after several of the rare, large uses have met.

The target is no wrong answer, no error and a drift under 1 %; the exit status is 1 if an answer, a count or what
is stored is wrong.
Nothing else should run on the machine; the share that other programs used is printed. Needs Linux.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import random
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
import psutil
from tqdm import tqdm

from benchmarks.command_line import parser, positive, prepare_environment
from benchmarks.processes import OtherPrograms, cpu_seconds, describe_machine, machine_line
from benchmarks.servers import Running, running, verso
from benchmarks.shipped import token_counter
from benchmarks.soak.report import Record, memory, report, summarise
from benchmarks.soak.scenarios import Scenario, rare_scenarios, usual_scenarios
from benchmarks.soak.users import Refused, Service, User, make_users, storage_errors, usage_errors
from benchmarks.soak.watch import Watch
from benchmarks.tables import RESULTS, percentile, rounded, write_json
from benchmarks.traffic import sentence
from model.artifacts.pretrained import build_pretrained

NUM_USERS = 16
"""Users at a time when the capacity is measured."""

RARE_S = 20.0
"""Mean time between two uses of the rare kinds, in seconds."""

PROBE_S = 1.0
"""Interval at which ``/livez`` is asked, in seconds."""

PATIENCE_S = 120.0
"""Timeout of a request."""

PAUSE_S = 3.0
"""Pause after which connections that were closed here are closed there, too."""

NUM_SENTENCES = 1_500
LENGTHS = (5, 30)
"""Number and tokens of the sentences."""

CACHE_BYTES = 150_000
"""Some two hundred sentences: the cache is full after a minute, and entries are replaced from then on."""

METRICS = ("verso_cache_hits_total", "verso_cache_misses_total", "verso_cache_entries", "verso_sentences_total")
"""Names of metrics that are printed at the end."""

Right = dict[tuple[str, int], object]
"""The right answers, by kind and index of the item."""


class Soak:
    """Uses a service.

    Args:
        service: The service.
        right: The right answers.
        seed: Of what is chosen.
    """

    def __init__(self, service: Service, right: Right, seed: int) -> None:
        self._service = service
        self._right = right
        self._rng = random.Random(seed)
        self.record = Record()

    async def use(self, scenarios: Sequence[Scenario], due: float | None = None) -> None:
        """Play a random scenario, and record the result.

        Args:
            scenarios: The choice of scenarios.
            due: When it was due, by ``time.monotonic``; now by default.
        """
        (scenario,) = self._rng.choices(scenarios, [scenario.weight for scenario in scenarios])
        index = self._rng.randrange(len(scenario.items))
        user = self._service.users[self._rng.choice(scenario.users)]
        rng = random.Random(self._rng.random())
        began = time.monotonic() if due is None else due
        try:
            answer = await scenario.play(self._service, user, scenario.items[index], rng)
        except Refused as refused:
            if any(part in refused.about for part in scenario.refusals):
                self.record.refused[scenario.kind] += 1
            else:
                self.record.failures.append((scenario.kind, str(refused)))
            return
        except Exception as error:  # noqa: BLE001  (an answer of another form)
            self.record.wrong.append((scenario.kind, repr(error)))
            return
        self.record.latencies_s[scenario.kind].append(time.monotonic() - began)
        if answer != self._right[scenario.kind, index]:
            self.record.wrong.append((scenario.kind, f"item {index}: {str(answer)[:500]}"))

    async def closed_loop(self, scenarios: Sequence[Scenario], seconds: float) -> float:
        """Users who do one thing after the other; returns the uses per second."""
        end = time.monotonic() + seconds
        before = self.record.num_uses

        async def user() -> None:
            while time.monotonic() < end:
                await self.use(scenarios)

        began = time.monotonic()
        await asyncio.gather(*(user() for _ in range(NUM_USERS)))
        return (self.record.num_uses - before) / (time.monotonic() - began)

    async def open_loop(self, scenarios: Sequence[Scenario], rate: float, seconds: float) -> None:
        """Users who arrive at a rate, for some time; returns when all are done."""
        rng = random.Random(self._rng.random())
        due = time.monotonic() + rng.expovariate(rate)
        end = due + seconds
        async with asyncio.TaskGroup() as uses:
            while due < end:
                await asyncio.sleep(max(0.0, due - time.monotonic()))
                uses.create_task(self.use(scenarios, due))
                due += rng.expovariate(rate)

    async def probe(self) -> None:
        """Ask ``/livez`` until cancelled: it answers as soon as the service's event loop is free."""
        with httpx.Client(base_url=self._service.client.base_url, trust_env=False) as client:
            while True:
                # On a thread of its own: this process's event loop is late itself while users have large answers.
                self.record.probes_s.append(await asyncio.to_thread(answer_s, client, "/livez"))
                await asyncio.sleep(PROBE_S)


def answer_s(client: httpx.Client, path: str) -> float:
    """Seconds until a path is answered."""
    began = time.monotonic()
    client.get(path).raise_for_status()
    return time.monotonic() - began


@contextlib.asynccontextmanager
async def reach(port: int, users: dict[str, User]) -> AsyncIterator[Service]:
    """A service on this machine.

    Args:
        port: Its port.
        users: Its users.
    """
    # The service keeps idle connections for 30 s: shorter here, so that none is closed while it is used again.
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=64, keepalive_expiry=10.0)
    async with httpx.AsyncClient(
        base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE_S, trust_env=False, limits=limits
    ) as client:
        yield Service(client, users)


async def right_answers(port: int, users: dict[str, User], scenarios: Sequence[Scenario]) -> Right:
    """The answers of a service that does nothing else, one after the other."""
    rng = random.Random(0)
    strangers = {name: replace(user) for name, user in users.items()}  # copies: these answers are not counted
    right: Right = {}
    async with reach(port, strangers) as service:
        total = sum(len(scenario.items) for scenario in scenarios)
        with tqdm(total=total, unit="answer", desc="right answers", file=sys.stderr, mininterval=5.0) as bar:
            for scenario in scenarios:
                play = scenario.alone or scenario.play
                for index, item in enumerate(scenario.items):
                    right[scenario.kind, index] = await play(service, strangers[scenario.users[0]], item, rng)
                    bar.update()
    return right


@dataclass(frozen=True)
class Plan:
    """The extent of a soak.

    Args:
        minutes: Length of the load.
        warm_up_minutes: What of it does not count for memory.
        calibration_s: Length of the measurement of the capacity.
        num_threads: Threads of the model.
        share: Arrival rate as a share of the capacity.
    """

    minutes: float
    warm_up_minutes: float
    calibration_s: float
    num_threads: int
    share: float


async def soak(
    running_service: Running, users: dict[str, User], right: Right, sentences: Sequence[str], plan: Plan
) -> dict[str, Any]:
    """Put load on a service; returns the figures but those of usage."""
    usual, rare = usual_scenarios(sentences), rare_scenarios(sentences)
    watch = Watch(running_service.pid)
    async with reach(running_service.port, users) as service:
        first = Soak(service, right, seed=1)
        await first.closed_loop(usual, plan.calibration_s / 3)
        capacity = await first.closed_loop(usual, plan.calibration_s)
        for scenario in rare:
            await first.use([scenario])  # what documents need is opened with the first one
    print(f"Capacity: {capacity:.1f} uses/s.", flush=True)
    await asyncio.sleep(PAUSE_S)
    at_start = watch.resources()
    async with reach(running_service.port, users) as service:
        load = Soak(service, right, seed=2)
        others = OtherPrograms([os.getpid(), running_service.pid])
        watch.began, cpu_before, own_before = time.monotonic(), cpu_seconds(running_service.pid), time.process_time()
        beside = [asyncio.create_task(watch.run()), asyncio.create_task(load.probe())]
        async with asyncio.TaskGroup() as loops:
            loops.create_task(load.open_loop(usual, plan.share * capacity, 60 * plan.minutes))
            loops.create_task(load.open_loop(rare, 1 / RARE_S, 60 * plan.minutes))
        seconds = time.monotonic() - watch.began
        for task in beside:
            task.cancel()
        await asyncio.gather(*beside, return_exceptions=True)
        cpu = {
            "service_cpu_share": rounded(
                (cpu_seconds(running_service.pid) - cpu_before) / seconds / (os.cpu_count() or 1)
            ),
            "users_cpu_share": rounded((time.process_time() - own_before) / seconds / (os.cpu_count() or 1)),
            "other_programs_share": rounded(others.share()),
        }
        metrics = (await service.client.get("/metrics")).text
        statuses = service.statuses
    await asyncio.sleep(PAUSE_S)
    record = load.record
    record.wrong += first.record.wrong
    record.failures += first.record.failures
    return {
        "minutes": rounded(seconds / 60),
        "capacity_per_s": rounded(capacity),
        "share": plan.share,
        "offered_per_s": rounded(record.num_uses / 60 / plan.minutes),
        "uses": record.num_uses,
        "wrong": record.wrong,
        "failures": record.failures,
        "statuses": dict(sorted(statuses.items())),
        "kinds": {scenario.kind: summarise(record, scenario.kind) for scenario in (*usual, *rare)},
        "livez_ms": {f"p{share}": rounded(1000 * percentile(record.probes_s, share / 100)) for share in (50, 99)},
        **cpu,
        "at_start": at_start,
        "at_end": watch.resources(),
        "memory": memory(watch, plan.warm_up_minutes),
        "metrics": [line for line in metrics.splitlines() if line.startswith(METRICS)],
    }


def run(plan: Plan) -> dict[str, Any]:
    """Run everything."""
    prepare_environment()
    bundle = build_pretrained("cpu")
    rng, num_tokens = random.Random(1), token_counter()
    texts = (sentence(rng, num_tokens, *LENGTHS) for _ in itertools.count())
    sentences = list(dict.fromkeys(itertools.islice(texts, NUM_SENTENCES)))
    with tempfile.TemporaryDirectory() as folder_name:
        folder = Path(folder_name)
        keys = folder / "keys.sqlite"
        users = make_users(keys)
        protocols = {"VERSO_MCP": "on", "VERSO_COMPAT": "libretranslate"}
        with running(
            verso(bundle, plan.num_threads, VERSO_DATA_DIR=str(folder / "reference"), **protocols)
        ) as reference:
            scenarios = [*usual_scenarios(sentences), *rare_scenarios(sentences)]
            right = asyncio.run(right_answers(reference.port, users, scenarios))
        settings = {
            **protocols,
            "VERSO_SUGGESTIONS": "on",
            "VERSO_KEYS_DB": str(keys),
            "VERSO_DATA_DIR": str(folder / "data"),
            "VERSO_CACHE_BYTES": str(CACHE_BYTES),
            "VERSO_COALESCE": "on",
        }
        with running(verso(bundle, plan.num_threads, **settings)) as service:
            figures = asyncio.run(soak(service, users, right, sentences, plan))
            process = psutil.Process(service.pid)
            process.terminate()
            exit_status = process.wait(PATIENCE_S)
        return {
            **figures,
            "exit_status": exit_status,
            "usage_errors": usage_errors(keys, list(users.values())),
            "storage_errors": storage_errors(folder / "data", list(users.values())),
        }


def main() -> int:
    """Run and print."""
    options = parser(__doc__, threads=len(os.sched_getaffinity(0)))
    options.add_argument(
        "--minutes", type=positive(float), default=30.0, help="length of the load; default %(default)s"
    )
    options.add_argument(
        "--warm-up", type=float, help="minutes that do not count for memory; default: half, at most 15"
    )
    options.add_argument("--calibration", type=positive(float), default=30.0,
                         help="seconds to measure the capacity; default 30")  # fmt: skip
    options.add_argument("--out", type=Path, default=RESULTS / "soak.json",
                         help="file of the figures; default %(default)s")  # fmt: skip
    options.add_argument("--load", type=float, default=0.7, help="share of the capacity; default %(default)s")
    arguments = options.parse_args()
    warm_up = min(15.0, arguments.minutes / 2) if arguments.warm_up is None else arguments.warm_up
    machine = describe_machine(arguments.threads)
    print(machine_line(machine), flush=True)
    figures = run(Plan(arguments.minutes, warm_up, arguments.calibration, arguments.threads, arguments.load))
    write_json({"machine": machine, **figures}, arguments.out)
    print(report(figures))
    faults = ("wrong", "failures", "usage_errors", "storage_errors", "exit_status")
    return 1 if any(figures[name] for name in faults) else 0


if __name__ == "__main__":
    sys.exit(main())
