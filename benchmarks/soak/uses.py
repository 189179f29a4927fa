"""The uses of a soak that translate texts, in every protocol: each function returns its answer.

Streamed answers must be equal to plain ones, and repeated requests to single ones.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import random
import uuid
from collections.abc import Sequence
from typing import Any

import httpx

from benchmarks.soak.users import BUSY, DEEPL, IDEMPOTENCY_KEY, Item, Refused, Service, User

AT_ONCE = 3
"""Requests at once of the user who may have two sentences at once."""

DOCUMENT_PATIENCE_S = 1_800.0
"""Timeout of a client that waits for a document, in seconds: other requests go before documents."""

TOO_MANY = '"concurrency_exceeded"'
"""Part of the answer when it has more."""


async def translate(service: Service, user: User, item: Item, rng: random.Random) -> object:
    """``POST /translate``; the answer without its times."""
    answer = await service.send(user, "POST", "/translate", json=item)
    user.received(*texts_of(item))
    return timeless(answer)


async def entries(service: Service, user: User, item: Item, rng: random.Random) -> object:
    """The entries of an answer of ``POST /translate``, which a stream has, too."""
    answer = await service.send(user, "POST", "/translate", json=item)
    return answer.json()["translations"]


async def stream_events(service: Service, user: User, item: Item, rng: random.Random) -> object:
    """``POST /translate`` as server-sent events."""
    answer = await service.send(user, "POST", "/translate", json=item, headers={"Accept": "text/event-stream"})
    user.received(*texts_of(item))
    blocks = [block for block in answer.text.split("\n\n") if block]
    events = [block.removeprefix("event: ").split("\ndata: ") for block in blocks]
    return _entries_of([(name, json.loads(data)) for name, data in events])


async def stream_lines(service: Service, user: User, item: Item, rng: random.Random) -> object:
    """``POST /translate`` as a line of JSON for each event."""
    answer = await service.send(user, "POST", "/translate", json=item, headers={"Accept": "application/x-ndjson"})
    user.received(*texts_of(item))
    events = [json.loads(line) for line in answer.text.splitlines()]
    return _entries_of([(event.pop("event"), event) for event in events])


async def hang_up(service: Service, user: User, item: Item, rng: random.Random) -> object:
    """A client that hangs up, and sends its request again with the same id: it counts once."""
    request: dict[str, Any] = {"json": item, "headers": {IDEMPOTENCY_KEY: uuid.uuid4().hex}}
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(rng.uniform(0.0, 0.2)):
            await service.send(user, "POST", "/translate", **request)
    answer = await service.send_until_answered(user, "POST", "/translate", **request)
    user.received(*texts_of(item))
    return timeless(answer)


async def leave_stream(service: Service, user: User, item: Item, rng: random.Random) -> object:
    """A client that leaves in the midst of a stream, and asks again for a plain answer: it counts once."""
    headers = {IDEMPOTENCY_KEY: uuid.uuid4().hex, "Authorization": f"Bearer {user.token}"}
    accepting = headers | {"Accept": "application/x-ndjson"}
    with contextlib.suppress(httpx.HTTPError):
        async with service.client.stream("POST", "/translate", json=item, headers=accepting) as answer:
            async for _ in answer.aiter_lines():
                break
    again = await service.send_until_answered(user, "POST", "/translate", json=item, headers=headers)
    user.received(*texts_of(item))
    return timeless(again)


async def send_twice(service: Service, user: User, item: Item, rng: random.Random) -> object:
    """A client that does not wait before it sends its request again: both are answered, and one counts."""
    request: dict[str, Any] = {"json": item, "headers": {IDEMPOTENCY_KEY: uuid.uuid4().hex}}
    both = (service.send_until_answered(user, "POST", "/translate", **request) for _ in range(2))
    answers = await asyncio.gather(*both)
    user.received(*texts_of(item))
    first, second = map(timeless, answers)
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
    return digest(answer.content)


async def attend_arrays(service: Service, user: User, item: Item, rng: random.Random) -> object:
    """``POST /attention`` as NumPy's arrays, whose archive has the time in it."""
    answer = await service.send(user, "POST", "/attention", json=item, headers={"Accept": "application/x-npz"})
    user.received(item["text"])
    return len(answer.content)


async def attend_picture(service: Service, user: User, item: Item, rng: random.Random) -> object:
    """``POST /attention`` as a picture."""
    answer = await service.send(user, "POST", "/attention", json=item, headers={"Accept": "image/png"})
    user.received(item["text"])
    return digest(answer.content)


async def detect_native(service: Service, user: User, item: Item, rng: random.Random) -> object:
    """``POST /detect``, which counts nothing."""
    return (await service.send(user, "POST", "/detect", json={"text": item})).json()


async def assist(service: Service, user: User, item: Item, rng: random.Random) -> object:
    """A tool of ``/mcp``."""
    result = await call_tool(service, user, item["tool"], **item["arguments"])
    if item["tool"] == "translate":
        user.received(*item["arguments"]["texts"])
    return result


async def call_tool(service: Service, user: User, tool: str, **arguments: Any) -> Any:
    """What a tool of ``/mcp`` returns.

    Raises:
        Refused: The call failed; the tool says why.
    """
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}
    accept = {"Accept": "application/json, text/event-stream"}
    answer = await service.send(user, "POST", "/mcp", json=call, headers=accept, timeout=DOCUMENT_PATIENCE_S)
    events = [json.loads(line.removeprefix("data: ")) for line in answer.text.splitlines() if line.startswith("data: ")]
    result = events[-1]["result"]
    if result.get("isError"):
        raise Refused(200, result["content"][0]["text"])
    return result["structuredContent"]


async def read(service: Service, user: User, item: Item, rng: random.Random) -> object:
    """A page that is always the same, or of which only the status is."""
    answer = await service.send(user, "GET", item["path"], scheme=item.get("scheme", "Bearer"))
    return digest(answer.content) if item["is_constant"] else answer.status_code


async def libretranslate(service: Service, user: User, item: Item, rng: random.Random) -> object:
    """LibreTranslate's ``/translate``, with and without its prefix."""
    path = rng.choice(("/libretranslate/translate", "/translate"))
    answer = await service.send(user, "POST", path, json=item)
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


async def too_much(service: Service, user: User, item: Item, rng: random.Random) -> object:
    """Thousands of sentences at once, which most machines refuse or do not finish in time. What is answered counts."""
    try:
        await translate(service, user, item, rng)
    except Refused as refused:
        codes = ('"deadline_exceeded"', '"deadline_unreachable"', '"queue_full"')
        if not any(code in refused.about for code in codes):
            raise
    return None


async def nothing(service: Service, user: User, item: Item, rng: random.Random) -> object:
    """The right answer of uses that return none."""
    return None


def texts_of(item: Item) -> list[str]:
    """The texts of a request of ``/translate``."""
    return [item["text"]] if isinstance(item["text"], str) else item["text"]


def timeless(answer: httpx.Response) -> object:
    """An answer of ``/translate`` without its times."""
    return {name: value for name, value in answer.json().items() if name != "timings_ms"}


def _entries_of(events: Sequence[tuple[str, Any]]) -> object:
    """The entries of a stream's texts, in their order; the events themselves if it does not end as it should."""
    for name, fields in events:
        if name == "error" and fields["status"] in BUSY:
            raise Refused(fields["status"], str(fields))
    by_text = {fields["text"]: fields["translation"] for name, fields in events if name == "translation"}
    ends_well = events[-1][0] == "done" and not any(name == "error" for name, _ in events)
    return [by_text[index] for index in sorted(by_text)] if ends_well else events


def digest(content: bytes) -> str:
    """The SHA-256 of an answer."""
    return hashlib.sha256(content).hexdigest()


def marked(sentence: str) -> str:
    """A sentence in HTML, with an element around some of its words."""
    first, second, *others = sentence.split()
    return f"<p>{first} <b>{second} {others[0]}</b> {' '.join(others[1:])}</p>"
