"""Calls from an ingress to engine replicas: over a connection, and to which of the replicas."""

from __future__ import annotations

import asyncio
import logging
import pickle
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from typing import Any

import pytest

from app.cluster.calls import Address, Description, ReplicaLost
from app.cluster.connection import CallServer, Connection
from app.cluster.replicas import Engine
from app.errors import NotReady, QueueFull
from model.errors import DecodingError


class Replica:
    """A replica whose calls can be held.

    Args:
        name: The result of its calls.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.num_held = 0
        self.was_cancelled = asyncio.Event()
        self.release = asyncio.Event()
        self.refuses = False
        self.server = CallServer({"tell": self.tell, "hold": self.hold, "count": self.count, "fail": self.fail})
        self.address: Address

    async def tell(self) -> str:
        if self.refuses:
            raise NotReady(1.0, "draining")
        return self.name

    async def hold(self) -> str:
        self.num_held += 1
        try:
            await self.release.wait()
        except asyncio.CancelledError:
            self.was_cancelled.set()
            raise
        return self.name

    async def count(self, end: int) -> AsyncGenerator[int, None]:
        for number in range(end):
            yield number
            if number == 100:
                await self.hold()

    async def fail(self, error: Exception) -> None:
        raise error


@asynccontextmanager
async def running(name: str = "a") -> AsyncIterator[Replica]:
    replica = Replica(name)
    replica.address = await replica.server.start("127.0.0.1")
    try:
        yield replica
    finally:
        replica.release.set()
        await replica.server.stop()


class Engines(Engine):
    """An engine of replicas of this process."""

    def __init__(self, *replicas: Replica) -> None:
        super().__init__()
        self.present = list(replicas)
        self.num_searches = 0

    async def discover(self) -> Sequence[Description]:
        self.num_searches += 1
        await asyncio.sleep(0)
        return [Description(replica.address, []) for replica in self.present]

    async def metrics(self) -> Mapping[str, bytes]:
        return {}


async def test_calls_follow_each_other_on_one_connection() -> None:
    async with running() as replica:
        with closing(await Connection.open(replica.address)) as connection:
            for end in (0, 3):
                assert await connection.call("tell", ()) == "a"
                assert [number async for number in connection.stream("count", (end,))] == list(range(end))
                assert connection.is_reusable


@pytest.mark.parametrize(
    "error", [QueueFull(3.0), DecodingError("it failed"), DecodingError("of a long text " * 100_000)]
)
async def test_errors_of_service_and_model_are_raised_by_the_call(error: Exception) -> None:
    async with running() as replica:
        with closing(await Connection.open(replica.address)) as connection:
            with pytest.raises(type(error)) as caught:
                await connection.call("fail", (error,))
            assert str(caught.value) == str(error)
            assert await connection.call("tell", ()) == "a"


async def test_an_unexpected_error_is_logged_and_raised(caplog: pytest.LogCaptureFixture) -> None:
    async with running() as replica:
        with closing(await Connection.open(replica.address)) as connection, caplog.at_level(logging.ERROR):
            with pytest.raises(RuntimeError, match="ZeroDivisionError"):
                await connection.call("fail", (ZeroDivisionError(),))
            assert [record.message for record in caplog.records] == ["a call failed"]
            assert await connection.call("tell", ()) == "a"


class LostWriter(asyncio.StreamWriter):
    """A connection whose other side has not answered for too long."""

    def __init__(self) -> None:
        self.is_closed = False

    def __del__(self, *_: object) -> None:
        pass

    def write(self, data: object) -> None:
        pass

    async def drain(self) -> None:
        raise TimeoutError(110, "Connection timed out")

    def close(self) -> None:
        self.is_closed = True


@pytest.mark.parametrize(("method", "errors"), [("tell", []), ("fail", ["a call failed"])])
async def test_an_answer_to_an_ingress_that_has_vanished_is_dropped(
    method: str, errors: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    writer = LostWriter()
    await Replica("a").server._answer(writer, method, (ValueError("of a bug"),) if method == "fail" else ())
    assert writer.is_closed == (method == "tell")
    assert [record.message for record in caplog.records if record.levelno >= logging.ERROR] == errors


async def test_a_cancelled_call_is_cancelled_in_the_replica() -> None:
    async with running() as replica:
        engine = Engines(replica)
        call = asyncio.create_task(engine.call("hold"))
        while not replica.num_held:
            await asyncio.sleep(0)
        call.cancel()
        await asyncio.wait_for(replica.was_cancelled.wait(), 5)
        assert await engine.call("tell") == "a"
        engine.close()


async def test_a_closed_stream_is_cancelled_in_the_replica() -> None:
    async with running() as replica:
        engine = Engines(replica)
        async with engine.stream("count", 1000) as numbers:
            assert [await anext(numbers) for _ in range(101)] == list(range(101))
            while not replica.num_held:
                await asyncio.sleep(0)
        await asyncio.wait_for(replica.was_cancelled.wait(), 5)
        assert await engine.call("tell") == "a"
        engine.close()


async def test_a_replica_that_ends_loses_its_calls() -> None:
    async with running() as replica:
        connection = await Connection.open(replica.address)
        call = asyncio.create_task(connection.call("hold", ()))
        while not replica.num_held:
            await asyncio.sleep(0)
        for writer in replica.server._connections:
            writer.transport.abort()
        with pytest.raises(ReplicaLost):
            await call
        assert not connection.is_reusable
        connection.close()


async def test_nothing_is_unpickled_without_the_secret(caplog: pytest.LogCaptureFixture) -> None:
    class Trap:
        def __reduce__(self) -> tuple[Any, ...]:
            return logging.getLogger("trap").error, ("unpickled",)

    async with running() as replica:
        guessed = replace(replica.address, secret=b"x" * len(replica.address.secret))
        connection = await Connection.open(guessed)
        with pytest.raises(ReplicaLost):
            await connection.call("fail", (Trap(),))
        connection.close()
        assert [record.message for record in caplog.records] == ["a connection without the secret was refused"]
        pickle.loads(pickle.dumps(Trap()))
        assert [record.message for record in caplog.records][1:] == ["unpickled"]


async def test_a_secret_is_not_printed() -> None:
    async with running() as replica:
        assert "secret" not in repr(Description(replica.address, []))


async def test_a_call_goes_to_the_replica_with_the_fewest_calls() -> None:
    async with running("a") as first, running("b") as second:
        engine = Engines(first, second)
        calls = [asyncio.create_task(engine.call("hold")) for _ in range(6)]
        while first.num_held + second.num_held < 6:
            await asyncio.sleep(0)
        assert (first.num_held, second.num_held) == (3, 3)
        assert engine.num_searches == 1
        first.release.set()
        second.release.set()
        assert sorted(await asyncio.gather(*calls)) == ["a"] * 3 + ["b"] * 3
        engine.close()


async def test_a_replica_that_refuses_gets_no_calls_until_it_is_found_again() -> None:
    async with running("a") as first, running("b") as second:
        engine = Engines(first, second)
        first.refuses = True
        refused = 0
        for _ in range(20):
            try:
                assert await engine.call("tell") == "b"
            except NotReady:
                refused += 1
        assert refused <= 1
        first.refuses = False
        await engine.describe()
        assert {await engine.call("tell") for _ in range(100)} == {"a", "b"}
        engine.close()


async def test_calls_of_a_replica_that_left_finish() -> None:
    async with running("a") as first, running("b") as second:
        engine = Engines(first)
        call = asyncio.create_task(engine.call("hold"))
        while not first.num_held:
            await asyncio.sleep(0)
        engine.present = [second]
        await engine.describe()
        assert await engine.call("tell") == "b"
        first.release.set()
        assert await call == "a"
        engine.close()


async def test_calls_look_for_replicas_when_none_is_left() -> None:
    async with running("b") as second:
        async with running("a") as first:
            engine = Engines(first)
            assert await engine.call("tell") == "a"
        engine.present = []
        with pytest.raises((NotReady, ReplicaLost)):  # the closed connection may not have been noticed yet
            await engine.call("tell")
        with pytest.raises(NotReady):
            await engine.call("tell")
        engine.present = [second]
        assert await engine.call("tell") == "b"
        engine.close()
