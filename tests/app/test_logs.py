"""The log: JSON lines that never contain a text."""

from __future__ import annotations

import io
import json
import logging
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

from app.telemetry.logs import configure_logging, request_id_var
from tests.app.serving import RoteService, client_of, rote_app


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    """The stream of the log during a test; the configuration is restored afterwards."""
    root = logging.getLogger()
    access = logging.getLogger("uvicorn.access")
    server = logging.getLogger("uvicorn.error")
    before = (root.handlers[:], root.level, access.disabled, server.level)
    root.handlers = []  # configure_logging closes the handlers it replaces
    stream = io.StringIO()
    configure_logging("info", stream)
    yield stream
    logging.captureWarnings(False)
    root.handlers, root.level, access.disabled, server.level = before[0], before[1], before[2], before[3]


def lines_of(stream: io.StringIO) -> list[dict[str, Any]]:
    """The written records, without those of the client of the test."""
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    return [line for line in lines if not line["logger"].startswith(("httpx", "httpcore"))]


def test_a_record_is_one_line_of_json_with_its_fields(stream: io.StringIO) -> None:
    logging.getLogger("app.test").info("two\nlines", extra={"fields": {"rows": 3, "text_ms": 1.5}})
    (line,) = lines_of(stream)
    assert (line["level"], line["logger"], line["message"]) == ("info", "app.test", "two\nlines")
    assert (line["rows"], line["text_ms"]) == (3, 1.5)
    assert line["time"].endswith("Z") and "request_id" not in line


def test_a_record_below_the_level_is_not_written(stream: io.StringIO) -> None:
    logging.getLogger("app.test").debug("detail")
    assert stream.getvalue() == ""


def test_an_exception_outside_a_request_is_logged_with_its_message_and_cause(stream: io.StringIO) -> None:
    try:
        try:
            raise KeyError("inner")
        except KeyError as inner:
            raise ValueError("outer") from inner
    except ValueError as error:
        logging.getLogger("app.test").error("failed", exc_info=error)
    (line,) = lines_of(stream)
    assert (line["error"]["type"], line["error"]["message"]) == ("ValueError", "outer")
    assert line["error"]["cause"]["type"] == "KeyError"
    assert "test_logs.py" in line["error"]["frames"][-1]


def test_an_exception_within_a_request_is_logged_without_its_message(stream: io.StringIO) -> None:
    token = request_id_var.set("r1")
    try:
        logging.getLogger("app.test").error("failed", exc_info=ValueError("the private text"))
    finally:
        request_id_var.reset(token)
    (line,) = lines_of(stream)
    assert (line["request_id"], line["error"]["type"]) == ("r1", "ValueError")
    assert "private" not in stream.getvalue()


def test_a_python_warning_is_logged(stream: io.StringIO) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn("old ways", DeprecationWarning, stacklevel=1)
    assert "old ways" in lines_of(stream)[0]["message"]


@pytest.mark.anyio
async def test_a_request_is_one_line_with_id_route_status_timings_and_counts(stream: io.StringIO) -> None:
    async with client_of(rote_app(RoteService())) as client:
        await client.post("/translate", json={"text": ["a", "bcd"]}, headers={"X-Request-ID": "r-7"})
    (line,) = [line for line in lines_of(stream) if line["logger"] == "app.requests"]
    assert (line["request_id"], line["method"], line["route"], line["status"]) == ("r-7", "POST", "/translate", 200)
    assert (line["texts"], line["characters"], line["source_tokens"], line["target_tokens"]) == (2, 4, 5, 4)
    assert (line["queue_ms"], line["decode_ms"]) == (0.25, 2.0)
    assert line["duration_ms"] > 0


@pytest.mark.anyio
async def test_no_text_is_ever_logged_however_the_request_ends(stream: io.StringIO) -> None:
    service = RoteService(errors={"geheim boom": RuntimeError("geheim boom")})
    async with client_of(rote_app(service, max_text_characters=20)) as client:
        for text in ("geheim", "geheim boom", "geheim\0", "geheim " * 20):
            await client.post("/translate", json={"text": text})
        await client.post("/attention", json={"text": "geheim", "layers": [99]})
        await client.post("/translate", content=b'{"text": "geheim', headers={"content-type": "application/json"})
        await client.get("/geheim?text=geheim")
    lines = lines_of(stream)
    assert len(lines) >= 7
    assert "geheim" not in json.dumps(lines).lower()


@pytest.mark.anyio
async def test_a_refused_request_is_logged_with_its_code(stream: io.StringIO) -> None:
    async with client_of(rote_app(RoteService())) as client:
        await client.post("/translate", json={"text": "a", "beam": 1})
    assert lines_of(stream)[-1]["code"] == "invalid_request"


@pytest.mark.anyio
async def test_successful_probes_are_not_logged(stream: io.StringIO) -> None:
    async with client_of(rote_app(RoteService())) as client:
        for path in ("/livez", "/readyz", "/metrics"):
            await client.get(path)
    assert [line for line in lines_of(stream) if line["logger"] == "app.requests"] == []
