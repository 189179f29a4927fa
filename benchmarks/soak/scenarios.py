"""The uses of a soak: one function for each kind of use, which returns its answer.

The right answers are those that a service without load, cache and keys gives to the same uses, one after the other.
Streamed answers must be equal to plain ones, and repeated requests to single ones.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import io
import json
import random
import uuid
import zipfile
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import httpx

from benchmarks.soak.files import WRITERS, num_characters
from benchmarks.soak.users import DEEPL, IDEMPOTENCY_KEY, PAIR, Refused, Service, User
from benchmarks.soak.wrong_requests import WRONG, expected_code, wrong_request

Item: TypeAlias = Any
"""The input of a use: the fields of a request, a file, texts."""

Play: TypeAlias = Callable[[Service, User, Item, random.Random], Awaitable[object]]

LOOK_S = 0.25
"""Interval at which a client asks whether a document is done, in seconds."""

DOCUMENT_PATIENCE_S = 1_800.0
"""Timeout of a client that waits for a document, in seconds: other requests go before documents."""

AT_ONCE = 3
"""Requests at once of the user who may have two sentences at once."""

TOO_MANY = '"concurrency_exceeded"'
"""Part of the answer when it has more."""

DEEPL_PAIR = {"source_lang": "EN", "target_lang": "DE"}


@dataclass(frozen=True)
class Scenario:
    """A kind of use.

    Args:
        kind: Its name in tables.
        weight: How often it is chosen, relative to the others.
        items: Its possible inputs.
        play: Does it; returns the answer as far as it is always the same.
        users: The names of its users.
        alone: How to get the right answer, if not by ``play``.
        refusals: Parts of answers that are right, too, because of the limits of the user's key.
    """

    kind: str
    weight: float
    items: Sequence[Item]
    play: Play
    users: Sequence[str] = ("shop", "office")
    alone: Play | None = None
    refusals: tuple[str, ...] = ()


def usual_scenarios(sentences: Sequence[str]) -> list[Scenario]:
    """The uses that arrive all the time.

    Args:
        sentences: Distinct English sentences; a thousand at least.
    """
    rng = random.Random(2)

    def sample(number: int) -> list[str]:
        return rng.sample(list(sentences), number)

    def requests(texts: Sequence[object], **fields: Any) -> list[Item]:
        return [{"text": text, **PAIR, **fields} for text in texts]

    greedy, beam = requests(sample(250), decoding="greedy"), requests(sample(250))
    lists = [requests([sample(rng.randint(2, 8))], beam_size=rng.choice([1, 2, 4]))[0] for _ in range(40)]
    long = requests([" ".join(sample(rng.randint(3, 6))) for _ in range(50)], decoding="greedy")
    html = requests([_marked(text) for text in sample(60)], format="html")
    details = requests(sample(40), num_hypotheses=3, return_scores=True, return_alignment=True, return_confidence=True)
    attention = [{**request, "kinds": ["cross", "encoder"]} for request in requests(sample(30))]
    streamed = [*lists[:20], *long[:20], *html[:10]]
    deepl: list[Item] = [{"text": sample(rng.randint(1, 3)), **DEEPL_PAIR} for _ in range(50)]
    deepl += [{"text": [_marked(text)], "tag_handling": "html", **DEEPL_PAIR} for text in sample(20)]
    libre: list[Item] = [{"q": text, **PAIR, "format": "text"} for text in sample(50)]
    libre += [{"q": sample(3), **PAIR, "source": "auto", "alternatives": 2} for _ in range(10)]
    libre += [{"q": _marked(text), **PAIR, "format": "html"} for text in sample(20)]
    limited = greedy[:50]
    return [
        Scenario("translate, greedy", 20, greedy, translate),
        Scenario("translate, beam 4", 18, beam, translate),
        Scenario("translate, list", 6, lists, translate, ("shop", "nightly")),
        Scenario("translate, several sentences", 5, long, translate, ("shop", "nightly")),
        Scenario("translate, html", 5, html, translate),
        Scenario("translate, hypotheses and alignment", 4, details, translate),
        Scenario("stream, server-sent events", 4, streamed, stream_events, alone=entries),
        Scenario("stream, lines", 4, streamed, stream_lines, alone=entries),
        Scenario("client hangs up, asks again", 5, [*lists, *long], hang_up, alone=translate),
        Scenario("client leaves a stream, asks again", 3, streamed, leave_stream, alone=translate),
        Scenario("request sent twice", 3, beam[:50], send_twice, alone=translate),
        Scenario("attention, JSON", 4, attention, attend, ("reader", "office")),
        Scenario("attention, arrays", 1, attention[:10], attend_arrays, ("reader",)),
        Scenario("LibreTranslate", 8, libre, libretranslate),
        Scenario("LibreTranslate, detection", 2, sample(20), detect),
        Scenario("DeepL", 8, deepl, deepl_translate),
        Scenario("DeepL, glossary made and deleted", 2, sample(15), deepl_glossary),
        Scenario("wrong request", 6, WRONG, wrong_request, alone=expected_code),
        Scenario("rate limit", 2, limited, translate, ("few requests",), refusals=('"rate_limited"',)),
        Scenario("monthly limit", 1, limited, translate, ("few characters",), refusals=('"quota_exceeded"',)),
        Scenario("limit of sentences", 2, limited, at_once, ("few sentences",), alone=translate, refusals=(TOO_MANY,)),
    ]


def rare_scenarios(sentences: Sequence[str]) -> list[Scenario]:
    """The uses that take long, and would not be rare at the rate of the others.

    Args:
        sentences: Distinct English sentences.
    """
    rng = random.Random(3)
    files = []
    for ending, write in WRITERS.items():
        content = write(rng.sample(list(sentences), 3))
        files.append({"name": f"a.{ending}", "content": content, "characters": num_characters(f"a.{ending}", content)})
    thousands = [{"text": [" ".join(rng.choices(sentences, k=80)) for _ in range(30)], **PAIR, "beam_size": 8}]
    return [
        Scenario("document", 4, files, document, alone=document),
        Scenario("document, cancelled", 1, files, cancelled_document, alone=_nothing),
        Scenario("DeepL document", 2, files, deepl_document),
        Scenario("LibreTranslate document", 2, files, libretranslate_document),
        Scenario("thousands of sentences at once", 2, thousands, too_much, alone=_nothing),
    ]


async def translate(service: Service, user: User, item: Item, rng: random.Random) -> object:
    """``POST /translate``; the answer without its times."""
    answer = await service.send(user, "POST", "/translate", json=item)
    user.received(*_texts(item))
    return _timeless(answer)


async def entries(service: Service, user: User, item: Item, rng: random.Random) -> object:
    """The entries of an answer of ``POST /translate``, which a stream has, too."""
    answer = await service.send(user, "POST", "/translate", json=item)
    return answer.json()["translations"]


async def stream_events(service: Service, user: User, item: Item, rng: random.Random) -> object:
    """``POST /translate`` as server-sent events."""
    answer = await service.send(user, "POST", "/translate", json=item, headers={"Accept": "text/event-stream"})
    user.received(*_texts(item))
    blocks = [block for block in answer.text.split("\n\n") if block]
    events = [block.removeprefix("event: ").split("\ndata: ") for block in blocks]
    return _entries_of([(name, json.loads(data)) for name, data in events])


async def stream_lines(service: Service, user: User, item: Item, rng: random.Random) -> object:
    """``POST /translate`` as a line of JSON for each event."""
    answer = await service.send(user, "POST", "/translate", json=item, headers={"Accept": "application/x-ndjson"})
    user.received(*_texts(item))
    events = [json.loads(line) for line in answer.text.splitlines()]
    return _entries_of([(event.pop("event"), event) for event in events])


async def hang_up(service: Service, user: User, item: Item, rng: random.Random) -> object:
    """A client that hangs up, and sends its request again with the same id: it counts once."""
    request: dict[str, Any] = {"json": item, "headers": {IDEMPOTENCY_KEY: uuid.uuid4().hex}}
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(rng.uniform(0.0, 0.2)):
            await service.send(user, "POST", "/translate", **request)
    answer = await service.send_until_answered(user, "POST", "/translate", **request)
    user.received(*_texts(item))
    return _timeless(answer)


async def leave_stream(service: Service, user: User, item: Item, rng: random.Random) -> object:
    """A client that leaves in the midst of a stream, and asks again for a plain answer: it counts once."""
    headers = {IDEMPOTENCY_KEY: uuid.uuid4().hex, "Authorization": f"Bearer {user.token}"}
    accepting = headers | {"Accept": "application/x-ndjson"}
    with contextlib.suppress(httpx.HTTPError):
        async with service.client.stream("POST", "/translate", json=item, headers=accepting) as answer:
            async for _ in answer.aiter_lines():
                break
    again = await service.send_until_answered(user, "POST", "/translate", json=item, headers=headers)
    user.received(*_texts(item))
    return _timeless(again)


async def send_twice(service: Service, user: User, item: Item, rng: random.Random) -> object:
    """A client that does not wait before it sends its request again: both are answered, and one counts."""
    request: dict[str, Any] = {"json": item, "headers": {IDEMPOTENCY_KEY: uuid.uuid4().hex}}
    both = (service.send_until_answered(user, "POST", "/translate", **request) for _ in range(2))
    answers = await asyncio.gather(*both)
    user.received(*_texts(item))
    first, second = map(_timeless, answers)
    return first if first == second else [first, second]


async def at_once(service: Service, user: User, item: Item, rng: random.Random) -> object:
    """More sentences at once than the key may have: each is answered or refused."""

    async def attempt() -> object:
        try:
            return await translate(service, user, item, rng)
        except Refused as refused:
            if TOO_MANY not in refused.about:
                raise
            return refused

    outcomes = await asyncio.gather(*(attempt() for _ in range(AT_ONCE)))
    answers = [outcome for outcome in outcomes if not isinstance(outcome, Refused)]
    if not answers:
        raise Refused(429, TOO_MANY)  # beside another use of the same user
    return answers[0] if all(answer == answers[0] for answer in answers) else answers


async def attend(service: Service, user: User, item: Item, rng: random.Random) -> object:
    """``POST /attention`` as JSON."""
    answer = await service.send(user, "POST", "/attention", json=item)
    user.received(item["text"])
    return _digest(answer.content)


async def attend_arrays(service: Service, user: User, item: Item, rng: random.Random) -> object:
    """``POST /attention`` as NumPy's arrays, whose archive has the time in it."""
    answer = await service.send(user, "POST", "/attention", json=item, headers={"Accept": "application/x-npz"})
    user.received(item["text"])
    return len(answer.content)


async def libretranslate(service: Service, user: User, item: Item, rng: random.Random) -> object:
    """LibreTranslate's ``/translate``."""
    answer = await service.send(user, "POST", "/libretranslate/translate", json=item)
    user.received(*([item["q"]] if isinstance(item["q"], str) else item["q"]))
    return answer.json()


async def detect(service: Service, user: User, item: Item, rng: random.Random) -> object:
    """LibreTranslate's ``/detect``, which counts nothing; with the key as a parameter."""
    anybody = User("the parameter has the key")
    answer = await service.send(anybody, "POST", "/libretranslate/detect", json={"q": item, "api_key": user.token})
    return answer.json()


async def deepl_translate(service: Service, user: User, item: Item, rng: random.Random) -> object:
    """DeepL's ``/v2/translate``."""
    answer = await service.send(user, "POST", "/v2/translate", scheme=DEEPL, json=item)
    user.received(*item["text"])
    return answer.json()


async def deepl_glossary(service: Service, user: User, item: Item, rng: random.Random) -> object:
    """A glossary is made, used, read and deleted."""
    word = item.split()[-1].strip(".")
    new_glossary = {"name": "soak", **DEEPL_PAIR, "entries": f"{word}\tSchlusswort", "entries_format": "tsv"}
    glossary = (await service.send(user, "POST", "/v2/glossaries", 201, DEEPL, json=new_glossary)).json()["glossary_id"]
    fields = {"text": [item], **DEEPL_PAIR, "glossary_id": glossary}
    answer = await service.send(user, "POST", "/v2/translate", scheme=DEEPL, json=fields)
    user.received(item)
    terms = await service.send(user, "GET", f"/v2/glossaries/{glossary}/entries", scheme=DEEPL)
    await service.send(user, "DELETE", f"/v2/glossaries/{glossary}", 204, DEEPL)
    return [answer.json(), terms.text]


async def document(service: Service, user: User, item: Item, rng: random.Random) -> object:
    """A document is sent, waited for, fetched and deleted."""
    form: dict[str, Any] = {"files": {"file": (item["name"], item["content"])}, "data": PAIR}
    id = (await service.send(user, "POST", "/documents", 202, **form)).json()["id"]
    user.received_characters(item["characters"])
    while (status := (await service.send(user, "GET", f"/documents/{id}")).json()["status"]) in ("queued", "running"):
        await asyncio.sleep(LOOK_S)
    result = await service.send(user, "GET", f"/documents/{id}/result")
    await service.send(user, "DELETE", f"/documents/{id}")
    return [status, _content_of(item["name"], result.content)]


async def cancelled_document(service: Service, user: User, item: Item, rng: random.Random) -> object:
    """A document is sent, cancelled and deleted."""
    form: dict[str, Any] = {"files": {"file": (item["name"], item["content"])}, "data": PAIR}
    id = (await service.send(user, "POST", "/documents", 202, **form)).json()["id"]
    user.received_characters(item["characters"])
    await asyncio.sleep(rng.uniform(0.0, 1.0))
    await service.send(user, "DELETE", f"/documents/{id}")
    with contextlib.suppress(Refused):  # it was done, and the first request has deleted it
        await service.send(user, "DELETE", f"/documents/{id}")
    answer = await service.send(user, "GET", f"/documents/{id}", 404)
    return None if answer.json()["code"] == "document_not_found" else answer.text


async def deepl_document(service: Service, user: User, item: Item, rng: random.Random) -> object:
    """DeepL's ``/v2/document``: a document is deleted when it is fetched."""
    form: dict[str, Any] = {"files": {"file": (item["name"], item["content"])}, "data": DEEPL_PAIR}
    created = (await service.send(user, "POST", "/v2/document", scheme=DEEPL, **form)).json()
    user.received_characters(item["characters"])
    path, key = f"/v2/document/{created['document_id']}", {"document_key": created["document_key"]}
    while True:
        status = (await service.send(user, "POST", path, scheme=DEEPL, json=key)).json()
        if status["status"] not in ("queued", "translating"):
            break
        await asyncio.sleep(LOOK_S)
    result = await service.send(user, "POST", f"{path}/result", scheme=DEEPL, json=key)
    return [status["status"], status["billed_characters"], _content_of(item["name"], result.content)]


async def libretranslate_document(service: Service, user: User, item: Item, rng: random.Random) -> object:
    """LibreTranslate's ``/translate_file``: the client waits; the file is fetched without a key."""
    form: dict[str, Any] = {"files": {"file": (item["name"], item["content"])}, "data": PAIR}
    answer = await service.send(user, "POST", "/libretranslate/translate_file", timeout=DOCUMENT_PATIENCE_S, **form)
    url = answer.json()["translatedFileUrl"]
    user.received_characters(item["characters"])
    result = await service.send(User("anybody"), "GET", httpx.URL(url).path)
    await service.send(user, "DELETE", f"/documents/{url.rpartition('/')[2].partition('.')[0]}")
    return _content_of(item["name"], result.content)


async def too_much(service: Service, user: User, item: Item, rng: random.Random) -> object:
    """Thousands of sentences at once, which most machines refuse or do not finish in time. What is answered counts."""
    try:
        await translate(service, user, item, rng)
    except Refused as refused:
        codes = ('"deadline_exceeded"', '"deadline_unreachable"', '"queue_full"')
        if not any(code in refused.about for code in codes):
            raise
    return None


async def _nothing(service: Service, user: User, item: Item, rng: random.Random) -> object:
    return None


def _texts(item: Item) -> list[str]:
    return [item["text"]] if isinstance(item["text"], str) else item["text"]


def _timeless(answer: httpx.Response) -> object:
    """An answer of ``/translate`` without its times."""
    return {name: value for name, value in answer.json().items() if name != "timings_ms"}


def _entries_of(events: Sequence[tuple[str, Any]]) -> object:
    """The entries of a stream's texts, in their order; the events themselves if it does not end as it should."""
    by_text = {fields["text"]: fields["translation"] for name, fields in events if name == "translation"}
    ends_well = events[-1][0] == "done" and not any(name == "error" for name, _ in events)
    return [by_text[index] for index in sorted(by_text)] if ends_well else events


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _content_of(name: str, content: bytes) -> str:
    """What is in a file; an archive may have times in it."""
    if not name.endswith(".docx"):
        return content.decode()
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return _digest(b"".join(name.encode() + archive.read(name) for name in archive.namelist()))


def _marked(sentence: str) -> str:
    """A sentence in HTML, with an element around some of its words."""
    first, second, *others = sentence.split()
    return f"<p>{first} <b>{second} {others[0]}</b> {' '.join(others[1:])}</p>"
