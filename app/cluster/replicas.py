"""The replicas of an engine, as an ingress calls them: which of them gets a call, and over which connection."""

from __future__ import annotations

import asyncio
import random
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Any

from app.cluster.calls import Address, Description, RemoteModel, ReplicaLost
from app.cluster.connection import Connection
from app.errors import NotReady


class _Replica:
    """A replica that takes calls.

    Args:
        address: Where.
    """

    def __init__(self, address: Address) -> None:
        self._address = address
        self._connections: list[Connection] = []  # without a call
        self._is_used = True
        self.num_calls = 0

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """A connection for one call, kept for the next one if the call ends properly.

        Raises:
            NotReady: The replica takes no calls any more.
        """
        self.num_calls += 1
        try:
            connection = self._reusable() or await Connection.open(self._address)
            try:
                yield connection
            finally:
                if self._is_used and connection.is_reusable:
                    self._connections.append(connection)
                else:
                    connection.close()
        finally:
            self.num_calls -= 1

    def leave(self) -> None:
        """Close its connections, each after its call."""
        self._is_used = False
        while self._connections:
            self._connections.pop().close()

    def _reusable(self) -> Connection | None:
        while self._connections:
            connection = self._connections.pop()
            if connection.is_reusable:
                return connection
            connection.close()
        return None


class Engine(ABC):
    """The replicas of one engine. Each call goes to the one that has the fewest calls of this process.

    Args:
        draw: Returns a random number for each replica; among those with the fewest calls, the smallest wins.
    """

    def __init__(self, draw: Callable[[], float] = random.random) -> None:
        self._draw = draw
        self._replicas: dict[Address, _Replica] = {}
        self._describing = asyncio.Lock()

    @abstractmethod
    async def discover(self) -> Sequence[Description]:
        """The replicas that take calls.

        Raises:
            NotReady: They are not known.
        """

    @abstractmethod
    async def metrics(self) -> Mapping[str, bytes]:
        """The metrics of all replicas, by their names."""

    async def describe(self) -> Sequence[RemoteModel]:
        """Find the replicas, and their models. During an update, replicas may have different ones.

        Raises:
            NotReady: No replica takes calls.
        """
        descriptions = await self.discover()
        present = dict.fromkeys(description.address for description in descriptions)
        for address in [address for address in self._replicas if address not in present]:
            self._replicas.pop(address).leave()
        for address in present:
            if address not in self._replicas:
                self._replicas[address] = _Replica(address)
        if not descriptions:
            raise NotReady(5.0, "failed")
        return descriptions[0].models

    async def call(self, method: str, *arguments: Any) -> Any:
        """Call a method of a replica; the call is cancelled with the awaiting task.

        Raises:
            ReplicaLost: The replica has ended.
            NotReady: The replica, or all of them, take no calls.
            Exception: The method raised this error of the service or the model.
        """
        async with self._connection() as connection:
            return await connection.call(method, arguments)

    @asynccontextmanager
    async def stream(self, method: str, *arguments: Any) -> AsyncIterator[AsyncIterator[Any]]:
        """As :meth:`call`, for a method that yields: its elements."""
        async with self._connection() as connection, aclosing(connection.stream(method, arguments)) as elements:
            yield elements

    def close(self) -> None:
        """Close the connections, each after its call."""
        while self._replicas:
            self._replicas.popitem()[1].leave()

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[Connection]:
        """A connection to a replica. One that is lost or refuses is not used again until it is found again."""
        async with self._describing:  # only one of the calls that wait for a replica looks for them
            if not self._replicas:
                await self.describe()
        address, replica = min(self._replicas.items(), key=lambda item: (item[1].num_calls, self._draw()))
        try:
            async with replica.connection() as connection:
                yield connection
        except (ReplicaLost, NotReady):
            if self._replicas.get(address) is replica:
                self._replicas.pop(address).leave()
            raise
