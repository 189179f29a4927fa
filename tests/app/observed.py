"""What the tests see of a service and its engine: counts, threads, waiting calls.

Private attributes are read here only, and only if no public interface shows the same.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from typing import Any

import pytest

from app.engine.engine import Dropped, Engine
from app.models.bundles import BundleSource
from app.serving.detection import LanguageDetector
from app.serving.service import TranslationService
from app.settings import Settings
from app.telemetry.metrics import Metrics


class ObservedService(TranslationService):
    """A service whose metrics and engine are visible.

    Args:
        settings: Its settings.
        bundles: Its bundles.
        detector: Its language detector; None for the real one.
    """

    def __init__(self, settings: Settings, bundles: BundleSource, detector: LanguageDetector | None = None) -> None:
        self.metrics = Metrics()
        super().__init__(settings, self.metrics, bundles, detector=detector)

    @property
    def engine(self) -> Engine:
        """The engine. Routes need only the service, so the service does not show it."""
        return self._engine

    @property
    def num_requests(self) -> int:
        """Requests that are being processed."""
        return len(self._requests)

    def sample(self, name: str, labels: dict[str, str] | None = None) -> float | None:
        """The value of a metric."""
        return self.metrics.registry.get_sample_value(name, labels or {})


def num_waiting_calls(engine: Engine) -> int:
    """Calls that wait for the engine's thread. No public interface counts them: no caller needs the number."""
    return len(engine._state.calls)


def before_the_drop(engine: Engine, monkeypatch: pytest.MonkeyPatch, run: Callable[[], None]) -> None:
    """Call a function after an engine has stopped, and before it drops the sentences that are left.

    Args:
        engine: The engine.
        monkeypatch: The test's.
        run: The function.
    """
    fail = engine._state.fail

    def run_and_fail(*arguments: Any) -> None:
        run()
        fail(*arguments)

    monkeypatch.setattr(engine._state, "fail", run_and_fail)


def withdrawn_keys(engine: Engine) -> set[int]:
    """The keys of cancelled sentences that a cohort may still contain."""
    return engine._state.withdrawn


def is_stopping(engine: Engine) -> bool:
    """Whether the engine refuses new work. A submission of no sentences changes nothing else."""
    try:
        engine.submit([], lambda index, outcome: None)
    except Dropped:
        return True
    return False


def service_threads(existing: Collection[threading.Thread] = ()) -> list[threading.Thread]:
    """Running threads of engines and services, without those known already."""
    return [item for item in threading.enumerate() if item.name.startswith("verso-") and item not in existing]
