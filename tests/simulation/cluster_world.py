"""The world around an ingress: clients, engine replicas, the connections to them, and what Ray does for them."""

from __future__ import annotations

from functools import partial

from tests.simulation.cluster_scenario import AtReplica, ClusterScenario, NotFound, Reset, Silence
from tests.simulation.ingress_process import IngressProcess
from tests.simulation.ledger import Trace
from tests.simulation.network import Network
from tests.simulation.process import LOST_S, Attempt, Process
from tests.simulation.replica_process import ReplicaProcess
from tests.simulation.scenario import FaultDue, Restart, What
from tests.simulation.world import World


class ClusterWorld(World):
    """Plays the events of a scenario with replicas. Clients reach only the ingress.

    Args:
        scenario: The scenario.
        trace: Records what happens.
    """

    def __init__(self, scenario: ClusterScenario, trace: Trace) -> None:
        super().__init__(scenario, trace, lambda _: IngressProcess(self))
        self.network = Network(self.kernel, self.later, scenario.max_flying_bytes)
        self.failed: set[tuple[str, str]] = set()
        """Models and sources of the sentences that may have failed in any replica."""
        self.num_failing_searches = 0
        self._replicas: list[ReplicaProcess | None] = [None] * scenario.num_replicas
        self._lost_at: list[float] = []  # when calls of a replica may have been lost
        self._calm_since = 0.0
        self._has_silence = any(
            isinstance(event.what, AtReplica) and isinstance(event.what.what, Silence) for event in scenario.events
        )
        for place in range(scenario.num_replicas):
            self.later(0.0, partial(self._start_replica, place))

    @property
    def processes(self) -> list[Process]:
        """See :class:`tests.simulation.world.World`."""
        return [*super().processes, *self.running_replicas]

    @property
    def running_replicas(self) -> list[ReplicaProcess]:
        """The replicas that run, some of which may not take calls."""
        return [replica for replica in self._replicas if replica is not None]

    def replace(self, replica: ReplicaProcess) -> None:
        """Kill a replica that is not healthy; another one starts."""
        self.trace.note(self.kernel.now, "replaced", replica.place)
        self.kernel.between_turns(partial(self._bury, replica))

    def is_calm(self, since: float) -> bool:
        """Whether one replica at least took calls all the time, and neither a model nor a machine hung."""
        return self._calm_since < since

    def num_losses(self, since: float) -> int:
        """How often calls of a replica may have been lost."""
        return len(self._lost_at) if self._has_silence else sum(lost_at >= since - LOST_S for lost_at in self._lost_at)

    def _start_replica(self, place: int) -> None:
        if not self._is_closing:
            replica = self._replicas[place] = ReplicaProcess(self, place)
            replica.start()

    def _buried(self, process: Process, attempts: list[Attempt]) -> None:
        if isinstance(process, ReplicaProcess):
            self._lost_at.append(self.kernel.now)
            self._replicas[process.place] = None
            self.later(process.down_s, partial(self._start_replica, process.place))
            return
        super()._buried(process, attempts)
        if self._is_closing:
            for replica in self.running_replicas:
                self._stop_restored(replica)

    def _happen(self, what: What) -> None:
        if isinstance(what, NotFound):
            self.trace.note(self.kernel.now, type(what).__name__)
            self.num_failing_searches += 1
        elif isinstance(what, AtReplica):
            replica = self._replicas[what.place]
            if replica is not None and not self._is_closing:
                self.trace.note(self.kernel.now, f"replica {type(what.what).__name__}", what.place)
                self._happen_at(replica, what.what)
        else:
            super()._happen(what)

    def _happen_at(self, replica: ReplicaProcess, what: What) -> None:
        if isinstance(what, FaultDue):
            replica.machine.faults.append(what.fault())
        elif isinstance(what, Restart):
            replica.down_s = what.down_s
            if what.kills:
                self.kernel.between_turns(partial(self._bury, replica))
            else:
                self._lost_at.append(self.kernel.now)  # its connections close before it ends
                replica.stop()
        elif isinstance(what, Silence):
            self._lost_at.append(self.kernel.now)
            self.network.silence(replica.loop, what.seconds)
        elif isinstance(what, Reset) and (ends := self.network.of(replica.loop)):
            self._lost_at.append(self.kernel.now)
            self.network.reset(self.kernel.rng.choice(ends))

    def _check(self) -> None:
        super()._check()
        replicas = self.running_replicas
        hang = any(replica.machine.num_faults[kind] for replica in replicas for kind in ("hang", "slow"))
        is_silent = any(self.network.silent_s(replica.loop) > 0 for replica in replicas)
        if hang or is_silent or not any(replica.takes_calls for replica in replicas):
            self._calm_since = self.kernel.now
