"""Both clients behind one interface, a scripted transport, and clocks that do not run by themselves."""

from __future__ import annotations

import asyncio
import inspect
import json
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

import httpx

from verso_client import AsyncClient, Client, StreamEvent

Flavour = Literal["sync", "async"]

TRANSLATION: dict[str, Any] = {
    "text": "Hallo.",
    "source": "en",
    "target": "de",
    "finish_reason": "stop",
    "score": None,
    "alternatives": [],
    "alignment": None,
    "model": "rote",
    "detected": None,
}
ANSWER = {
    "translations": [TRANSLATION],
    "model": "rote",
    "usage": {"source_tokens": 2, "target_tokens": 2},
    "timings_ms": {"queue": 0.1, "decode": 1, "total": 1.2},
}


def answer(**changed: Any) -> httpx.Response:
    return httpx.Response(200, json=ANSWER | changed)


def problem(status: int, code: str, **headers: str) -> httpx.Response:
    body = {"type": "about:blank", "title": "No", "status": status, "code": code, "detail": f"{code} happened"}
    return httpx.Response(status, json=body, headers={name.replace("_", "-"): value for name, value in headers.items()})


@dataclass
class Script:
    """A server that gives predefined answers, one for each request; an exception is raised instead."""

    answers: list[httpx.Response | Exception]
    requests: list[httpx.Request] = field(default_factory=list)

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        assert len(self.requests) <= len(self.answers), "one request more than the script has answers"
        arguments = self.answers[len(self.requests) - 1]
        if isinstance(arguments, Exception):
            raise arguments
        if isinstance(arguments.stream, Chunks):
            return arguments
        # A copy: the transport of one flavour leaves a response that the other one refuses.
        return httpx.Response(arguments.status_code, headers=arguments.headers, content=arguments.content)

    def body(self) -> Any:
        """The body of the last request."""
        return json.loads(self.requests[-1].content)


@dataclass
class Driver:
    """Runs calls with the client of one flavour; a second of sleep takes none."""

    flavour: Flavour
    options: dict[str, Any] = field(default_factory=dict)
    slept: list[float] = field(default_factory=list)
    now: float = 0.0

    def run(self, server: Callable[[httpx.Request], httpx.Response] | str, call: Callable[[Any], Any]) -> Any:
        """What a call gives.

        Args:
            server: A scripted server, or the address of a real one.
            call: Given the client.
        """
        if self.flavour == "async":
            return asyncio.run(self._run_async(server, call))
        with self._sync_client(server) as client:
            return call(client)

    def events(
        self, server: Callable[[httpx.Request], httpx.Response] | str, *arguments: Any, **options: Any
    ) -> list[StreamEvent]:
        """The events of a stream."""
        results: list[StreamEvent] = []
        self.read_stream(server, results, *arguments, **options)
        return results

    def read_stream(
        self,
        server: Callable[[httpx.Request], httpx.Response] | str,
        into: list[StreamEvent],
        *arguments: Any,
        stop_after: int | None = None,
        **options: Any,
    ) -> None:
        """Append events to a list as they come, so that those before an error are there."""

        async def read(client: AsyncClient) -> None:
            async with client.stream(*arguments, **options) as events:
                async for event in events:
                    into.append(event)
                    if len(into) == stop_after:
                        break

        if self.flavour == "async":
            asyncio.run(self._run_async(server, read))
            return
        with self._sync_client(server) as client, client.stream(*arguments, **options) as events:
            for event in events:
                into.append(event)
                if len(into) == stop_after:
                    break

    def _shared(self) -> dict[str, Any]:
        return {"clock": lambda: self.now, "rng": random.Random(7)} | self.options

    def _sync_client(self, server: Any) -> Client:
        if isinstance(server, str):
            return Client(server, sleep=self._sleep, **self._shared())
        http = httpx.Client(transport=httpx.MockTransport(server))
        return Client("http://localhost", http=http, sleep=self._sleep, **self._shared())

    async def _run_async(self, server: Any, call: Callable[[Any], Any]) -> Any:
        async def sleep(seconds: float) -> None:
            self._sleep(seconds)

        if isinstance(server, str):
            client = AsyncClient(server, sleep=sleep, **self._shared())
        else:
            http = httpx.AsyncClient(transport=httpx.MockTransport(server))
            client = AsyncClient("http://localhost", http=http, sleep=sleep, **self._shared())
        async with client:
            result = call(client)
            return await result if inspect.isawaitable(result) else result

    def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


class Chunks(httpx.SyncByteStream, httpx.AsyncByteStream):
    """A body that arrives in pieces; an exception among them breaks it."""

    def __init__(self, pieces: Iterable[bytes | Exception]) -> None:
        self.pieces = list(pieces)
        self.closed = False

    def __iter__(self) -> Any:
        for piece in self.pieces:
            if isinstance(piece, Exception):
                raise piece
            yield piece

    async def __aiter__(self) -> Any:
        for piece in self:
            yield piece

    def close(self) -> None:
        self.closed = True

    async def aclose(self) -> None:
        self.closed = True
