"""Clients that do not behave: raw sockets to a service."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterable

from tests.app.process import REQUEST_HEAD, Process

PATIENCE_S = 60.0

TRANSLATION = json.dumps({"text": "good morning", "source": "en", "target": "de"}).encode()

POST = REQUEST_HEAD % len(TRANSLATION) + TRANSLATION
"""A whole request."""


def connect(process: Process, receive_bytes: int | None = None) -> socket.socket:
    """A connection to a service, with a small buffer for what is received if a size is given."""
    host, port = process.address.removeprefix("http://").split(":")
    connection = socket.socket()
    if receive_bytes is not None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    connection.settimeout(PATIENCE_S)
    connection.connect((host, int(port)))
    return connection


def drip(connection: socket.socket, pieces: Iterable[bytes], pause_s: float) -> bytes:
    """Send piece after piece until there is an answer or the connection ends; returns all that was received."""
    for piece in pieces:
        connection.settimeout(pause_s)
        try:
            connection.sendall(piece)
            answered = connection.recv(65536)
        except TimeoutError:
            continue
        except ConnectionError:
            return b""
        connection.settimeout(PATIENCE_S)
        return answered + read_all(connection)
    raise AssertionError("everything was sent, and nothing came back")


def read_all(connection: socket.socket) -> bytes:
    """What is received until the other side closes the connection, or resets it."""
    received = bytearray()
    try:
        while piece := connection.recv(65536):
            received += piece
    except ConnectionError:
        pass
    return bytes(received)


def is_open(connection: socket.socket) -> bool:
    """Whether the other side has left a connection open on which it sends nothing."""
    connection.setblocking(False)
    try:
        return connection.recv(1) != b""
    except BlockingIOError:
        return True
    except ConnectionError:
        return False
    finally:
        connection.settimeout(PATIENCE_S)


def answer_s(process: Process) -> float:
    """How long a translation takes, on a new connection."""
    began = time.perf_counter()
    with process.new_client() as client:
        answer = client.post("/translate", content=TRANSLATION, headers={"Content-Type": "application/json"})
    assert answer.status_code == 200
    return time.perf_counter() - began
