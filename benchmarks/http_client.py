"""Callers of a service in a separate process: a given number of concurrent callers, or calls at given times.

It uses plain streams, because the callers' processor time reduces that of the servers, which share the
processors with them.
"""

from __future__ import annotations

import asyncio
import gc
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

NO_ANSWER = 0
"""Status for a call that timed out or lost its connection."""


@dataclass(frozen=True)
class Call:
    """A request to send.

    Args:
        kind: Label for the evaluation of the answers.
        path: Path of the URL.
        body: JSON body of a POST; None for a GET.
        at_s: Time to send it, in seconds after the start; ignored in a closed loop.
        headers: Further lines of the head, each with its end.
    """

    kind: str
    path: str
    body: bytes | None
    at_s: float = 0.0
    headers: str = ""


@dataclass(frozen=True)
class Answer:
    """The outcome of a call.

    Args:
        kind: Kind of the call.
        status: HTTP status, or :data:`NO_ANSWER`.
        latency_s: Seconds since the planned time of sending, even if it was sent later.
        body: Received body.
    """

    kind: str
    status: int
    latency_s: float
    body: bytes


@dataclass(frozen=True)
class Load:
    """A load: the task of the callers.

    Args:
        port: Port of the service on this machine.
        calls: All requests, in order.
        num_clients: None sends each call at its time, whether or not earlier ones are answered (an open loop); a
            number makes as many callers send one call after another (a closed loop).
        patience_s: Timeout of a call, in seconds.
        seconds: Time after which a closed loop sends no more calls; None sends all.
        probes: Calls that are sent at their times, independent of the others.
    """

    port: int
    calls: Sequence[Call]
    num_clients: int | None
    patience_s: float
    seconds: float | None = None
    probes: Sequence[Call] = ()


@dataclass(frozen=True)
class Outcome:
    """The outcome of a load.

    Args:
        answers: Answers in the order of the calls; calls that were never sent are missing at the end.
        probes: Answers to the probes, in order.
        seconds: Time from the first call to the last answer.
        cpu_seconds: Processor time of the callers.
    """

    answers: list[Answer]
    probes: list[Answer]
    seconds: float
    cpu_seconds: float


def load_sender() -> Callable[[Load], Outcome]:
    """Load a worker process of callers; its jobs are loads."""
    gc.disable()  # looking for garbage takes 0.2 s now and then, and would count as latency of the service
    return lambda load: asyncio.run(run(load))


async def run(load: Load) -> Outcome:
    """Send the calls and wait for their answers."""
    connections = Connections(load.port)
    cpu_before, began = time.process_time(), time.perf_counter()

    async def send(call: Call, due: float) -> Answer:
        status, body = await connections.ask(call, due + load.patience_s - time.perf_counter())
        return Answer(call.kind, status, time.perf_counter() - due, body)

    async def open_loop(calls: Sequence[Call]) -> list[Answer]:
        tasks = []
        for call in calls:
            due = began + call.at_s
            # The loop must yield even if it is late, or nothing would be sent.
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            tasks.append(asyncio.create_task(send(call, due)))
        return await asyncio.gather(*tasks)

    async def closed_loop(calls: Sequence[Call], num_clients: int) -> list[Answer]:
        answers: dict[int, Answer] = {}
        waiting = iter(enumerate(calls))

        async def client() -> None:
            for index, call in waiting:
                if load.seconds is not None and time.perf_counter() - began > load.seconds:
                    return
                answers[index] = await send(call, time.perf_counter())

        await asyncio.gather(*(client() for _ in range(num_clients)))
        return [answers[index] for index in sorted(answers)]

    probing = asyncio.create_task(open_loop(load.probes))
    answers = await (open_loop(load.calls) if load.num_clients is None else closed_loop(load.calls, load.num_clients))
    seconds, cpu_seconds = time.perf_counter() - began, time.process_time() - cpu_before
    outcome = Outcome(answers, await probing, seconds, cpu_seconds)
    await connections.close()
    return outcome


class Connections:
    """Persistent HTTP/1.1 connections to a service on this machine.

    Args:
        port: Port of the service.
    """

    def __init__(self, port: int) -> None:
        self._port = port
        self._idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def ask(self, call: Call, timeout_s: float) -> tuple[int, bytes]:
        """Status and body of the answer, or :data:`NO_ANSWER` and an empty body."""
        writer: asyncio.StreamWriter | None = None
        try:
            async with asyncio.timeout(timeout_s):
                if self._idle:
                    reader, writer = self._idle.pop()
                else:
                    reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
                writer.write(_request(call))
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                length = head.partition(b"content-length:")[2].partition(b"\r\n")[0]
                body = await reader.readexactly(int(length))
        except (OSError, EOFError, TimeoutError):
            if writer is not None:
                writer.close()
            return NO_ANSWER, b""
        if b"connection: close" in head:
            writer.close()
        else:
            self._idle.append((reader, writer))
        return int(head.split(b" ", 2)[1]), body

    async def close(self) -> None:
        """Close the idle connections."""
        for _, writer in self._idle:
            writer.close()
            await writer.wait_closed()


def post(kind: str, at_s: float = 0.0, **fields: Any) -> Call:
    """A call of ``/translate``.

    Args:
        kind: Label for the evaluation of the answers.
        at_s: Time to send it, in seconds after the start.
        fields: Fields of the request.
    """
    return Call(kind, "/translate", json.dumps(fields).encode(), at_s)


def texts_of(answer: Answer) -> list[str]:
    """The translations in an answer with status 200."""
    return [entry["text"] for entry in json.loads(answer.body)["translations"]]


def _request(call: Call) -> bytes:
    head = f"{'GET' if call.body is None else 'POST'} {call.path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{call.headers}"
    if call.body is None:
        return f"{head}\r\n".encode()
    return f"{head}Content-Type: application/json\r\nContent-Length: {len(call.body)}\r\n\r\n".encode() + call.body
