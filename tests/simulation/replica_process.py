"""A process that is an engine replica: an ingress calls it over connections."""

from __future__ import annotations

import asyncio
from functools import cache
from typing import TYPE_CHECKING, Any

from app.cluster.calls import Description
from app.cluster.engine import EngineReplica
from app.errors import NotReady
from tests.app.fakes import FakeBundles, FakeTranslator, manifest_of
from tests.simulation.cluster_scenario import MODELS, ClusterScenario
from tests.simulation.kernel import Kernel
from tests.simulation.ledger import EngineLedger, require
from tests.simulation.network import Transport
from tests.simulation.process import LOST_S, LOST_TURNS, Attempt, Process, settings_of
from tests.simulation.scenario import What
from tests.simulation.stand_in import StandIn

if TYPE_CHECKING:
    from tests.simulation.cluster_world import ClusterWorld

LOAD_S = 0.2
"""Seconds that loading the models takes."""

HEALTH_S = 2.0
"""Interval at which Ray checks its health."""

DOWN_S = 0.5
"""Seconds until Ray has replaced a replica that is not healthy."""


class SlowBundles(FakeBundles):
    """Bundles that take time to load.

    Args:
        kernel: Lets time pass.
        models: What is loaded.
    """

    def __init__(self, kernel: Kernel, models: list[StandIn]) -> None:
        super().__init__(*models)
        self._kernel = kernel

    def load_configured(self) -> list[FakeTranslator]:
        """See :class:`app.models.bundles.BundleSource`."""
        self._kernel.sleep(LOAD_S)
        return super().load_configured()


class ReplicaProcess(Process):
    """One life of an engine replica.

    Args:
        world: The world.
        place: The index of the replica.
    """

    world: ClusterWorld

    def __init__(self, world: ClusterWorld, place: int) -> None:
        super().__init__(world)
        scenario = world.scenario
        assert isinstance(scenario, ClusterScenario)
        self.place = place
        self.down_s = DOWN_S
        self.loop.network = world.network
        models = _models_of(place)
        for model in models:
            model.machine = self.machine
        kernel = world.kernel
        bundles = SlowBundles(kernel, models)
        self._replica = EngineReplica(settings_of(scenario, scenario.deadline_s), bundles, kernel.clock, self.threads)
        service = self._replica._service
        self.metrics = self._replica._metrics
        self.engine = service._engine
        self.shared = service._bridge._shared
        self.ledger = EngineLedger(self.engine, self.machine, world.trace)
        self.ledger.failed = world.failed
        self.ledger.watch_shared(self.shared)
        self._calls: dict[asyncio.Task[Any], Transport] = {}
        self._watch_calls()

    @property
    def num_requests(self) -> int:
        """See :class:`tests.simulation.process.Process`."""
        return len(self._calls)

    @property
    def takes_calls(self) -> bool:
        """Whether it takes calls."""
        return self._replica._address is not None and self._replica._service.state == "ready"

    def describe(self) -> Description | None:
        """What it says to Ray."""
        return self._replica.describe()

    def check(self) -> None:
        """See :class:`tests.simulation.process.Process`."""
        super().check()
        kernel = self.world.kernel
        if kernel.num_switches % LOST_TURNS == 0:
            for transport in self._calls.values():
                closed_at = transport.closed_at
                require(closed_at is None or kernel.now <= closed_at + LOST_S, "a call goes on for nobody", closed_at)

    def happen(self, what: What) -> None:
        """See :class:`tests.simulation.process.Process`."""
        raise AssertionError("it has no events of its own")

    def _watch_calls(self) -> None:
        server = self._replica._server
        answer = server._answer

        async def watched_answer(writer: asyncio.StreamWriter, *args: Any) -> None:
            task = asyncio.current_task()
            assert task is not None
            assert isinstance(writer.transport, Transport)
            self._calls[task] = writer.transport
            try:
                await answer(writer, *args)
            finally:
                del self._calls[task]

        vars(server)["_answer"] = watched_answer

    def close(self) -> None:
        """End its connections."""
        self.world.network.cut(self.loop)

    async def _live(self) -> None:
        await self._replica.start()
        while not self.stopping.is_set():
            try:
                async with asyncio.timeout(HEALTH_S):
                    await self.stopping.wait()
            except TimeoutError:
                try:
                    self._replica.check_health()
                except NotReady:
                    self.world.replace(self)
                    return
        has_given_up = self.engine.has_given_up
        await self._replica.stop()
        server, ends_at = self._replica._server, self.loop.time() + LOST_S
        while self.loop.time() < ends_at and (server._connections or server._calls or len(asyncio.all_tasks()) > 1):
            await asyncio.sleep(0.01)
        require(not server._calls, "calls stay", len(server._calls))
        require(not server._connections, "connections stay", len(server._connections))
        require(len(asyncio.all_tasks()) == 1, "tasks stay", *asyncio.all_tasks())
        self.world.ended(self, has_given_up)

    async def _answer(self, attempt: Attempt) -> str:
        raise AssertionError("clients do not reach it")


@cache
def _models_of(place: int) -> list[StandIn]:
    """The models of a replica, which its lives share."""
    return [StandIn(name[0], manifest_of(name, f"{source}-de")) for source, name in MODELS.items()]
