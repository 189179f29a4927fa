"""What Ray Serve costs: the service in one process and on Ray Serve, with the same processors.

    python -m benchmarks.ray_serve                 # one processor for the servers, another one for the callers
    python -m benchmarks.ray_serve --processors 2  # two for both, callers included

The shipped translator with one thread for each processor, without cache. In each round each server is started, asked
and ended, so that the other one is not disturbed; all processes of a server, Ray's own included, are bound to the same
processors. Callers send requests of 32 sentences, then of one, of 5 to 15 tokens each, one request after another.

The table has the median over the rounds of sentences a second, of the time of a request of a single caller, and of
processor time; the cost is what Ray Serve adds. Nothing else should run at the same time; the share of the processors
that other programs used is printed.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from benchmarks import http_client
from benchmarks.http_client import Call, Load, post
from benchmarks.processes import OtherPrograms, Worker, describe_machine, machine_line, started
from benchmarks.servers import UNCACHED, free_port, is_ready
from benchmarks.shipped import shipped_tokenizer
from benchmarks.tables import RESULTS, markdown, rounded, write_json
from benchmarks.traffic import SHORT_TOKENS, sentence

ROOT = Path(__file__).resolve().parents[1]
PATIENCE_S = 300.0

BARE, ON_RAY = "one process", "Ray Serve"

SIZES = (32, 1)
"""Sentences of a request."""

CALLERS = {32: 4, 1: 16}
"""Callers at a time, by the sentences of their requests: enough that the model never waits."""


@dataclass(frozen=True)
class Measured:
    """The figures of one server in one round, for requests of one size.

    Args:
        per_second: Sentences a second with many callers.
        role_ms: Processor time for a sentence meanwhile, in milliseconds, by role: see :func:`_role_of`.
        alone_ms: Median time of a request of a single caller, in milliseconds.
    """

    per_second: float
    role_ms: dict[str, float]
    alone_ms: float

    @property
    def cpu_ms(self) -> float:
        """Processor time of all processes for a sentence."""
        return sum(self.role_ms.values())


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processors", type=int, default=1, help="processors of the servers, and threads of the model")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=10.0, help="length of each measurement")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder for ray_serve.json")
    asked = parser.parse_args(arguments)
    available = sorted(os.sched_getaffinity(0))
    servers = available[: asked.processors]
    callers = available[asked.processors :] or available
    rng = random.Random(1)
    tokenizer = shipped_tokenizer()

    def length(text: str) -> int:
        return len(tokenizer.encode(text, "de", "en"))

    sentences = [sentence(rng, length, *SHORT_TOKENS) for _ in range(4000)]
    found: dict[tuple[str, int], list[Measured]] = defaultdict(list)
    idle: list[float] = []
    others: list[float] = []
    with started("callers", http_client.serve_clients) as clients:
        clients.wait_until_loaded()
        psutil.Process(clients.pid).cpu_affinity(callers)
        for number in range(asked.rounds):
            for name in (BARE, ON_RAY) if number % 2 == 0 else (ON_RAY, BARE):
                with running(name, servers) as (port, processes):
                    _call(clients, port, sentences, 1, 2.0, 4)  # warms up
                    _call(clients, port, sentences, 32, 2.0, 4)
                    if name == ON_RAY:
                        idle.append(_idle_share(processes))
                    other = OtherPrograms([clients.pid, *(one.pid for one in processes())])
                    for size in SIZES:
                        measured = _measure(clients, port, sentences, size, asked.seconds, processes)
                        found[name, size].append(measured)
                        print(f"round {number + 1}, {name}, {size}: {measured}", file=sys.stderr, flush=True)
                    others.append(other.share())
    print(report(found, asked.processors, statistics.median(idle), max(others)))
    figures = {
        "machine": describe_machine(asked.processors),
        "processors": asked.processors,
        "idle_share": rounded(statistics.median(idle)),
        "other_programs": rounded(max(others)),
        "rounds": {
            f"{name}, {size}": [vars(one) for one in measured] for (name, size), measured in sorted(found.items())
        },
    }
    write_json(figures, asked.out / "ray_serve.json")


_COLUMNS: tuple[tuple[str, Callable[[Measured], float], bool], ...] = (
    ("sentences/s", lambda one: one.per_second, True),
    ("processor ms a sentence", lambda one: one.cpu_ms, False),
    ("ms, one caller", lambda one: one.alone_ms, False),
)
"""Rows of the table, and whether more is better."""


def report(found: dict[tuple[str, int], list[Measured]], processors: int, idle: float, others: float) -> str:
    """The table."""
    rows = []
    for size in SIZES:
        bare, on_ray = found[BARE, size], found[ON_RAY, size]
        for title, value, more_is_better in _COLUMNS:
            pairs = [(value(a), value(b)) for a, b in zip(bare, on_ray, strict=True)]
            costs = [a / b - 1 if more_is_better else b / a - 1 for a, b in pairs]
            first, second = (statistics.median(column) for column in zip(*pairs, strict=True))
            rows.append(
                [
                    f"{size} a request, {title}",
                    f"{first:.2f}",
                    f"{second:.2f}",
                    f"{statistics.median(costs):+.0%}",
                    f"{min(costs):+.0%} to {max(costs):+.0%}",
                ]
            )
    return "\n".join(
        [
            machine_line(describe_machine(processors)),
            f"{processors} processors, {len(found[BARE, 1])} rounds; Ray without requests takes {idle:.1%} of a "
            f"processor; other programs took up to {others:.0%} of the machine.",
            "",
            markdown(["", BARE, ON_RAY, "cost", "in single rounds"], rows),
        ]
    )


def _measure(
    clients: Worker,
    port: int,
    sentences: Sequence[str],
    size: int,
    seconds: float,
    processes: Callable[[], list[psutil.Process]],
) -> Measured:
    before = _seconds_by_role(processes())
    num_answered, took_s, _ = _call(clients, port, sentences, size, seconds, CALLERS[size])
    after = _seconds_by_role(processes())
    role_ms = {role: (after[role] - before[role]) * 1000 / (num_answered * size) for role in after}
    _, _, latencies = _call(clients, port, sentences, size, seconds / 2, 1)
    return Measured(num_answered * size / took_s, role_ms, statistics.median(latencies) * 1000)


def _call(
    clients: Worker, port: int, sentences: Sequence[str], size: int, seconds: float, num_clients: int
) -> tuple[int, float, list[float]]:
    """Requests answered, the seconds that took, and the time of each."""
    calls = [_request(sentences, size, index) for index in range(int(seconds * 3000 / size))]
    outcome: http_client.Outcome = clients.run(Load(port, calls, num_clients, PATIENCE_S, seconds))
    wrong = [answer for answer in outcome.answers if answer.status != 200]
    if wrong:
        raise SystemExit(f"{len(wrong)} of {len(outcome.answers)} requests failed: {wrong[0]}")
    return len(outcome.answers), outcome.seconds, [answer.latency_s for answer in outcome.answers]


def _request(sentences: Sequence[str], size: int, index: int) -> Call:
    texts = [sentences[(index * size + number) % len(sentences)] for number in range(size)]
    return post("translate", text=texts, source="en", target="de")


def _role_of(process: psutil.Process) -> str:
    """What a process does: ``engine``, ``ingress``, ``proxy``, or ``rest``, which is Ray itself."""
    title = " ".join(process.cmdline())
    if "ServeReplica:default:" in title:
        return "ingress" if "ServeReplica:default:ingress" in title else "engine"
    if "ProxyActor" in title:
        return "proxy"
    return "engine" if " app" in title and "ray" not in title else "rest"


def _seconds_by_role(processes: Sequence[psutil.Process]) -> dict[str, float]:
    """Processor time so far."""
    total = dict.fromkeys(("engine", "ingress", "proxy", "rest"), 0.0)
    for process in processes:
        try:
            times = process.cpu_times()
            total[_role_of(process)] += times.user + times.system
        except psutil.NoSuchProcess:
            continue
    return total


def _idle_share(processes: Callable[[], list[psutil.Process]], seconds: float = 5.0) -> float:
    """The share of one processor that a server takes while it has no requests."""
    before = sum(_seconds_by_role(processes()).values())
    time.sleep(seconds)
    return (sum(_seconds_by_role(processes()).values()) - before) / seconds


@contextmanager
def running(name: str, processors: Sequence[int]) -> Iterator[tuple[int, Callable[[], list[psutil.Process]]]]:
    """A server that is ready; gives its port and a function that lists its processes."""
    port = free_port()
    environment = {key: value for key, value in os.environ.items() if not key.startswith("VERSO_")}
    environment |= {
        **UNCACHED,
        "VERSO_DEVICE": "cpu",
        "VERSO_THREADS": str(len(processors)),
        "VERSO_LOG_LEVEL": "warning",
        "VERSO_PORT": str(port),
    }
    module = ["app"] if name == BARE else ["benchmarks.ray_server", "--port", str(port)]
    bound = ",".join(map(str, processors))
    server = psutil.Popen(
        ["taskset", "--cpu-list", bound, sys.executable, "-m", *module],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )

    def processes() -> list[psutil.Process]:
        return [server, *server.children(recursive=True)]

    try:
        end = time.monotonic() + PATIENCE_S
        while not is_ready(port):
            if server.poll() is not None or time.monotonic() > end:
                raise SystemExit(f"{name} did not start")
            time.sleep(0.2)
        yield port, processes
    finally:
        left = processes()
        server.send_signal(signal.SIGTERM)
        try:
            server.wait(60)
        except psutil.TimeoutExpired:
            server.kill()
        _, alive = psutil.wait_procs(left, timeout=10)
        for process in alive:
            process.kill()


if __name__ == "__main__":
    main()
