"""What hostile requests do to everybody else: how late ``/livez`` answers beside each, and the memory that they leave.

    python -m benchmarks.hostile

A service without keys gets files that used to freeze it and bodies that used to fill it; one with keys gets bodies of
strangers without a key. Beside each, another process asks ``/livez`` a hundred times a second. Memory is that of the
service and its processes, before, at its peak, and a minute after the answer. Needs Linux; nothing else should run.
"""

from __future__ import annotations

import argparse
import http.client
import io
import json
import os
import random
import socket
import sys
import tempfile
import time
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from app.accounts.store import KeyStore
from benchmarks.processes import cpu_seconds, describe_machine, machine_line
from benchmarks.servers import Running, running, verso
from benchmarks.tables import markdown, percentile
from model.artifacts.pretrained import build_pretrained

NUM_THREADS = 2
PATIENCE_S = 120.0
INTERVAL_S = 0.01
"""Rest between two requests of ``/livez``."""

LIMITED = {"VERSO_ADDRESS_REQUESTS_PER_MINUTE": "100"}

JSON = {"Content-Type": "application/json"}
DEEPL = {"Authorization": "DeepL-Auth-Key any"}


class Answer(NamedTuple):
    """An answer.

    Args:
        status: HTTP status.
        content: Body.
    """

    status: int
    content: bytes


class Proof(NamedTuple):
    """A hostile use of the service.

    Args:
        name: Its name in the table.
        run: Does it, and returns what came of it in a few words.
    """

    name: str
    run: Callable[[Running], str]


def ask(
    up: Running, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None
) -> Answer:
    """An answer of the service."""
    connection = http.client.HTTPConnection("127.0.0.1", up.port, timeout=PATIENCE_S)
    try:
        connection.request(method, path, body, headers or {})
        answer = connection.getresponse()
        return Answer(answer.status, answer.read())
    except (OSError, http.client.HTTPException) as error:
        return Answer(0, type(error).__name__.encode())
    finally:
        connection.close()


def form(**parts: str | tuple[str, bytes]) -> tuple[bytes, dict[str, str]]:
    """A form and its headers; a pair is a file's name and its bytes."""
    written = io.BytesIO()
    for name, value in parts.items():
        field, file = (f'; filename="{value[0]}"', value[1]) if isinstance(value, tuple) else ("", value.encode())
        written.write(f'--x\r\nContent-Disposition: form-data; name="{name}"{field}\r\n\r\n'.encode() + file + b"\r\n")
    return written.getvalue() + b"--x--\r\n", {"Content-Type": "multipart/form-data; boundary=x"}


def document(name: str, make: Callable[[], bytes]) -> Callable[[Running], str]:
    """Sends a document, and waits until it is translated or refused."""

    def run(up: Running) -> str:
        body, headers = form(file=(name, make()), source="en", target="de")
        answer = ask(up, "POST", "/documents", body, headers)
        if answer.status != 202:
            return outcome(answer)
        path = f"/documents/{json.loads(answer.content)['id']}"
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            state = json.loads(ask(up, "GET", path).content)
            if state["status"] not in ("queued", "running"):
                break
            time.sleep(0.2)
        ask(up, "DELETE", path)
        return f"202, {state['status']}"

    return run


def post(path: str, make: Callable[[], bytes], headers: dict[str, str]) -> Callable[[Running], str]:
    """Sends a body."""
    return lambda up: outcome(ask(up, "POST", path, make(), headers))


def outcome(answer: Answer) -> str:
    """A status, the error's code and the size of the answer."""
    code = ""
    with suppress(ValueError, KeyError, TypeError):
        code = " " + json.loads(answer.content)["code"]
    return f"{answer.status}{code}, {len(answer.content)} bytes"


def word_file(num_runs: int) -> bytes:
    """A Word file of one paragraph with many runs: small when packed, large as a tree."""
    space = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
    content = (
        f'<w:document xmlns:w="{space}"><w:body><w:p>{"<w:r><w:t>a</w:t></w:r>" * num_runs}</w:p></w:body></w:document>'
    )
    kind = "application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"
    types = (
        '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
        f'<Override PartName="/word/document.xml" ContentType="{kind}"/></Types>'
    )
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("[Content_Types].xml", types)
        archive.writestr("word/document.xml", content)
        archive.writestr("word/media/noise", random.Random(1).randbytes(600_000))
    return written.getvalue()


def xliff(depth: int) -> bytes:
    """An XLIFF file whose sources are nested in one another."""
    return (
        '<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2"><file original="a" source-language="en" '
        'datatype="plaintext"><body><trans-unit id="1">'
        f"{'<source>' * depth}a{'</source>' * depth}</trans-unit></body></file></xliff>"
    ).encode()


def anagrams() -> bytes:
    """Fields whose names have the letters of a real one."""
    name, rng = list("num_hypotheses"), random.Random(1)
    names = {"".join(rng.sample(name, len(name))): 1 for _ in range(11_000)}
    return json.dumps({"text": "a", **names}).encode()


def full_form() -> tuple[bytes, dict[str, str]]:
    """A form of 9.4 MB in 990 fields."""
    parts: dict[str, str | tuple[str, bytes]] = {f"f{n}": "a" * 9_400 for n in range(990)}
    return form(**parts)


def glossary(up: Running, entries: str) -> str:
    """Stores a glossary of lines of two words with a tab; gives its id."""
    body = {"name": "a", "source_lang": "EN", "target_lang": "DE", "entries": entries, "entries_format": "tsv"}
    answer = ask(up, "POST", "/v2/glossaries", json.dumps(body).encode(), {**JSON, **DEEPL})
    if answer.status != 201:
        raise SystemExit(f"The glossary was refused: {answer.status} {answer.content.decode()}")
    return str(json.loads(answer.content)["glossary_id"])


def with_glossary(up: Running) -> str:
    """Four Word files at once, each with a stored glossary."""
    glossary_id = glossary(up, "a\tb")
    file = ("a.docx", word_file(1_000_000))
    body, headers = form(file=file, source_lang="EN", target_lang="DE", glossary_id=glossary_id)
    with ThreadPoolExecutor(4) as threads:
        send = partial(ask, up, "POST", "/v2/document", body, {**headers, **DEEPL})
        return counted(outcome(answer.result()) for answer in [threads.submit(send) for _ in range(4)])


def counted(outcomes: Iterable[str]) -> str:
    """How often each outcome occurred."""
    return ", ".join(f"{count} x {name}" for name, count in Counter(outcomes).items())


def hung_up(up: Running) -> str:
    """Six clients with a glossary of 17,000 terms and 1.3 MB of text, which leave at once."""
    glossary_id = glossary(up, "\n".join(f"word{n} of {n}\tWort {n}" for n in range(17_000)))
    texts = [" ".join(f"word{n} of" for n in range(part, part + 2_400)) for part in range(0, 120_000, 2_400)]
    body = json.dumps({"text": texts, "source_lang": "EN", "target_lang": "DE", "glossary_id": glossary_id}).encode()
    head = (
        "POST /v2/translate HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: DeepL-Auth-Key any\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    ).encode()
    for _ in range(6):
        with socket.create_connection(("127.0.0.1", up.port)) as caller:
            caller.sendall(head + body)
    began = time.monotonic()
    status = ask(up, "GET", "/v2/glossaries", headers=DEEPL).status
    latency_s = time.monotonic() - began
    time.sleep(2)
    before = processor_s(up.pid)
    time.sleep(5)
    return f"listed {status} in {latency_s:.2f} s; busy {20 * (processor_s(up.pid) - before):.0f} % after 2 s"


def unfinished(up: Running) -> str:
    """Forty bodies of 9.9 MB that lack their last byte, without a key."""
    callers = []
    head = (
        b"POST /translate HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        b"Content-Length: 9900000\r\n\r\n"
    )
    num_sent = 0
    for _ in range(40):
        caller = socket.create_connection(("127.0.0.1", up.port))
        caller.settimeout(2)
        with suppress(OSError):
            caller.sendall(head + b" " * 9_899_999)
            num_sent += 1
        callers.append(caller)
    status_lines = []
    for caller in callers:
        with suppress(OSError):
            status_lines.append(caller.recv(64).split(b"\r\n")[0].decode(errors="replace"))
        caller.close()
    return f"{num_sent} taken; {counted(status_lines)}"


def without_key(up: Running) -> str:
    """Two hundred requests of DeepL's form without a key: refused, and then limited."""
    send = partial(ask, up, "POST", "/v2/translate", b'{"text":["a"],"target_lang":"DE"}', JSON)
    return counted(str(send().status) for _ in range(200))


KEYLESS = (
    Proof("CSV of 329 bytes", document("x.csv", lambda: b'a,"b",c\n' + b'"' * 320 + b"x\n")),
    Proof("CSV of 1 MB", document("x.csv", lambda: b'a,"b",c\n' + b'"' * 1_000_000 + b"x\n")),
    Proof("text of 100,000 spaces", document("x.txt", lambda: b"a" + b" " * 100_000 + b"b")),
    Proof("text of 10 MB of spaces", document("x.txt", lambda: b"a" + b" " * 9_900_000 + b"b")),
    Proof(
        "SubRip of 80 kB of `<aaa`", document("x.srt", lambda: b"1\n00:00:01,000 --> 00:00:02,000\n" + b"<aaa" * 20_000)
    ),
    Proof(
        "SubRip of 9 MB of `<aaa`",
        document("x.srt", lambda: b"1\n00:00:01,000 --> 00:00:02,000\n" + b"<aaa" * 2_250_000),
    ),
    Proof("SubRip of 80 kB of `<a`", document("x.srt", lambda: b"1\n00:00:01,000 --> 00:00:02,000\n<" + b"a" * 80_000)),
    Proof("XLIFF of 3.2 MB, nested", document("x.xlf", lambda: xliff(188_000))),
    Proof("Word of 643 kB, 2,600,000 elements", document("x.docx", lambda: word_file(2_600_000))),
    Proof("four Word files at once with a glossary", with_glossary),
    Proof("2 MB of integers as texts", post("/translate", lambda: b'{"text":[1' + b",1" * 990_000 + b"]}", JSON)),
    Proof("227 kB of anagrams as fields", post("/translate", anagrams, JSON)),
    Proof(
        "200,000 integers as texts of DeepL",
        post("/v2/translate", lambda: b'{"target_lang":"DE","text":[1' + b",1" * 199_999 + b"]}", {**JSON, **DEEPL}),
    ),
    Proof(
        "a glossary of 60,000 terms",
        post(
            "/translate",
            lambda: json.dumps({"text": "a", "glossary": [{"source": "a", "target": "b"}] * 60_000}).encode(),
            JSON,
        ),
    ),
    Proof("six clients with a large glossary, which left", hung_up),
)

WITH_KEYS = (
    Proof(
        "9.4 MB of 990 fields to /v2/document, no key",
        lambda up: outcome(ask(up, "POST", "/v2/document", *full_form())),
    ),
    Proof(
        "9.4 MB of 990 fields to /documents, no key", lambda up: outcome(ask(up, "POST", "/documents", *full_form()))
    ),
    Proof("2 MB of integers, no key", post("/translate", lambda: b'{"text":[1' + b",1" * 990_000 + b"]}", JSON)),
    Proof("40 unfinished bodies of 9.9 MB, no key", unfinished),
    Proof("200 requests of DeepL's form, no key", without_key),
)


def processor_s(pid: int) -> float:
    """Processor seconds of a process and those that it has started."""
    total = 0.0
    for process in family(pid):
        with suppress(psutil.Error):
            total += cpu_seconds(process.pid)
    return total


def family(pid: int) -> list[psutil.Process]:
    """A process and those that it has started."""
    process = psutil.Process(pid)
    return [process, *process.children(recursive=True)]


def memory_bytes(pid: int) -> int:
    """Memory of a process and of those that it has started; what they share counts once."""
    total = 0
    for process in family(pid):
        with suppress(psutil.Error):
            total += process.memory_full_info().pss
    return total


class Watch(NamedTuple):
    """What was seen beside a proof.

    Args:
        latencies_s: Of ``/livez``, in seconds.
        peak_bytes: Memory of the service at its peak.
    """

    latencies_s: list[float]
    peak_bytes: int


def watch(connection: Connection[Any, Any], port: int, pid: int) -> None:
    """Ask ``/livez`` until told to end, in a process of its own, and send a :class:`Watch`."""
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
            peak, sampled_at = max(peak, memory_bytes(pid)), time.monotonic()
        time.sleep(INTERVAL_S)
    connection.send(Watch(latencies_s, peak))


@contextmanager
def watching(up: Running) -> Iterator[Callable[[], Watch]]:
    """Watch a service in the context; gives a function that ends it and returns what was seen."""
    context = get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=watch, args=(theirs, up.port, up.pid), daemon=True)
    process.start()
    ours.recv()

    def end() -> Watch:
        time.sleep(0.5)
        ours.send(None)
        result: Watch = ours.recv()
        return result

    try:
        yield end
    finally:
        process.terminate()
        process.join()


def measure(up: Running, proof: Proof, rest_s: float) -> list[str]:
    """A row of the table."""
    before = memory_bytes(up.pid)
    with watching(up) as end:
        began = time.monotonic()
        result = proof.run(up)
        duration_s = time.monotonic() - began
        latencies_s, peak = end()
    time.sleep(rest_s)
    after = memory_bytes(up.pid)
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
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rest", type=float, default=60, metavar="S", help="seconds before memory is read; default 60")
    parser.add_argument("--only", default="", metavar="WORDS", help="only those whose name contains this")
    arguments = parser.parse_args()
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    bundle = build_pretrained("cpu")
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        keys = Path(folder) / "keys.sqlite"
        KeyStore(keys).close()
        for proofs, settings in ((KEYLESS, {}), (WITH_KEYS, {"VERSO_KEYS_DB": str(keys), **LIMITED})):
            chosen = [proof for proof in proofs if arguments.only in proof.name]
            if not chosen:
                continue
            with running(verso(bundle, NUM_THREADS, **settings)) as up:
                document("a.docx", lambda: word_file(10))(up)
                for proof in chosen:
                    rows.append(measure(up, proof, arguments.rest))
                    print(rows[-1], file=sys.stderr, flush=True)
    print(machine_line(describe_machine(NUM_THREADS)))
    header = ["what", "came of it", "s", "/livez p99 ms", "worst", "memory before MB", "peak"]
    print(markdown([*header, f"{arguments.rest:g} s later"], rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
