"""Clients that send or read a byte at a time, or nothing at all."""

from __future__ import annotations

import http.client
import json
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing

import pytest

from tests.app.process import Process, running
from tests.faults.clients import TRANSLATION, answer_s, connect, drip, read_all
from tests.faults.machine import open_files, open_sockets
from tests.waiting import until

PAUSE_S = 0.05
HEAD = (
    b"POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n"
)


@pytest.fixture(scope="module")
def service() -> Iterator[Process]:
    """A service whose clients have to send within a second."""
    with running(VERSO_CLIENT_TIMEOUT_S="1", VERSO_KEEP_ALIVE_S="10") as process:
        process.wait_until_ready()
        yield process


def code_of(answer: bytes) -> tuple[bytes, str]:
    head, _, body = answer.partition(b"\r\n\r\n")
    return head.split(b"\r\n")[0], json.loads(body)["code"]


def bytes_of(content: bytes) -> Iterator[bytes]:
    for value in content:
        yield bytes([value])


@pytest.mark.thorough
def test_headers_that_come_byte_by_byte_are_refused_when_their_time_is_over(service: Process) -> None:
    with connect(service) as slow:
        answer = drip(slow, bytes_of(b"GET /livez HTTP/1.1\r\nX-Long: " + b"x" * 10_000), PAUSE_S)
    assert code_of(answer) == (b"HTTP/1.1 408 Request Timeout", "request_too_slow")


@pytest.mark.thorough
def test_a_body_that_comes_byte_by_byte_is_refused_and_its_handler_ends(service: Process) -> None:
    with connect(service) as slow:
        slow.sendall(HEAD)
        answer = drip(slow, bytes_of(b'{"text": "' + b"x" * 10_000), PAUSE_S)
    assert code_of(answer) == (b"HTTP/1.1 408 Request Timeout", "request_too_slow")
    until(lambda: service.logged("request"), lambda: "a log line of the request")


@pytest.mark.thorough
def test_a_connection_on_which_nothing_is_sent_is_closed_without_an_answer(service: Process) -> None:
    with connect(service) as silent:
        assert read_all(silent) == b""


@pytest.mark.faults
def test_others_are_answered_while_a_hundred_clients_send_a_byte_at_a_time(service: Process) -> None:
    with ExitStack() as stack:
        slow = [stack.enter_context(connect(service)) for _ in range(100)]
        for connection in slow:
            connection.sendall(HEAD + b"{")
        assert min(answer_s(service) for _ in range(5)) < 10
    until(lambda: open_files(service) < 50, lambda: "closed connections")


@pytest.mark.faults
def test_a_long_upload_that_gets_on_is_accepted_although_it_takes_longer(service: Process) -> None:
    pieces = [b" " * 5_000 for _ in range(40)]  # 100,000 bytes a second, ten times the required speed
    body = b"".join(pieces) + TRANSLATION
    with connect(service) as steady:
        steady.sendall(
            HEAD.replace(b"100000", b"%d" % len(body)).replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
        )
        answer = drip(steady, [*pieces, TRANSLATION, b""], PAUSE_S)
    assert answer.startswith(b"HTTP/1.1 200 OK") and b"GOOD MORNING" in answer


@pytest.mark.faults
def test_a_kept_connection_serves_request_after_request_however_old_it_is(service: Process) -> None:
    host, port = service.address.removeprefix("http://").split(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=60)
    with closing(connection):
        for _ in range(5):  # together they take longer than a request may
            connection.request("POST", "/translate", TRANSLATION, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            assert answer.status == 200 and answer.read()
            connection.auto_open = 0
            time.sleep(0.4)


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="only Linux ends such connections")
@pytest.mark.faults
def test_a_client_that_reads_nothing_of_a_long_answer_loses_its_connection(service: Process) -> None:
    paragraphs = "\n\n".join(f"{number} " + "word " * 200 for number in range(9_000))
    with service.new_client() as client:
        response = client.post(
            "/documents", files={"file": ("a.txt", paragraphs)}, data={"source": "en", "target": "de"}
        )
        path = f"/documents/{response.json()['id']}"
        try:
            before = open_sockets(service)
            with connect(service, receive_bytes=4096) as reader:
                reader.sendall(f"GET {path}/result?partial=true HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
                until(lambda: open_sockets(service) > before, lambda: "a connection")
                assert answer_s(service) < 10
                until(lambda: open_sockets(service) <= before, lambda: "an end of the connection")
                assert len(read_all(reader)) < len(paragraphs)
        finally:
            client.delete(path)


@pytest.mark.faults
def test_a_stream_is_finished_although_its_client_reads_no_more_than_a_byte_of_it() -> None:
    long = [f"Sentence {number} {'x' * 150}." for number in range(100)]  # 170 steps of 10 ms
    body = json.dumps({"text": " ".join(["One.", *long]), "source": "en", "target": "de"}).encode()
    head = HEAD.replace(b"100000", b"%d\r\nAccept: text/event-stream\r\nConnection: close" % len(body))
    with running(FAKE_STEP_S="0.01", VERSO_CLIENT_TIMEOUT_S="60") as service, service.new_client() as client:
        service.wait_until_ready()
        with connect(service, receive_bytes=4096) as reader:
            reader.sendall(head + body)
            assert reader.recv(1) == b"H"
            assert "verso_running_sentences 0.0" not in client.get("/metrics").text, "only the first one is finished"
            until(lambda: "verso_running_sentences 0.0" in client.get("/metrics").text, lambda: "idle engine")
            assert "verso_queue_sentences 0.0" in client.get("/metrics").text
            rest = read_all(reader)
    assert rest.count(b"event: sentence") == 1 + len(long)
    assert b"event: done" in rest
