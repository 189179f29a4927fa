"""Sentences as they are finished: events, and streams that break."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from tests.client.driving import TRANSLATION, Chunks, Driver, Script, problem
from verso_client import (
    Done,
    InvalidAnswer,
    ProblemError,
    Sentence,
    StreamBroken,
    StreamEvent,
    TextError,
    TimedOut,
    Timings,
    TranslatedText,
    Usage,
)


def line(event: str, **fields: Any) -> bytes:
    return json.dumps({"event": event, **fields}, ensure_ascii=False).encode() + b"\n"


def sentence(index: int, translation: str, text: int = 0) -> bytes:
    return line("sentence", text=text, sentence=index, source=[0, 3], translation=translation, finish_reason="stop")


FAILURE = line("error", text=1, type="about:blank", title="No", status=422, code="source_too_long", detail="too long")
DONE = line(
    "done",
    model="rote",
    usage={"source_tokens": 3, "target_tokens": 4},
    timings_ms={"queue": 0.1, "decode": 2.0, "total": 3.0},
)
WHOLE = (
    sentence(0, "Eins.") + sentence(1, "Zwei.") + line("translation", text=0, translation=TRANSLATION) + FAILURE + DONE
)


def streamed(*pieces: bytes | Exception) -> httpx.Response:
    return httpx.Response(200, stream=Chunks(pieces), headers={"Content-Type": "application/x-ndjson"})


@pytest.mark.parametrize("size", [1, 7, 1000], ids=lambda size: f"{size} bytes at once")
def test_events_are_the_same_however_the_bytes_arrive(size: int, driver: Driver) -> None:
    server = Script([streamed(*(WHOLE[start : start + size] for start in range(0, len(WHOLE), size)))])
    first, second, full, failed, events = driver.events(server, ["One. Two.", "xxx"], target="de")
    assert first == Sentence(0, 0, (0, 3), "Eins.", "stop")
    assert isinstance(second, Sentence)
    assert second.translation == "Zwei."
    assert isinstance(full, TranslatedText)
    assert (full.text, full.translation.text) == (0, "Hallo.")
    assert isinstance(failed, TextError)
    assert (failed.text, failed.error.code) == (1, "source_too_long")
    assert isinstance(events, Done)
    assert (events.usage, events.timings_ms, events.model) == (Usage(3, 4), Timings(0.1, 2.0, 3.0), "rote")
    assert events.request_id == server.requests[0].headers["X-Request-ID"]
    assert server.requests[0].headers["Accept"] == "application/x-ndjson"
    assert server.body() == {"text": ["One. Two.", "xxx"], "target": "de"}


def test_an_event_is_given_before_the_next_bytes_are_read(driver: Driver) -> None:
    results: list[StreamEvent] = []
    body = Chunks([sentence(0, "Eins."), AssertionError("nobody asked for more")])
    server = Script([httpx.Response(200, stream=body)])
    driver.read_stream(server, results, "One. Two.", stop_after=1)
    assert len(results) == 1
    assert body.closed


def test_a_line_ends_at_a_line_feed_and_nowhere_else(driver: Driver) -> None:
    odd = "a\u2028b\x85c\x0bd\u2029e"
    escaped_by_nobody = sentence(0, odd).replace(b"\\u000b", b"\\u000b")
    events = driver.events(Script([streamed(escaped_by_nobody + b"\n\r\n" + DONE)]), "x")
    assert isinstance(events[0], Sentence)
    assert events[0].translation == odd


def test_a_last_line_needs_no_line_feed(driver: Driver) -> None:
    events = driver.events(Script([streamed(sentence(0, "Eins."), DONE.rstrip())]), "x")
    assert isinstance(events[-1], Done)


def test_events_of_later_versions_are_ignored(driver: Driver) -> None:
    events = driver.events(Script([streamed(line("heartbeat", seconds=3), DONE)]), "x")
    assert [type(event) for event in events] == [Done]


@pytest.mark.parametrize(
    "rest",
    [(), (b'{"event": "sent',), (httpx.ReadError("reset"),), (httpx.RemoteProtocolError("incomplete chunked read"),)],
    ids=["closed", "cut in a line", "reset", "incomplete"],
)
def test_a_stream_that_ends_early_is_broken_and_not_begun_again(rest: tuple[Any, ...], driver: Driver) -> None:
    results: list[StreamEvent] = []
    server = Script([streamed(sentence(0, "Eins."), *rest)])
    with pytest.raises(StreamBroken) as caught:
        driver.read_stream(server, results, "One. Two.")
    assert [type(event) for event in results] == [Sentence]
    assert (caught.value.code, caught.value.sent) == ("stream_broken", True)
    assert caught.value.request_id
    assert len(server.requests) == 1


def test_a_stream_that_pauses_too_long_times_out(driver: Driver) -> None:
    results: list[StreamEvent] = []
    with pytest.raises(TimedOut):
        driver.read_stream(Script([streamed(sentence(0, "Eins."), httpx.ReadTimeout("slow"))]), results, "One. Two.")
    assert len(results) == 1


@pytest.mark.parametrize(
    "bad",
    [b"<html>\n", b"[1]\n", b'{"text": 1}\n', line("sentence", text=0), line("sentence", text="0"), b"\xff\n"],
)
def test_a_line_that_is_no_event_is_an_invalid_answer(bad: bytes, driver: Driver) -> None:
    with pytest.raises(InvalidAnswer, match="not an event"):
        driver.events(Script([streamed(bad, DONE)]), "x")


def test_a_problem_of_the_whole_request_is_raised(driver: Driver) -> None:
    bad = line("error", title="Stopped", status=504, code="deadline_exceeded", detail="too slow")
    results: list[StreamEvent] = []
    with pytest.raises(ProblemError, match="too slow") as caught:
        driver.read_stream(Script([streamed(sentence(0, "Eins."), bad)]), results, "x")
    assert caught.value.code == "deadline_exceeded"
    assert len(results) == 1


def test_a_refused_stream_is_a_problem_and_may_be_repeated_before_it_begins(driver: Driver) -> None:
    server = Script([problem(503, "not_ready", Retry_After="2"), httpx.ConnectError("refused"), streamed(DONE)])
    assert [type(event) for event in driver.events(server, "x")] == [Done]
    assert len(driver.slept) == 2

    with pytest.raises(ProblemError) as caught:
        driver.events(Script([problem(406, "not_acceptable")]), "x")
    assert caught.value.code == "not_acceptable"
