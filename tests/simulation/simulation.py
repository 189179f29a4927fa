"""Run scenarios, and find the fewest events with which one still fails."""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial

from model.process import allocator
from tests.simulation.app_process import AppProcess
from tests.simulation.app_scenario import AppScenario, draw_app
from tests.simulation.cluster_scenario import ClusterScenario, draw_cluster
from tests.simulation.cluster_world import ClusterWorld
from tests.simulation.disk import Disk
from tests.simulation.documents import check_folder
from tests.simulation.engine_process import EngineProcess
from tests.simulation.ledger import Trace
from tests.simulation.scenario import Jump, Scenario, draw_engine
from tests.simulation.world import World


@dataclass(frozen=True)
class Report:
    """The result of a scenario.

    Args:
        scenario: The scenario.
        trace: What has happened.
        error: What did not hold, or None.
    """

    scenario: Scenario
    trace: Trace
    error: Exception | None

    @property
    def summary(self) -> str:
        """What did not hold, without details."""
        return (
            "" if self.error is None else f"{type(self.error).__name__}: {self.error}".partition(":")[2].split(":")[0]
        )


def simulate(scenario: Scenario, *, keeps_lines: bool = False) -> Report:
    """Run a scenario, within :func:`quiet`."""
    trace = Trace(keeps_lines)
    try:
        if isinstance(scenario, AppScenario):
            _run_app(scenario, trace)
        elif isinstance(scenario, ClusterScenario):
            ClusterWorld(scenario, trace).run()
        else:
            World(scenario, trace, EngineProcess).run()
    except Exception as error:  # noqa: BLE001  (whatever does not hold)
        return Report(scenario, trace, error)
    return Report(scenario, trace, None)


def draw(seed: int) -> Scenario:
    """The scenario of a seed: every third is of the application, every ninth of a cluster, the rest of an engine."""
    if seed % 3 == 2:
        return draw_app(seed)
    return draw_cluster(seed) if seed % 9 == 4 else draw_engine(seed)


def _run_app(scenario: AppScenario, trace: Trace) -> None:
    with closing(Disk()) as disk:
        World(scenario, trace, partial(AppProcess, disk=disk)).run()
        check_folder(disk.folder / "documents", disk.num_documents)
        disk.check(keeps_quota=not any(isinstance(event.what, Jump) for event in scenario.events))


def shrink(scenario: Scenario, fails: Callable[[Scenario], bool], max_runs: int = 400) -> Scenario:
    """The scenario with as few events as still make it fail: parts are dropped, from halves down to single events.

    Args:
        scenario: A scenario that fails.
        fails: Whether a scenario fails in the same way.
        max_runs: Most scenarios that are tried.
    """
    size = max(1, len(scenario.events) // 2)
    num_runs = 0
    while True:
        begin = 0
        while begin < len(scenario.events) and num_runs < max_runs:
            without = replace(scenario, events=scenario.events[:begin] + scenario.events[begin + size :])
            num_runs += 1
            if fails(without):
                scenario = without
            else:
                begin += size
        if size == 1 or num_runs >= max_runs:
            return scenario
        size //= 2


@contextmanager
def quiet() -> Iterator[None]:
    """Without logs, as the service reports each fault, and without returning memory to the system.

    Garbage is collected at the end, as a seed must repeat what abandoned generators do; a hundred simulations leave
    40 MB. What is in memory before stays out of the collection: there are half a million objects.
    """
    level, trim = logging.root.manager.disable, allocator.trim
    logging.disable(logging.CRITICAL)
    allocator.trim = lambda: None  # it takes 10 ms
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.collect()
        gc.unfreeze()
        logging.disable(level)
        allocator.trim = trim
