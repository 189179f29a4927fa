"""Streamed answers: server-sent events, or one JSON object per line."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Iterable

from pydantic import BaseModel
from pydantic_core import to_json
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from app.errors import problem_for
from app.http.schemas.translation import ErrorEvent
from app.telemetry.logs import log_fields

logger = logging.getLogger("app.requests")

EVENT_STREAM = "text/event-stream"
NDJSON = "application/x-ndjson"

Event = tuple[str, BaseModel]
"""The name of an event and its fields."""


class EventStream(Response):
    """A response that sends events as they arrive. An error among them becomes the last event, ``error``.

    Unlike Starlette's StreamingResponse it stays in the task that began to iterate, because timeouts belong to a task.
    A disconnect cancels that task (:class:`app.http.middleware.DisconnectWatcher`).

    Args:
        first: The first event; a refused request has none, and is answered with the status of its error.
        others: The following events.
        media_type: :data:`EVENT_STREAM` or :data:`NDJSON`.
    """

    def __init__(self, first: Event, others: AsyncGenerator[Event, None], media_type: str) -> None:
        # Proxies must not buffer the answer.
        headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
        super().__init__(None, media_type=media_type, headers=headers)
        del self.headers["content-length"]
        self._first = first
        self._others = others
        self._write = _WRITERS[media_type]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events."""
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        try:
            await self._send(send, self._first)
            try:
                async for event in self._others:
                    await self._send(send, event)
            except Exception as error:
                problem = problem_for(error)
                if problem.status == 500:
                    logger.error("a stream failed", exc_info=True)
                log_fields(scope)["code"] = problem.code
                await self._send(send, ("error", ErrorEvent.model_validate(problem.to_dict())))
        finally:
            await self._others.aclose()
        await send({"type": "http.response.body", "body": b""})

    async def close(self) -> None:
        """End the work for a response that is not sent."""
        await self._others.aclose()

    async def _send(self, send: Send, event: Event) -> None:
        await send({"type": "http.response.body", "body": self._write(event), "more_body": True})


async def begin(events: AsyncGenerator[Event, None], media_type: str) -> EventStream:
    """The response with events, once the first one has arrived.

    Args:
        events: The events, at least one.
        media_type: :data:`EVENT_STREAM` or :data:`NDJSON`.

    Raises:
        Exception: The error before the first event.
    """
    try:
        first = await anext(events)
    except asyncio.CancelledError:
        await events.aclose()
        raise
    return EventStream(first, events, media_type)


def as_stream(events: Iterable[Event], media_type: str) -> str:
    """The encoded events.

    Args:
        events: The events.
        media_type: :data:`EVENT_STREAM` or :data:`NDJSON`.
    """
    return b"".join(map(_WRITERS[media_type], events)).decode()


def _as_server_sent(event: Event) -> bytes:
    name, fields = event
    return b"event: %s\ndata: %s\n\n" % (name.encode(), fields.model_dump_json().encode())


def _as_line(event: Event) -> bytes:
    name, fields = event
    return to_json({"event": name, **fields.model_dump(mode="json")}) + b"\n"


_WRITERS: dict[str, Callable[[Event], bytes]] = {EVENT_STREAM: _as_server_sent, NDJSON: _as_line}
