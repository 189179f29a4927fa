"""Bodies, fields and headers that are made to be slow: time and memory grow with their size, and not faster."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import time
import tracemalloc
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from app.engine.scheduler import Admission
from app.errors import MAX_ERROR_BYTES, InvalidGlossary
from app.glossaries.terms import parse_csv, parse_tsv, terms_in
from model.text.glossary import GlossaryTerm
from tests.app.serving import RoteService, client_of, rote_app
from tests.app.test_scheduler import request_of, scheduler
from tests.hostile.measured import ATTEMPTS, GROWTH
from tests.waiting import Clock

pytestmark = pytest.mark.anyio

LEAST_S = 0.02
"""Seconds that are added to each measured time: below them the noise is larger than the growth."""

LEAST_BYTES = 500_000
QUICK_BYTES = 60_000
THOROUGH_BYTES = 200_000

JSON = "application/json"
FORM = "application/x-www-form-urlencoded"
PARTS = "multipart/form-data; boundary=x"

Content = Callable[[int], bytes]


@dataclass(frozen=True)
class Hostile:
    """A request that is made to be slow.

    Args:
        path: Its path.
        content: Makes a body of about this size in bytes.
        content_type: Its media type.
        headers: Further headers.
    """

    path: str
    content: Content
    content_type: str = JSON
    headers: dict[str, str] = field(default_factory=dict)


def repeated(before: str, piece: str, after: str) -> Content:
    """A piece, again and again, between a beginning and an end."""
    return lambda size: f"{before}{piece * (size // len(piece))}{after}".encode("latin-1")


def numbered(before: str, piece: str, after: str) -> Content:
    """Pieces with a number in each, between a beginning and an end."""
    each = len(piece) + 3
    return lambda size: f"{before}{''.join(piece.format(n) for n in range(size // each))}{after}".encode()


def part(name: str, value: str = "", more: str = "") -> str:
    return f'--x\r\nContent-Disposition: form-data; name="{name}"{more}\r\n\r\n{value}\r\n'


def anagrams(size: int) -> bytes:
    """Fields whose names have the letters of a real one."""
    name = "num_hypotheses"
    names = (name[n % 14 :] + name[: n % 14] + "_" * (n // 14 % 7) + str(n) for n in range(size // 30))
    return json.dumps({"text": "a", **dict.fromkeys(names, 1)}).encode()


def parts_of(size: int, value: str, number: int = 990) -> bytes:
    """A form with as many parts as there may be."""
    return (part("text", value * (size // number)) * number + "--x--\r\n").encode("latin-1")


FILE = part("file", "Hello.", '; filename="a.txt"')
DEEPL = {"authorization": "DeepL-Auth-Key any"}
ROUTES = {"/translate": {}, "/libretranslate/translate": {}, "/v2/translate": DEEPL}

REQUESTS = {
    "numbers as texts": Hostile("/translate", repeated('{"text":[1', ",1", "]}")),
    "numbers as texts of DeepL": Hostile(
        "/v2/translate", repeated('{"target_lang":"DE","text":[1', ",1", "]}"), headers=DEEPL
    ),
    "numbers as texts of LibreTranslate": Hostile(
        "/libretranslate/translate", repeated('{"source":"en","target":"de","q":[1', ",1", "]}")
    ),
    "empty texts": Hostile("/translate", repeated('{"text":[""', ',""', "]}")),
    "texts of NUL": Hostile("/translate", repeated('{"text":["\\u0000"', ',"\\u0000"', "]}")),
    "unknown fields": Hostile("/translate", numbered('{"text":"a"', ',"u{}":1', "}")),
    "names like real ones": Hostile("/translate", anagrams),
    "long names": Hostile("/translate", lambda size: json.dumps({"text": "a", "\x01" * (size // 6): 1}).encode()),
    "terms": Hostile("/translate", repeated('{"text":"a","glossary":[{}', ',{"source":"a","target":"b"}', "]}")),
    "terms that are none": Hostile("/translate", repeated('{"text":"a","glossary":[1', ",1", "]}")),
    "a term of many fields": Hostile("/translate", numbered('{"text":"a","glossary":[{"a":1', ',"u{}":1', "}]}")),
    "patterns": Hostile("/translate", repeated('{"text":"a","protect":["a"', ',"a"', "]}")),
    "tags": Hostile("/translate", repeated('{"text":"a","ignore_tags":["<"', ',"<"', "]}")),
    "layers": Hostile("/attention", repeated('{"text":"a","layers":["a"', ',"a"', "]}")),
    "lists within lists": Hostile("/translate", lambda size: b'{"text":' + b"[" * (size // 2) + b"]" * (size // 2)),
    "objects within objects": Hostile("/translate", repeated("", '{"a":', "1")),
    "half a string": Hostile("/translate", repeated('{"text":"', "\\u00e4", "")),
    "half an escape": Hostile("/translate", repeated('{"text":"', "\\ud83d", '"}')),
    "spaces": Hostile("/translate", repeated("", " ", "{}")),
    "a number": Hostile("/translate", repeated('{"beam_size":', "9", "}")),
    "tags of DeepL": Hostile("/v2/translate", repeated("text=a&target_lang=DE&ignore_tags=<", "%2c<", ""), FORM, DEEPL),
    "glossaries of DeepL": Hostile(
        "/v2/translate", repeated("text=a&target_lang=DE&glossary_ids=a", ",a", ""), FORM, DEEPL
    ),
    "dictionaries": Hostile("/v3/glossaries", repeated('{"name":"a","dictionaries":[1', ",1", "]}"), headers=DEEPL),
    "names of a form": Hostile("/v2/translate", numbered("a=b", "&a{}=b", ""), FORM, DEEPL),
    "one name of a form": Hostile("/v2/translate", repeated("text=b", "&text=b", ""), FORM, DEEPL),
    "percent signs": Hostile("/v2/translate", repeated("target_lang=DE&text=", "%", ""), FORM, DEEPL),
    "escapes": Hostile("/v2/translate", repeated("target_lang=DE&text=", "%c3%a4", ""), FORM, DEEPL),
    "an encoded list": Hostile(
        "/libretranslate/translate",
        repeated("source=en&target=de&q=%255B%2522a%2522", "%252C%2522a%2522", "%255D"),
        FORM,
    ),
    "many parts": Hostile("/v2/translate", lambda size: parts_of(size, "a"), PARTS, DEEPL),
    "more parts than may be": Hostile("/v2/translate", repeated("", part("text", "a"), "--x--\r\n"), PARTS, DEEPL),
    "parts that are not UTF-8": Hostile("/v2/translate", lambda size: parts_of(size, "\xff"), PARTS, DEEPL),
    "carriage returns": Hostile("/documents", repeated(FILE[:-2], "\r", "\r\n--x--\r\n"), PARTS),
    "beginnings of boundaries": Hostile("/documents", repeated(FILE[:-2], "\r\n--", "\r\n--x--\r\n"), PARTS),
    "line ends": Hostile("/documents", repeated(FILE[:-2], "\r\n", "\r\n--x--\r\n"), PARTS),
    "a boundary again and again": Hostile("/documents", repeated(FILE, "--x\r\n", "--x--\r\n"), PARTS),
    "a part's head without end": Hostile("/documents", repeated("--x\r\n", "a", ""), PARTS),
    "a part's many headers": Hostile("/documents", repeated("--x\r\n", "a: b\r\n", "\r\n--x--\r\n"), PARTS),
    "semicolons in a part's header": Hostile(
        "/documents",
        repeated('--x\r\nContent-Disposition: form-data; name="a"', ";a=b", "\r\n\r\n\r\n--x--\r\n"),
        PARTS,
    ),
    "quotes in a part's header": Hostile(
        "/documents", repeated('--x\r\nContent-Disposition: form-data; name="', '\\"', '"\r\n\r\n\r\n--x--\r\n'), PARTS
    ),
    "no boundary": Hostile("/documents", repeated("", "x", ""), PARTS),
    "a form of another type": Hostile("/documents", repeated("", "x", ""), "multipart/form-data"),
    **{
        f"an unfinished form at {path}": Hostile(path, repeated(part("q", "a"), "\r", ""), PARTS, headers)
        for path, headers in ROUTES.items()
    },
}

HEADERS: dict[str, Callable[[int], dict[str, str]]] = {
    "media types": lambda size: {"accept": "a/b;q=0.1," * (size // 10)},
    "parameters of a media type": lambda size: {"accept": "a/b" + ";a=b" * (size // 4)},
    "quotes": lambda size: {"accept": '"' * size},
    "parameters of the body": lambda size: {"content-type": "application/json" + ";a=b" * (size // 4)},
    "boundary": lambda size: {"content-type": "multipart/form-data; boundary=" + "-" * size},
    "token": lambda size: {"authorization": "Bearer " + "a " * (size // 2)},
    "spaces before a token": lambda size: {"authorization": "Bearer" + " " * size},
    "request id": lambda size: {"x-request-id": "a" * size},
    "proxies": lambda size: {"x-forwarded-for": "1.1.1.1," * (size // 8)},
    "idempotency key": lambda size: {"idempotency-key": "a" * size},
    "trace": lambda size: {"traceparent": "0" * size, "tracestate": "a=b," * (size // 4)},
    "host": lambda size: {"host": "a." * (size // 2)},
    "origin": lambda size: {"origin": "http://" + ":" * size},
}

SMALL_BYTES = 2_000  # four times as much is within a request's head

GLOSSARIES: dict[str, Callable[[int], str]] = {
    "lines": lambda size: "\n".join(f"{n}\tb" for n in range(size // 8)),
    "tabs": lambda size: "\t" * size,
    "line ends": lambda size: "\n" * size,
    "quotes": lambda size: '"' * size,
    "quotes and commas": lambda size: '","' * (size // 3),
    "half a quoted cell": lambda size: '"' + "a\n" * (size // 2),
    "one line": lambda size: "a" * size,
    "equal lines": lambda size: "a\tb\n" * (size // 4),
}


def joined(word: str, number: int) -> str:
    return " ".join(word.format(n) for n in range(number))


WORD = "abcdefghijklmnopqrst"


def spelling(number: int) -> str:
    """A word with capitals where a number has ones."""
    return "".join(sign.upper() if number >> place & 1 else sign for place, sign in enumerate(WORD))


SEARCHES: dict[str, Callable[[int], tuple[list[str], str]]] = {
    "nested terms": lambda size: (["-" * n for n in range(1, 99)], "-" * size),
    "terms that nearly occur": lambda size: (["a " * n + "b" for n in range(1, 99)], "a " * (size // 2)),
    "a text without spaces": lambda size: ([f"w{n}" for n in range(1000)], "a" * size),
    "many terms of the same words": lambda size: (
        [f"a b c d {n}" for n in range(size // 8)],
        f"a b c d {joined('{}', size // 8)}",
    ),
    "many terms with endings": lambda size: (
        [f"nesen{n}ne" for n in range(size // 10)],
        joined("nesen{}nenen", size // 10),
    ),
    "many capitals": lambda size: ([f"A{n}" for n in range(size // 6)], joined("a{}", size // 6)),
    "many spellings of one word": lambda size: (
        [f"A{n} {WORD}" for n in range(size // 6)],
        " ".join(map(spelling, range(size // 6))),
    ),
}


def assert_linear(measure: Callable[[int], float], size: int, least: float) -> None:
    """Check that what is measured grows as the size does, from a size to four times as much.

    Before it fails, both sizes are measured again, and the least of each is compared: others use the machine.
    """
    smaller = larger = float("inf")
    for _ in range(ATTEMPTS):
        smaller, larger = min(smaller, measure(size)), min(larger, measure(4 * size))
        if larger + least <= GROWTH * (smaller + least):
            return
    raise AssertionError(f"{smaller} at {size}, {larger} at four times as much")


def processor_s(run: Callable[[], object]) -> float:
    """Processor seconds that a function takes, the least of a few times."""
    times = []
    gc.disable()  # it looks at everything from time to time, and the fewer objects there are, the less often
    try:
        for _ in range(2):
            began = time.process_time()
            run()
            times.append(time.process_time() - began)
    finally:
        gc.enable()
    return min(times)


def peak_bytes(run: Callable[[], object]) -> float:
    """Memory that a function takes at most."""
    tracemalloc.start()
    try:
        run()
        return float(tracemalloc.get_traced_memory()[1])
    finally:
        tracemalloc.stop()


@asynccontextmanager
async def serving() -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(rote_app(RoteService(), deadline_s=600)) as client:
        yield client


def answer(hostile: Hostile, size: int, headers: dict[str, str] | None = None) -> httpx.Response:
    content = hostile.content(size)
    received = {"content-type": hostile.content_type, **hostile.headers, **(headers or {})}

    async def ask() -> httpx.Response:
        async with serving() as client:
            return await client.post(hostile.path, content=content, headers=received)

    return asyncio.run(ask())


def check_answer(response: httpx.Response) -> None:
    assert response.status_code < 500, response.text[:300]
    if response.status_code >= 400:
        assert len(response.content) <= MAX_ERROR_BYTES


@pytest.mark.parametrize("name", REQUESTS)
def test_a_hostile_body_is_answered_shortly(name: str) -> None:
    check_answer(answer(REQUESTS[name], QUICK_BYTES))


@pytest.mark.parametrize("name", ["numbers as texts", "names like real ones", "many parts", "beginnings of boundaries"])
def test_the_time_for_a_hostile_body_grows_with_its_size(name: str) -> None:
    assert_linear(lambda size: processor_s(lambda: answer(REQUESTS[name], size)), 4 * QUICK_BYTES, LEAST_S)


@pytest.mark.hostile
@pytest.mark.parametrize("name", REQUESTS)
def test_time_and_memory_for_every_hostile_body_grow_with_its_size(name: str) -> None:
    hostile = REQUESTS[name]
    for factor in (1, 2, 4):
        check_answer(answer(hostile, factor * THOROUGH_BYTES))
    assert_linear(lambda size: processor_s(lambda: answer(hostile, size)), THOROUGH_BYTES, LEAST_S)
    assert_linear(lambda size: peak_bytes(lambda: answer(hostile, size)), THOROUGH_BYTES, LEAST_BYTES)


@pytest.mark.parametrize("name", HEADERS)
def test_the_time_for_a_hostile_header_grows_with_its_size(name: str) -> None:
    hostile = Hostile("/translate", lambda size: b'{"text": "a", "source": "en", "target": "de"}')
    check_answer(answer(hostile, 0, HEADERS[name](4 * SMALL_BYTES)))

    def measure(size: int) -> float:
        headers = HEADERS[name](size)
        return processor_s(lambda: [answer(hostile, 0, headers) for _ in range(3)])

    assert_linear(measure, SMALL_BYTES, LEAST_S)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", GLOSSARIES)
@pytest.mark.parametrize("parse", [parse_tsv, parse_csv])
def test_the_time_to_read_a_glossary_grows_with_its_size(name: str, parse: Callable[[str], Any]) -> None:
    def read(text: str) -> None:
        with contextlib.suppress(InvalidGlossary):
            parse(text)

    def measure(size: int) -> float:
        text = GLOSSARIES[name](size)
        return processor_s(lambda: read(text))

    assert_linear(measure, 4 * QUICK_BYTES, LEAST_S)


def search(name: str, size: int) -> Callable[[], object]:
    sources, text = SEARCHES[name](size)
    terms = tuple(GlossaryTerm(source, "x") for source in sources)

    def run() -> None:
        with contextlib.suppress(InvalidGlossary):
            terms_in(terms, [text, text], "de")

    return run


@pytest.mark.parametrize("name", SEARCHES)
def test_the_time_to_find_terms_grows_with_the_text_and_the_glossary(name: str) -> None:
    assert_linear(lambda size: processor_s(search(name, size)), QUICK_BYTES // 4, LEAST_S)


@pytest.mark.hostile
@pytest.mark.parametrize("name", SEARCHES)
def test_memory_to_find_terms_grows_with_the_text_and_the_glossary(name: str) -> None:
    assert_linear(lambda size: processor_s(search(name, size)), THOROUGH_BYTES, LEAST_S)
    assert_linear(lambda size: peak_bytes(search(name, size)), THOROUGH_BYTES, LEAST_BYTES)


def leave_room(number: int) -> None:
    """Fill a queue with one request, let others wait for room, and withdraw the first."""
    queue = scheduler(Clock(), max_waiting=number)
    first = request_of(number)
    queue.admit(first)
    for _ in range(number):
        queue.admit(request_of(1), admission=Admission.WAIT)
    queue.withdraw({item.key for item in first})
    assert (queue.num_waiting, queue.num_for_room) == (number, 0)


def test_the_time_to_let_requests_into_the_queue_grows_with_their_number() -> None:
    assert_linear(lambda number: processor_s(lambda: leave_room(number)), 1_000, LEAST_S)


async def test_other_requests_are_answered_while_a_form_is_parsed() -> None:
    hostile = REQUESTS["beginnings of boundaries"]
    content = hostile.content(20 * 65_536)

    async with serving() as client:
        sending = asyncio.create_task(
            client.post(hostile.path, content=content, headers={"content-type": hostile.content_type})
        )
        num_turns = 0
        while not sending.done():
            await asyncio.sleep(0)
            num_turns += 1
        check_answer(await sending)
        assert num_turns > 20
