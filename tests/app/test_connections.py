"""What is written to a connection, without a network; tests/faults has the rest."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from app.commands.connections import JoinedWrites

pytestmark = pytest.mark.anyio


class Recorder(asyncio.Transport):
    """Keeps what is sent."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[bytes] = []

    def write(self, data: Any) -> None:
        self.sent.append(bytes(data))

    def close(self) -> None:
        self.sent.append(b"closed")

    def is_closing(self) -> bool:
        return b"closed" in self.sent


async def test_head_and_body_are_sent_in_one_piece() -> None:
    recorder = Recorder()
    transport = JoinedWrites(recorder, asyncio.get_running_loop())
    transport.write(b"head ")
    transport.write(b"body")
    assert recorder.sent == []
    await asyncio.sleep(0)
    assert recorder.sent == [b"head body"]
    transport.write(b"next")
    await asyncio.sleep(0)
    assert recorder.sent == [b"head body", b"next"]


async def test_what_was_written_is_sent_before_the_connection_closes() -> None:
    recorder = Recorder()
    transport = JoinedWrites(recorder, asyncio.get_running_loop())
    transport.write(b"head")
    transport.close()
    assert transport.is_closing()
    await asyncio.sleep(0)
    assert recorder.sent == [b"head", b"closed"]
