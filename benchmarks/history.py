"""A service with much history: what its data cost, compared with a service without any.

    python -m benchmarks.history

The history is made by the stores of the service: 1,000 keys, 1,000,000 requests counted over a year, of which those of
the last day that had an ``Idempotency-Key`` are remembered, a translation memory of 100,000 units for the first key and
one of ten for each other key, 200 glossaries and 500 finished documents. The other folder has two keys, nothing else.

A service on each folder is started in turn; a start takes until ``/readyz`` answers. Then both run, and 16 callers send
each kind of request to them in turn, each the next one after an answer. All translations are in the cache. At the end,
``verso keys`` lists keys and usage.

CPU time is that of the service's process, kernel included, and does not depend much on what else runs; latencies do.
Figures are medians of the rounds, with the smallest in brackets. Needs Linux.
"""

from __future__ import annotations

import itertools
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psutil

from app.accounts.keys import SCOPES
from app.accounts.store import KeyStore
from app.accounts.usage import Charge, UsageStore, month_of
from app.documents.document import KEPT_S, Document
from app.documents.store import DocumentStore
from app.glossaries.store import Dictionary, GlossaryStore, OwnerBounds
from app.memories.store import MemoryBounds, MemoryStore
from app.memories.unit import Unit
from benchmarks.command_line import parser, positive, prepare_environment
from benchmarks.http_client import Call, Load, Outcome, load_sender, post
from benchmarks.memories import sentence_pairs
from benchmarks.processes import Worker, cpu_seconds, describe_machine, machine_line, started
from benchmarks.request_cost import processor_us
from benchmarks.servers import Running, running, verso
from benchmarks.shipped import short_sentences
from benchmarks.tables import markdown, percentile
from model.artifacts.pretrained import build_pretrained
from model.text.glossary import Glossary, GlossaryTerm

NUM_CALLERS = 16

DAY_S = 86_400.0
YEAR_S = 365 * DAY_S

QUOTA = 10**12
"""Characters a month of every second key: their requests are reserved before they are counted."""

BATCH = 1_000
"""Requests and units that are stored in one transaction."""

BOUNDS = MemoryBounds(1_000, 10_000_000, 10**12)

SETTINGS = {
    "VERSO_CACHE_BYTES": "32000000",
    "VERSO_COALESCE": "on",
    "VERSO_LOG_LEVEL": "info",
    "VERSO_MAX_DOCUMENTS": "1000000",
}


@dataclass(frozen=True)
class Extent:
    """How much history there is.

    Args:
        requests: Requests of the last year, one sentence each.
        units: Units of the largest memory; other keys have a memory each.
        glossaries: Glossaries.
        documents: Finished documents.
    """

    requests: int
    units: int
    glossaries: int
    documents: int


def make_keys(folder: Path, number: int, now: float) -> dict[str, str]:
    """Make the file of keys; returns the keys that callers send, by their ids.

    Args:
        folder: The folder of the file.
        number: How many; every second one has a monthly limit.
        now: Seconds since 1970.
    """
    tokens: dict[str, str] = {}
    with closing(KeyStore(folder / "keys.sqlite")) as keys:
        for index in range(number):
            limit = QUOTA if index % 2 else None
            key, token = keys.create(f"customer {index}", SCOPES, now - YEAR_S, characters_per_month=limit)
            tokens[key.id] = token.text
    return tokens


def make_history(folder: Path, keys: Sequence[str], extent: Extent, now: float) -> None:
    """Fill a folder for data.

    Args:
        folder: The folder, with the file of keys.
        keys: The ids of the keys.
        extent: How much history there is.
        now: Seconds since 1970.
    """
    _count_requests(folder / "keys.sqlite", keys, extent.requests, now)
    _store_memories(folder, keys, extent.units, now)
    glossaries = GlossaryStore(folder, OwnerBounds(BOUNDS.memories, 10_000_000))
    terms: Glossary = tuple(GlossaryTerm(f"word{term}", f"Wort{term}") for term in range(100))
    for number in range(extent.glossaries):
        glossaries.owned_by(keys[number % len(keys)]).create(f"terms {number}", [Dictionary("en", "de", terms)])
    glossaries.close()
    _store_documents(folder / "documents", keys, extent.documents, now)


def _count_requests(path: Path, keys: Sequence[str], number: int, now: float) -> None:
    """Count requests, spread over the last year, half of which have an ``Idempotency-Key``."""
    rng = random.Random(1)
    with closing(UsageStore(path)) as store:
        for begin in range(0, number, BATCH):
            at = now - YEAR_S + YEAR_S * begin / number
            charges = [
                Charge(
                    rng.choice(keys), f"client {index}", bytes(32), month_of(at), at > now - DAY_S and index % 2 == 0
                )
                for index in range(begin, min(begin + BATCH, number))
            ]
            store.settle_all([(charge, rng.randint(20, 120)) for charge in charges], at)


def _store_memories(folder: Path, keys: Sequence[str], num_units: int, now: float) -> None:
    """Store a large memory of the first key, and a small one of each other key."""
    pairs = sentence_pairs()

    def units(number: int) -> Iterator[list[Unit]]:
        for begin in range(0, number, BATCH):
            part = itertools.islice(pairs, min(BATCH, number - begin))
            yield [Unit(source, target, "de") for source, target in part]

    store = MemoryStore(folder, BOUNDS)
    store.connection.execute("PRAGMA synchronous = OFF")  # only here: a thousand commits
    for key, number in zip(keys, [num_units, *[10] * len(keys)], strict=False):
        memory = store.create(key, "Sentences", "en", now)
        for part in units(number):
            store.add(key, memory.id, part, now)
    store.close()


def _store_documents(folder: Path, keys: Sequence[str], number: int, now: float) -> None:
    """Store documents that are done."""
    store = DocumentStore(folder)
    pairs = list(itertools.islice(sentence_pairs(), 100))
    content = "\n\n".join(source for source, _ in pairs).encode()
    for index in range(number):
        document = Document(
            id=f"{index:032x}",
            filename=f"letter {index}.txt",
            source="en",
            target="de",
            options="{}",
            status="queued",
            num_characters=len(content),
            created_at=now + index / number,
            expires_at=now + KEPT_S,
            owner=keys[index % len(keys)],
        )
        store.add(document, content)
        store.begin(document.id, len(pairs))
        store.add_translations(document.id, {unit: target for unit, (_, target) in enumerate(pairs)}, len(pairs), 0)
        store.finish(document.id, "\n\n".join(target for _, target in pairs).encode(), now + KEPT_S)
    store.close()


def requests_of(tokens: Sequence[str], number: int) -> dict[str, Callable[[int], list[Call]]]:
    """The requests of each kind, by the number of the round; the callers have the keys in turn.

    Args:
        tokens: The keys.
        number: How many to send.
    """
    texts = short_sentences(64)

    def calls(make: Callable[[int, str], Call], step: int = 1, first: int = 0) -> Callable[[int], list[Call]]:
        def of_round(round_number: int) -> list[Call]:
            chosen = itertools.cycle(tokens[first::step] or tokens)
            return [
                replace(call, headers=f"Authorization: Bearer {token}\r\n{call.headers}")
                for index, token in zip(range(number), chosen, strict=False)
                for call in [make(index, f"{round_number} {index}")]
            ]

        return of_round

    def translation(index: int, name: str, **fields: Any) -> Call:
        return post("translation", text=texts[index % len(texts)], source="en", target="de", **fields)

    def repeatable(index: int, name: str) -> Call:
        return replace(translation(index, name), headers=f"Idempotency-Key: {name.replace(' ', '-')}\r\n")

    def page(path: str) -> Callable[[int, str], Call]:
        return lambda index, name: Call(path, path, None)

    usage = page("/v2/usage")
    return {
        "`/translate`, a key": calls(translation, 2),
        "`/translate`, a monthly limit": calls(translation, 2, 1),
        "`/translate`, a limit and an `Idempotency-Key`": calls(repeatable, 2, 1),
        "`/translate`, `corrections`": calls(lambda index, name: translation(index, name, memory="corrections")),
        "`GET /memories`": calls(page("/memories")),
        "`GET /documents`": calls(page("/documents")),
        "`/v2/usage`": lambda round_number: [
            replace(call, headers=call.headers.replace("Bearer", "DeepL-Auth-Key"))
            for call in calls(usage)(round_number)
        ],
        "`/metrics`": calls(page("/metrics")),
    }


Figures = dict[str, dict[str, list[float]]]
"""Values by what they are of and by the name of the service, one for each round."""


def ask(client: Worker, service: Running, calls: Sequence[Call]) -> Outcome:
    """Let callers send requests; all must be answered."""
    outcome: Outcome = client.run(Load(service.port, calls, NUM_CALLERS, 60.0))
    failed = [answer for answer in outcome.answers if answer.status != 200]
    if failed:
        raise SystemExit(f"{failed[0].kind}: {failed[0].status} {failed[0].body.decode()}")
    return outcome


def list_keys(folder: Path, *arguments: str) -> float:
    """CPU seconds of ``verso keys``."""
    code = "from app.commands.main import main; main()"
    command = [sys.executable, "-c", code, "keys", "--db", str(folder / "keys.sqlite"), *arguments]
    before = os.times()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def measure(folders: dict[str, Path], tokens: dict[str, list[str]], rounds: int, number: int) -> dict[str, Figures]:
    """The figures of both services: of starts, of CPU time, of latencies and of commands.

    Args:
        folders: Their folders, by name.
        tokens: Their keys, by name.
        rounds: Rounds after the warm-up.
        number: Requests of each kind in a round.
    """
    figures: dict[str, Figures] = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    bundle = build_pretrained("cpu")
    servers = {
        name: verso(bundle, 1, VERSO_DATA_DIR=str(folder), VERSO_KEYS_DB=str(folder / "keys.sqlite"), **SETTINGS)
        for name, folder in folders.items()
    }
    for round_number in range(rounds + 1):
        for name, server in servers.items():
            began = time.perf_counter()
            with running(server) as service:
                if round_number:
                    memory = psutil.Process(service.pid).memory_full_info()
                    of_start = figures["start"]
                    of_start["time, s"][name].append(time.perf_counter() - began)
                    of_start["CPU time, s"][name].append(cpu_seconds(service.pid))
                    of_start["private memory, MB"][name].append(memory.uss / 1e6)
    with ExitStack() as stack:
        client = stack.enter_context(started("the callers", load_sender))
        services = {name: stack.enter_context(running(server)) for name, server in servers.items()}
        kinds = {name: requests_of(tokens[name], number) for name in services}
        for round_number, kind in itertools.product(range(rounds + 1), next(iter(kinds.values()))):
            for name, service in services.items():
                before = processor_us(service.pid)
                outcome = ask(client, service, kinds[name][kind](round_number))
                if round_number:
                    times_ms = [1000 * answer.latency_s for answer in outcome.answers]
                    figures["CPU"][kind][name].append((processor_us(service.pid) - before) / number)
                    figures["p50"][kind][name].append(percentile(times_ms, 0.5))
                    figures["p99"][kind][name].append(percentile(times_ms, 0.99))
        for name, service in services.items():
            private = psutil.Process(service.pid).memory_full_info().uss
            figures["start"]["private memory after the requests, MB"][name].append(private / 1e6)
    for _, (name, folder) in itertools.product(range(rounds), folders.items()):
        for arguments in (("list",), ("usage",), ("usage", "--month", "all")):
            figures["command"][f"`verso keys {' '.join(arguments)}`"][name].append(list_keys(folder, *arguments))
    return figures


def table(head: str, figures: Figures, digits: int) -> str:
    """A table with a row for each kind."""
    names = list(next(iter(figures.values())))
    rows = [
        [kind, *(f"{statistics.median(values[name]):.{digits}f} ({min(values[name]):.{digits}f})" for name in names)]
        for kind, values in figures.items()
    ]
    return markdown([head, *names], rows)


def main() -> int:
    """Measure and print."""
    options = parser(__doc__, rounds=5)
    amounts = {"keys": 1_000, "units": 100_000, "glossaries": 200, "documents": 500}
    options.add_argument("--requests", type=positive(int), default=200, help="of each kind in a round; default 200")
    options.add_argument("--history", type=positive(int), default=1_000_000, help="counted requests; default 1000000")
    for name, amount in amounts.items():
        options.add_argument(
            f"--{name}", type=positive(int), default=amount, help="of the history; default %(default)s"
        )
    arguments = options.parse_args()
    prepare_environment()
    print(machine_line(describe_machine(1)), flush=True)
    extent = Extent(arguments.history, arguments.units, arguments.glossaries, arguments.documents)
    with tempfile.TemporaryDirectory() as name:
        folders = {"none": Path(name) / "none", "history": Path(name) / "history"}
        now = time.time()
        keys = {
            name: make_keys(folder, arguments.keys if name == "history" else 2, now) for name, folder in folders.items()
        }
        began = time.perf_counter()
        make_history(folders["history"], list(keys["history"]), extent, now)
        sizes = ", ".join(
            f"{path.name} {path.stat().st_size / 1e6:.0f} MB" for path in folders["history"].glob("*.sqlite")
        )
        print(f"{extent}, made in {time.perf_counter() - began:.0f} s: {sizes}", flush=True)
        figures = measure(
            folders, {name: list(keys[name].values()) for name in keys}, arguments.rounds, arguments.requests
        )
    for head, kind, digits in (
        ("start", "start", 2),
        ("CPU time of a request, µs", "CPU", 0),
        ("p50, ms", "p50", 1),
        ("p99, ms", "p99", 1),
        ("CPU time of a command, s", "command", 2),
    ):
        print(f"\n{table(head, figures[kind], digits)}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
