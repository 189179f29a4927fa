"""What hostile requests do to everybody else: how late ``/livez`` answers beside each, and the memory that they leave.

    python -m benchmarks.hostile

A service without keys gets files that used to freeze it and bodies that used to fill it; one with keys gets bodies of
strangers without a key. Beside each, another process asks ``/livez`` a hundred times a second. Memory is that of the
service and its processes, before, at its peak, and a minute after the answer. Needs Linux; nothing else should run.
"""

from __future__ import annotations

import http.client
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

from app.accounts.store import KeyStore
from benchmarks.command_line import parser, prepare_environment
from benchmarks.hostile_requests import KEYLESS, PATIENCE_S, WITH_KEYS, Proof, document, word_file
from benchmarks.processes import describe_machine, family_memory_bytes, machine_line
from benchmarks.servers import Running, running, verso
from benchmarks.tables import markdown, percentile
from model.artifacts.pretrained import build_pretrained

NUM_THREADS = 2

INTERVAL_S = 0.01
"""Rest between two requests of ``/livez``."""

LIMITED = {"VERSO_ADDRESS_REQUESTS_PER_MINUTE": "100"}


class Watch(NamedTuple):
    """The measurements beside a proof.

    Args:
        latencies_s: Of ``/livez``, in seconds.
        peak_bytes: Memory of the service at its peak.
    """

    latencies_s: list[float]
    peak_bytes: int


def watch(connection: Connection[Any, Any], port: int, pid: int) -> None:
    """Ask ``/livez`` until a message arrives, in a process of its own, and send a :class:`Watch`."""
    latencies_s, peak = [], 0
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    connection.send(None)
    sampled_at = 0.0
    while not connection.poll():
        began = time.monotonic()
        try:
            client.request("GET", "/livez")
            client.getresponse().read()
        except (OSError, http.client.HTTPException):
            client.close()
        latencies_s.append(time.monotonic() - began)
        if time.monotonic() - sampled_at > 0.2:
            peak, sampled_at = max(peak, family_memory_bytes(pid)), time.monotonic()
        time.sleep(INTERVAL_S)
    connection.send(Watch(latencies_s, peak))


@contextmanager
def watching(service: Running) -> Iterator[Callable[[], Watch]]:
    """Watch a service in the context; gives a function that ends the watch and returns it."""
    context = get_context("spawn")
    connection, child_connection = context.Pipe()
    process = context.Process(target=watch, args=(child_connection, service.port, service.pid), daemon=True)
    process.start()
    connection.recv()

    def end() -> Watch:
        time.sleep(0.5)
        connection.send(None)
        result: Watch = connection.recv()
        return result

    try:
        yield end
    finally:
        process.terminate()
        process.join()


def measure(service: Running, proof: Proof, rest_s: float) -> list[str]:
    """A row of the table."""
    before = family_memory_bytes(service.pid)
    with watching(service) as end:
        began = time.monotonic()
        result = proof.run(service)
        duration_s = time.monotonic() - began
        latencies_s, peak = end()
    time.sleep(rest_s)
    after = family_memory_bytes(service.pid)
    return [
        proof.name,
        result,
        f"{duration_s:.2f}",
        f"{1000 * percentile(latencies_s, 0.99):.0f}",
        f"{1000 * max(latencies_s):.0f}",
        *(f"{amount / 1e6:.0f}" for amount in (before, peak, after)),
    ]


def main() -> int:
    """Measure and print."""
    options = parser(__doc__)
    options.add_argument(
        "--rest", type=float, default=60, metavar="S", help="seconds before memory is read; default 60"
    )
    options.add_argument("--only", default="", metavar="WORDS", help="only those whose name contains this")
    arguments = options.parse_args()
    prepare_environment()
    bundle = build_pretrained("cpu")
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        keys = Path(folder) / "keys.sqlite"
        KeyStore(keys).close()
        for proofs, settings in ((KEYLESS, {}), (WITH_KEYS, {"VERSO_KEYS_DB": str(keys), **LIMITED})):
            chosen = [proof for proof in proofs if arguments.only in proof.name]
            if not chosen:
                continue
            with running(verso(bundle, NUM_THREADS, **settings)) as service:
                document("a.docx", lambda: word_file(10))(service)
                for proof in chosen:
                    rows.append(measure(service, proof, arguments.rest))
                    print(rows[-1], file=sys.stderr, flush=True)
    print(machine_line(describe_machine(NUM_THREADS)))
    header = ["request", "result", "s", "/livez p99 ms", "worst", "memory before MB", "peak"]
    print(markdown([*header, f"{arguments.rest:g} s later"], rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
