"""An engine replica: the translation service of one process, called by ingresses instead of routes."""

from __future__ import annotations

import time
from collections.abc import Callable

from app.cluster.calls import Address, Description, RemoteModel
from app.cluster.connection import CallServer
from app.cluster.scaling import SENTENCES
from app.models.bundles import BundleFiles, BundleSource
from app.serving.service import TranslationService
from app.settings import Settings
from app.telemetry.metrics import Metrics
from app.threads import SYSTEM, Threads


class EngineReplica:
    """One process with the models of an engine. Its methods belong to the event loop.

    Args:
        settings: Its settings; see :func:`app.cluster.options.settings_of_engine`.
        bundles: Loads the translators; by default from the files that the settings name.
        clock: A monotonic clock, in seconds.
        threads: Where threads and locks come from.
    """

    def __init__(
        self,
        settings: Settings,
        bundles: BundleSource | None = None,
        clock: Callable[[], float] = time.monotonic,
        threads: Threads = SYSTEM,
    ) -> None:
        self.settings = settings
        self._metrics = Metrics()
        self._service = TranslationService(
            settings, self._metrics, bundles or BundleFiles(settings), clock, threads=threads
        )
        self._server = CallServer(
            {
                "translate": self._service.translate,
                "stream": self._service.stream,
                "attention": self._service.attention,
            }
        )
        self._address: Address | None = None

    async def start(self, host: str = "127.0.0.1") -> None:
        """Load the models, then take calls.

        Args:
            host: The address of this machine at which ingresses reach it.

        Raises:
            Exception: The models cannot be loaded.
        """
        await self._service.start()
        await self._service.wait_loaded()
        if self._service.failure is not None:
            raise self._service.failure
        self._address = await self._server.start(host)

    async def stop(self) -> None:
        """Refuse calls, let those that run finish within the drain timeout, and stop."""
        await self._service.drain(self.settings.drain_timeout_s)
        await self._server.stop()
        await self._service.stop()

    def check_health(self) -> None:
        """Called by Ray, which replaces a replica that is not healthy.

        Raises:
            NotReady: The engine has ended.
        """
        if self._service.state != "ready":
            raise self._service.not_ready()

    def record_autoscaling_stats(self) -> dict[str, float]:
        """Called by Ray: what :class:`app.cluster.scaling.ScaleOnSentences` needs."""
        return {SENTENCES: float(self._metrics.num_sentences)}

    def describe(self) -> Description | None:
        """Where it takes calls, and its models; None if it takes none."""
        if self._address is None or self._service.state != "ready":
            return None
        models = [
            RemoteModel(model.manifest, model.device, num_bytes=model.num_bytes) for model in self._service.models
        ]
        return Description(self._address, models)

    def render_metrics(self) -> bytes:
        """The metrics of this process."""
        return self._metrics.render()
