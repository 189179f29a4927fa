"""The hostile uses that :mod:`benchmarks.hostile` measures: files, bodies and clients that disconnect."""

from __future__ import annotations

import http.client
import io
import json
import random
import socket
import time
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from benchmarks.processes import family_cpu_seconds
from benchmarks.servers import Running

PATIENCE_S = 120.0
"""Timeout of a request, in seconds."""

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
        run: Sends it, and returns the result in a few words.
    """

    name: str
    run: Callable[[Running], str]


def ask(
    service: Running, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None
) -> Answer:
    """An answer of the service."""
    connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=PATIENCE_S)
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

    def run(service: Running) -> str:
        body, headers = form(file=(name, make()), source="en", target="de")
        answer = ask(service, "POST", "/documents", body, headers)
        if answer.status != 202:
            return outcome(answer)
        path = f"/documents/{json.loads(answer.content)['id']}"
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            state = json.loads(ask(service, "GET", path).content)
            if state["status"] not in ("queued", "running"):
                break
            time.sleep(0.2)
        ask(service, "DELETE", path)
        return f"202, {state['status']}"

    return run


def post(path: str, make: Callable[[], bytes], headers: dict[str, str]) -> Callable[[Running], str]:
    """Sends a body."""
    return lambda service: outcome(ask(service, "POST", path, make(), headers))


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


def glossary(service: Running, entries: str) -> str:
    """Stores a glossary of lines of two words with a tab; gives its id."""
    body = {"name": "a", "source_lang": "EN", "target_lang": "DE", "entries": entries, "entries_format": "tsv"}
    answer = ask(service, "POST", "/v2/glossaries", json.dumps(body).encode(), {**JSON, **DEEPL})
    if answer.status != 201:
        raise SystemExit(f"The glossary was refused: {answer.status} {answer.content.decode()}")
    return str(json.loads(answer.content)["glossary_id"])


def with_glossary(service: Running) -> str:
    """Four Word files at once, each with a stored glossary."""
    glossary_id = glossary(service, "a\tb")
    file = ("a.docx", word_file(1_000_000))
    body, headers = form(file=file, source_lang="EN", target_lang="DE", glossary_id=glossary_id)
    with ThreadPoolExecutor(4) as threads:
        send = partial(ask, service, "POST", "/v2/document", body, {**headers, **DEEPL})
        return counted(outcome(answer.result()) for answer in [threads.submit(send) for _ in range(4)])


def counted(outcomes: Iterable[str]) -> str:
    """How often each outcome occurred."""
    return ", ".join(f"{count} x {name}" for name, count in Counter(outcomes).items())


def hung_up(service: Running) -> str:
    """Six clients with a glossary of 17,000 terms and 1.3 MB of text, which leave at once."""
    glossary_id = glossary(service, "\n".join(f"word{n} of {n}\tWort {n}" for n in range(17_000)))
    texts = [" ".join(f"word{n} of" for n in range(part, part + 2_400)) for part in range(0, 120_000, 2_400)]
    body = json.dumps({"text": texts, "source_lang": "EN", "target_lang": "DE", "glossary_id": glossary_id}).encode()
    head = (
        "POST /v2/translate HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: DeepL-Auth-Key any\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    ).encode()
    for _ in range(6):
        with socket.create_connection(("127.0.0.1", service.port)) as caller:
            caller.sendall(head + body)
    began = time.monotonic()
    status = ask(service, "GET", "/v2/glossaries", headers=DEEPL).status
    latency_s = time.monotonic() - began
    time.sleep(2)
    before = family_cpu_seconds(service.pid)
    time.sleep(5)
    return (
        f"listed {status} in {latency_s:.2f} s; busy {20 * (family_cpu_seconds(service.pid) - before):.0f} % after 2 s"
    )


def unfinished(service: Running) -> str:
    """Forty bodies of 9.9 MB that lack their last byte, without a key."""
    callers = []
    head = (
        b"POST /translate HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        b"Content-Length: 9900000\r\n\r\n"
    )
    num_sent = 0
    for _ in range(40):
        caller = socket.create_connection(("127.0.0.1", service.port))
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


def without_key(service: Running) -> str:
    """Two hundred requests of DeepL's form without a key: refused, and then limited."""
    send = partial(ask, service, "POST", "/v2/translate", b'{"text":["a"],"target_lang":"DE"}', JSON)
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
        lambda service: outcome(ask(service, "POST", "/v2/document", *full_form())),
    ),
    Proof(
        "9.4 MB of 990 fields to /documents, no key",
        lambda service: outcome(ask(service, "POST", "/documents", *full_form())),
    ),
    Proof("2 MB of integers, no key", post("/translate", lambda: b'{"text":[1' + b",1" * 990_000 + b"]}", JSON)),
    Proof("40 unfinished bodies of 9.9 MB, no key", unfinished),
    Proof("200 requests of DeepL's form, no key", without_key),
)
