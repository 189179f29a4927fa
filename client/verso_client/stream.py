"""The events of a stream, from the bytes of an ``application/x-ndjson`` answer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from verso_client.answers import Done, Problem, Sentence, StreamEvent, TextError, TranslatedText
from verso_client.decoding import Unexpected, decode
from verso_client.errors import InvalidAnswer, ProblemError, StreamBroken

NDJSON = "application/x-ndjson"


@dataclass(frozen=True)
class _Index:
    text: int


class EventReader:
    """Cuts bytes into lines and lines into events, as they arrive.

    Lines end with a line feed only. The line iterator of httpx also ends them at characters such as U+2028, which JSON
    strings may contain.

    Args:
        request_id: The id of the request, for errors.
    """

    def __init__(self, request_id: str | None) -> None:
        self.is_done = False
        self._request_id = request_id
        self._rest = bytearray()

    def feed(self, data: bytes) -> Iterator[StreamEvent]:
        """The events that are complete.

        Args:
            data: The next bytes.

        Raises:
            InvalidAnswer: A line is no event.
            ProblemError: The service could not go on.
        """
        self._rest += data
        *lines, rest = self._rest.split(b"\n")
        self._rest = rest
        for line in lines:
            if line.strip():
                yield from self._event(bytes(line))

    def finish(self) -> Iterator[StreamEvent]:
        """The event of a last line without line feed.

        Raises:
            StreamBroken: There was no last event.
        """
        if not self.is_done and self._rest.strip():
            with suppress(InvalidAnswer):  # a line that was cut off
                yield from self._event(bytes(self._rest))
        if not self.is_done:
            raise StreamBroken("The stream ended before all texts were translated.", request_id=self._request_id)

    def _event(self, line: bytes) -> Iterator[StreamEvent]:
        try:
            value = json.loads(line)
            name = value.get("event") if isinstance(value, dict) else None
            if name is None:
                raise Unexpected("it has no field 'event'")
            yield from self._parsed(name, value)
        except (ValueError, Unexpected) as error:
            raise InvalidAnswer(
                f"A line of the stream is no event: {error}.", status=200, request_id=self._request_id
            ) from error

    def _parsed(self, name: str, value: dict[str, Any]) -> Iterator[StreamEvent]:
        match name:
            case "sentence":
                yield decode(Sentence, value)
            case "translation":
                yield decode(TranslatedText, value)
            case "error":
                problem = decode(Problem, value)
                if "text" not in value:
                    raise ProblemError(problem, request_id=self._request_id)
                yield TextError(decode(_Index, value).text, problem)
            case "done":
                self.is_done = True
                yield decode(Done, value | {"request_id": self._request_id})
            case _:
                pass  # an event of a later version
