"""An engine replica: the translation service of one process, called by ingresses instead of routes."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing

from app.cluster.calls import Refusal, RemoteModel, Streamed
from app.cluster.options import settings_of_engine
from app.cluster.scaling import SENTENCES
from app.errors import ServiceError
from app.models.bundles import BundleFiles, BundleSource
from app.serving.request import TranslationRequest
from app.serving.service import TranslationService
from app.serving.text_job import AttentionResult, TranslateResult
from app.telemetry.metrics import Metrics
from model.errors import ModelError
from model.network.heads import AttentionHead


class EngineReplica:
    """One process with the models of an engine. Its methods belong to the event loop.

    Args:
        variables: Its settings.
        num_cpus: Its CPUs.
        bundles: Loads the translators; by default from the files that the settings name.
    """

    def __init__(self, variables: Mapping[str, str], num_cpus: float, bundles: BundleSource | None = None) -> None:
        self.settings = settings_of_engine(variables, num_cpus)
        self._metrics = Metrics()
        self._service = TranslationService(self.settings, self._metrics, bundles or BundleFiles(self.settings))

    async def start(self) -> None:
        """Load the models.

        Raises:
            Exception: They cannot be loaded.
        """
        await self._service.start()
        await self._service.wait_loaded()
        if self._service.failure is not None:
            raise self._service.failure

    async def stop(self) -> None:
        """Stop. Ray has let the requests finish before, within its timeout."""
        await self._service.drain(0.0)
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

    def describe(self) -> list[RemoteModel]:
        """The loaded models."""
        return [RemoteModel(model.manifest, model.device, num_bytes=model.num_bytes) for model in self._service.models]

    def render_metrics(self) -> bytes:
        """The metrics of this process."""
        return self._metrics.render()

    async def translate(self, request: TranslationRequest) -> TranslateResult | Refusal:
        """See :meth:`app.serving.service.TranslationService.translate`."""
        try:
            return await self._service.translate(request)
        except (ServiceError, ModelError) as error:
            return Refusal(error)

    async def stream(self, request: TranslationRequest) -> AsyncGenerator[Streamed | Refusal, None]:
        """See :meth:`app.serving.service.TranslationService.stream`."""
        try:
            async with aclosing(self._service.stream(request)) as elements:
                async for element in elements:
                    yield element
        except (ServiceError, ModelError) as error:
            yield Refusal(error)

    async def attention(
        self, request: TranslationRequest, target_text: str | None, steps: AttentionHead | None
    ) -> AttentionResult | Refusal:
        """See :meth:`app.serving.service.TranslationService.attention`."""
        try:
            return await self._service.attention(request, target_text, steps)
        except (ServiceError, ModelError) as error:
            return Refusal(error)
