"""What keys cost: the same requests to a service without keys and to one with keys.

    python -m benchmarks.keys

Both services run all the time; one client sends requests one after the other, in rounds that alternate between them. A
request is one short sentence, greedy. It is either in the cache, so that nearly all of the time is HTTP and keys, or
new. With keys it has a key without limits, one with a monthly limit (whose characters are reserved before the work), or
an Idempotency-Key besides. Figures are medians over the rounds of each round's median latency and of the service's
processor time for each request; the differences are medians of the rounds' differences.

The file of keys is on the disk of the folder for temporary files: each counted request waits for it. Needs Linux.
"""

from __future__ import annotations

import argparse
import http.client
import itertools
import json
import os
import random
import statistics
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from app.accounts.store import KeyStore
from benchmarks.processes import OtherPrograms, cpu_seconds, describe_machine, machine_line
from benchmarks.servers import Running, running, verso
from benchmarks.shipped import shipped_tokenizer
from benchmarks.tables import markdown
from benchmarks.traffic import SHORT_TOKENS, sentence
from model.artifacts.pretrained import build_pretrained

WITHOUT = "without keys"


@dataclass(frozen=True)
class Way:
    """A way to send requests.

    Args:
        name: Its name in the table.
        up: The service.
        token: The key, or empty.
        is_repeatable: Whether each request has an ``Idempotency-Key``.
    """

    name: str
    up: Running
    token: str = ""
    is_repeatable: bool = False


def measure(way: Way, texts: Iterator[str], number: int) -> tuple[float, float]:
    """Median latency and mean processor time of the service for a request, in milliseconds.

    Args:
        way: How to send them.
        texts: What to translate.
        number: Number of requests.
    """
    connection = http.client.HTTPConnection("127.0.0.1", way.up.port, timeout=60)
    headers = {"Content-Type": "application/json"}
    if way.token:
        headers["Authorization"] = f"Bearer {way.token}"
    latencies = []
    cpu_before = cpu_seconds(way.up.pid)
    for text in itertools.islice(texts, number):
        if way.is_repeatable:
            headers["Idempotency-Key"] = uuid.uuid4().hex
        body = json.dumps({"text": text, "source": "en", "target": "de", "decoding": "greedy"})
        began = time.perf_counter()
        connection.request("POST", "/translate", body, headers)
        answer = connection.getresponse()
        content = answer.read()
        latencies.append(1000 * (time.perf_counter() - began))
        if answer.status != 200:
            raise SystemExit(f"{way.name}: {answer.status} {content.decode()}")
    connection.close()
    return statistics.median(latencies), 1000 * (cpu_seconds(way.up.pid) - cpu_before) / number


def report(found: dict[str, list[tuple[float, float]]], label: str) -> str:
    """A table: medians, and how much they are above those without keys."""
    bare = found[WITHOUT]
    rows = []
    for name, rounds in found.items():
        cells = []
        for index in range(2):
            more = statistics.median(one[index] - other[index] for one, other in zip(rounds, bare, strict=True))
            cells += [f"{statistics.median(one[index] for one in rounds):.2f}", f"{more:+.2f}"]
        rows.append([name, *cells])
    return markdown([label, "latency ms", "more", "processor ms", "more"], rows)


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9, help="default %(default)s")
    parser.add_argument("--requests", type=int, default=300, help="in each turn of a round; default %(default)s")
    arguments = parser.parse_args()
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    bundle, tokenizer, rng = build_pretrained("cpu"), shipped_tokenizer(), random.Random(1)

    def new_texts() -> Iterator[str]:
        while True:
            yield sentence(rng, lambda text: len(tokenizer.encode(text, "de")), *SHORT_TOKENS)

    with tempfile.TemporaryDirectory() as folder, ExitStack() as servers:
        path = Path(folder) / "keys.sqlite"
        store = KeyStore(path)
        _, unlimited = store.create("unlimited", ("translate",), time.time())
        _, limited = store.create("limited", ("translate",), time.time(), characters_per_month=10**12)
        store.close()
        settings = {"VERSO_CACHE_BYTES": "32000000", "VERSO_COALESCE": "on"}
        bare = servers.enter_context(running(verso(bundle, 1, **settings)))
        keyed = servers.enter_context(running(verso(bundle, 1, VERSO_KEYS_DB=str(path), **settings)))
        ways = [
            Way(WITHOUT, bare),
            Way("a key", keyed, unlimited.text),
            Way("a key with a monthly limit", keyed, limited.text),
            Way("a key, and an Idempotency-Key", keyed, unlimited.text, is_repeatable=True),
        ]
        others = OtherPrograms([os.getpid(), bare.pid, keyed.pid])
        print(machine_line(describe_machine(1)))
        for label, texts in (("in the cache", itertools.repeat("Good morning.")), ("new sentences", new_texts())):
            found: dict[str, list[tuple[float, float]]] = {way.name: [] for way in ways}
            for number in range(arguments.rounds + 1):
                for way in rng.sample(ways, len(ways)):
                    figures = measure(way, texts, arguments.requests)
                    if number:  # the first round is the warm-up
                        found[way.name].append(figures)
            print(f"\n{report(found, label)}", flush=True)
        print(f"\nOther programs used {others.share():.0%} of the processors.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
