"""Reads the events of a stream from an answer of type ``application/x-ndjson``."""

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
    """Splits bytes into lines and decodes these as events.

    Lines end with a line feed only. The line iterator of httpx also splits at characters such as U+2028, which JSON
    strings may contain.

    Args:
        request_id: The id of the request, for errors.
    """

    def __init__(self, request_id: str | None) -> None:
        self.is_done = False
        self._request_id = request_id
        self._rest = bytearray()

    def feed(self, data: bytes) -> Iterator[StreamEvent]:
        """The complete events so far.

        Args:
            data: The next bytes.

        Raises:
            InvalidAnswer: A line is not an event.
            ProblemError: The service ended the stream with an error.
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
            StreamBroken: The last event is missing.
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
                f"A line of the stream is not an event: {error}.", status=200, request_id=self._request_id
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
