"""What an answer costs the service besides the model: processor time for each request, and where it goes.

    python -m benchmarks.request_cost
    python -m benchmarks.request_cost --against FOLDER

The translations are in the cache, so that nearly all of the time is HTTP, JSON, text and log. With ``--against`` the
code of another checkout, such as that of an older version, is measured as well, in rounds that alternate between both.
Each service has one processor; 16 callers, each of whom sends the next request after an answer, have another one.

The first table has the medians over the rounds of the service's processor time for each request, and the least, kernel
included, as the scheduler counts it. The second one has the shares of a profile of one round of short sentences, by the
part of the program, in microseconds of the first table; what C functions take counts for the code that calls them. A
profile makes code of many small functions look slower than it is.

Needs Linux and two processors.
"""

from __future__ import annotations

import os
import pstats
import signal
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import cycle, islice
from pathlib import Path

from benchmarks.command_line import parser, positive, prepare_environment
from benchmarks.http_client import Call, Load, Outcome, load_sender, post
from benchmarks.processes import OtherPrograms, Worker, describe_machine, machine_line, started
from benchmarks.servers import ROOT, Running, Server, running, verso
from benchmarks.shipped import short_sentences
from benchmarks.tables import markdown
from model.artifacts.pretrained import build_pretrained

NUM_CALLERS = 16

NUM_SENTENCES = 64
"""Different short sentences."""

SETTINGS = {"VERSO_CACHE_BYTES": "32000000", "VERSO_COALESCE": "on", "VERSO_LOG_LEVEL": "info"}

_PROFILER = Path(__file__).with_name("profiled_service.py")

WAITING = "<method 'poll' of 'select.epoll' objects>"
"""What the event loop waits in."""

Function = tuple[str, int, str]
"""File, line and name of a function, as profiles have it."""


SENTENCES = "`/translate`, 5 to 15 tokens"


def kinds() -> dict[str, list[Call]]:
    """The requests of each kind, by its name."""
    texts = {"`/translate`, two words": ["Good morning."], SENTENCES: short_sentences(NUM_SENTENCES)}
    calls = {
        kind: [post(kind, text=text, source="en", target="de") for text in of_kind] for kind, of_kind in texts.items()
    }
    return {**calls, "`/livez`": [Call("probe", "/livez", None)]}


def processor_us(pid: int) -> float:
    """Processor time of a process so far, in microseconds."""
    tasks = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(task.read_text(encoding="ascii").split()[0]) for task in tasks) / 1000


def ask(client: Worker, service: Running, calls: Sequence[Call], number: int) -> None:
    """Let callers ask, each the next request after an answer.

    Args:
        client: The callers.
        service: The service.
        calls: What to send, again and again.
        number: How many to send.
    """
    outcome: Outcome = client.run(Load(service.port, list(islice(cycle(calls), number)), NUM_CALLERS, 60.0))
    failed = [answer for answer in outcome.answers if answer.status != 200]
    if failed:
        raise SystemExit(f"{failed[0].kind}: {failed[0].status} {failed[0].body.decode()}")


def profiled(server: Server, client: Worker, calls: Sequence[Call], number: int) -> tuple[dict[str, float], float]:
    """Seconds in each part of the program while a service answers requests, and calls of functions for a request.

    Args:
        server: The service.
        client: The callers.
        calls: What to send, again and again.
        number: How many to send.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "profile"
        with running(replace(server, command=(str(_PROFILER), str(path)))) as service:
            ask(client, service, calls, 2 * len(calls))
            os.kill(service.pid, signal.SIGUSR1)
            ask(client, service, calls, number)
            os.kill(service.pid, signal.SIGUSR2)
            while not path.exists():
                time.sleep(0.05)
        stats = pstats.Stats(str(path))
        return by_part(stats, server.folder), stats.total_calls / number  # type: ignore[attr-defined]


def by_part(stats: pstats.Stats, folder: Path) -> dict[str, float]:
    """Seconds by the part of the program.

    Args:
        stats: A profile.
        folder: The checkout.
    """
    seconds: dict[str, float] = defaultdict(float)
    functions: dict[Function, tuple[int, int, float, float, dict[Function, tuple[int, int, float, float]]]]
    functions = stats.stats  # type: ignore[attr-defined]
    for (file, _, name), (_, _, own_s, _, callers) in functions.items():
        if name == WAITING:
            continue
        if file == "~" and callers:  # of the C functions, each caller has its part
            for (caller_file, _, _), (_, _, part_s, _) in callers.items():
                seconds[_part_of(caller_file, folder)] += part_s
        else:
            seconds[_part_of(file, folder)] += own_s
    return seconds


def _part_of(file: str, folder: Path) -> str:
    path = Path(file)
    parts = path.parts
    if "site-packages" in parts:
        return parts[parts.index("site-packages") + 1].removesuffix(".py")
    if path.is_relative_to(folder):
        parts = path.relative_to(folder).parts
        return "/".join(parts[:2]) if parts[0] == "app" and len(parts) > 2 else parts[0]
    package = path.parent.name if path.parent.name in ("asyncio", "logging", "json") else ""
    return package or "standard library"


def main() -> int:
    """Measure and print."""
    options = parser(__doc__, rounds=9)
    options.add_argument("--against", type=Path, help="another checkout")
    options.add_argument("--requests", type=positive(int), default=1000,
                         help="in each turn of a round; default %(default)s")  # fmt: skip
    arguments = options.parse_args()
    prepare_environment()
    first, second = sorted(os.sched_getaffinity(0))[:2]
    folders = {"this checkout": ROOT}
    if arguments.against is not None:
        folders = {"the other one": arguments.against.resolve(), **folders}
    bundle = build_pretrained("cpu")
    server, calls_by_kind = verso(bundle, 1, **SETTINGS), kinds()
    servers = {
        name: replace(server, folder=folder, environment={**server.environment, "PYTHONPATH": str(folder)})
        for name, folder in folders.items()
    }
    costs: dict[str, dict[str, list[float]]] = {kind: {name: [] for name in servers} for kind in calls_by_kind}
    print(machine_line(describe_machine(1)))
    with ExitStack() as stack:
        client = stack.enter_context(started("the callers", load_sender))
        os.sched_setaffinity(client.pid, {second})
        os.sched_setaffinity(0, {first})  # the services inherit it
        services = {name: stack.enter_context(running(server)) for name, server in servers.items()}
        others = OtherPrograms([os.getpid(), client.pid, *(service.pid for service in services.values())])
        for number in range(arguments.rounds + 1):
            for kind, calls in calls_by_kind.items():
                for name, service in services.items():
                    before = processor_us(service.pid)
                    ask(client, service, calls, arguments.requests)
                    if number:  # the first round is the warm-up
                        costs[kind][name].append((processor_us(service.pid) - before) / arguments.requests)
        share = others.share()
        profiles = {
            name: profiled(server, client, calls_by_kind[SENTENCES], arguments.requests)
            for name, server in servers.items()
        }
    medians = {
        kind: {name: statistics.median(values) for name, values in by_name.items()} for kind, by_name in costs.items()
    }
    rows = [
        [kind, *(f"{medians[kind][name]:.0f} ({min(costs[kind][name]):.0f})" for name in servers)] for kind in costs
    ]
    print(f"\n{markdown(['processor µs for a request (least)', *servers], rows)}\n", flush=True)
    in_us = {
        name: {part: medians[SENTENCES][name] * seconds / sum(parts.values()) for part, seconds in parts.items()}
        for name, (parts, _) in profiles.items()
    }
    largest = {part: max(us.get(part, 0.0) for us in in_us.values()) for part in set().union(*in_us.values())}
    rows = [
        [part, *(f"{us.get(part, 0.0):.0f}" for us in in_us.values())]
        for part in sorted(largest, key=lambda part: -largest[part])
    ]
    print(markdown([f"{SENTENCES}, µs by profile", *servers], rows))
    counts = ", ".join(f"{name} {number:,.0f}" for name, (_, number) in profiles.items())
    print(f"\nCalls of functions for a request, which do not depend on what else runs: {counts}.")
    print(f"Other programs used {share:.0%} of the processors.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
