"""The client and servers that break off, over real sockets: what httpx makes of them is what the client expects."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import httpx
import pytest

from tests.client.driving import ANSWER, Driver
from verso_client import NO_RETRIES, ConnectionFailed, InvalidAnswer, StreamBroken, StreamEvent, TimedOut

SENTENCE = json.dumps(
    {"event": "sentence", "text": 0, "sentence": 0, "source": [0, 4], "translation": "Eins.", "finish_reason": "stop"}
).encode()
CHUNKED = b"HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n"
BODY = json.dumps(ANSWER).encode()
WHOLE = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(BODY), BODY)


@contextmanager
def answering(payloads: Sequence[bytes | None]) -> Iterator[tuple[str, list[bytes]]]:
    """A server that sends one payload for each connection and closes it; nothing, for None, until the client leaves.

    Gives its address and the requests it has read.
    """
    samples: list[bytes] = []

    def serve() -> None:
        for payload in payloads:
            connection, _ = listener.accept()
            with connection, connection.makefile("rb") as lines:
                head = list(iter(lines.readline, b"\r\n"))
                length = next(int(line.split(b":")[1]) for line in head if line.lower().startswith(b"content-length"))
                samples.append(lines.read(length))
                if payload is None:
                    lines.read()
                else:
                    connection.sendall(payload)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}", samples
        finally:
            thread.join()


def test_a_connection_that_is_closed_without_an_answer_is_tried_again(driver: Driver) -> None:
    with answering([b"", WHOLE[:-5], WHOLE]) as (url, observed):
        assert driver.run(url, lambda client: client.translate("Hello.")).text == "Hallo."
    assert len(observed) == 3
    assert len(driver.slept) == 2


def test_a_lost_answer_to_an_upload_is_not(driver: Driver) -> None:
    with answering([b""]) as (url, observed), pytest.raises(ConnectionFailed) as caught:
        driver.run(url, lambda client: client.upload_document(b"Hello.", "a.txt"))
    assert caught.value.sent
    assert b"Hello." in observed[0]


def test_nothing_listens(driver: Driver) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    with pytest.raises(ConnectionFailed) as caught:
        driver.run(url, lambda client: client.translate("Hello."))
    assert not caught.value.sent
    assert len(driver.slept) == 3


def test_a_server_that_does_not_answer_times_out_once(driver: Driver) -> None:
    driver.options["timeout"] = httpx.Timeout(30.0, read=0.05)
    with answering([None]) as (url, observed), pytest.raises(TimedOut) as caught:
        driver.run(url, lambda client: client.translate("Hello."))
    assert caught.value.sent
    assert len(observed) == 1


@pytest.mark.parametrize(
    "payload",
    [
        CHUNKED + b"%x\r\n%s\n\r\n" % (len(SENTENCE) + 1, SENTENCE),
        CHUNKED + b"%x\r\n%s\n\r\n0\r\n\r\n" % (len(SENTENCE) + 1, SENTENCE),
        CHUNKED + b"%x\r\n%s\n{" % (len(SENTENCE) + 99, SENTENCE),
    ],
    ids=["between two chunks", "after the last chunk", "in a chunk"],
)
def test_a_stream_that_breaks_off_gives_what_came_and_an_error(payload: bytes, driver: Driver) -> None:
    results: list[StreamEvent] = []
    with answering([payload]) as (url, _), pytest.raises(StreamBroken):
        driver.read_stream(url, results, "One. Two.")
    assert len(results) == 1


def test_what_speaks_no_http_is_an_error_of_the_client(driver: Driver) -> None:
    driver.options["retries"] = NO_RETRIES
    with answering([b"SSH-2.0-OpenSSH_9.9\r\n"]) as (url, _), pytest.raises(ConnectionFailed):
        driver.run(url, lambda client: client.translate("Hello."))
    compressed = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\nnope"
    with answering([compressed]) as (url, _), pytest.raises(InvalidAnswer):
        driver.run(url, lambda client: client.translate("Hello."))
