"""The translation service: the life cycle of models and engine, and the processing of requests."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

from app.engine.bridge import EngineBridge
from app.engine.capacity import BudgetFinder
from app.engine.coalescing import SharedDecoding
from app.engine.engine import STEP_TIMEOUT_S, Dropped, Engine
from app.engine.joining import Budget
from app.engine.scheduler import Admission, Scheduler
from app.engine.translation_cache import TranslationCache
from app.models.bundles import BundleSource
from app.models.in_flight import RunningRequests
from app.models.registry import LoadedModel, Registry
from app.models.store import ModelStore
from app.serving.backend import TranslationBackend
from app.serving.detection import LanguageDetector
from app.serving.model_choice import ModelChoice, ModelChooser, Remembered, Unchanged
from app.serving.prepared_texts import PreparedTexts
from app.serving.request import TranslationRequest
from app.serving.text_job import AttentionResult, TextResult, Times
from app.serving.text_translation import Deliver, TextTranslation
from app.settings import Settings
from app.telemetry.metrics import Metrics
from app.threads import SYSTEM, Threads
from model.network.heads import AttentionHead
from model.process.memory import give_back_freed_memory
from model.process.threads import usable_threads
from model.translation.options import TranslationOptions

if TYPE_CHECKING:
    from model.translator import Translator

logger = logging.getLogger("app.service")

_T = TypeVar("_T")

WARM_UP_WIDTHS = (1, TranslationOptions().beam_size)
"""Widths of the beams that are decoded before requests are accepted."""

_STOP_TIMEOUT_S = 10.0

_TIDY_S = 30.0
"""Interval at which freed memory is returned to the operating system, in seconds."""

_WATCH_S = 1.0
"""Interval at which the engine's thread is checked, in seconds."""


class TranslationService(TranslationBackend[LoadedModel]):
    """The service behind the routes. Its methods belong to the event loop.

    Args:
        settings: Limits, deadline and budget.
        metrics: The metrics to update.
        bundles: Loads translators.
        clock: A monotonic clock, in seconds.
        detector: Detects languages; with lingua by default.
        threads: Where threads and locks come from.
    """

    def __init__(
        self,
        settings: Settings,
        metrics: Metrics,
        bundles: BundleSource,
        clock: Callable[[], float] = time.monotonic,
        detector: LanguageDetector | None = None,
        threads: Threads = SYSTEM,
    ) -> None:
        super().__init__(settings, metrics, threads.pool(2, "verso-prepare"), clock)
        initial_budget = Budget(max_tokens=0, max_rows=0)
        self._engine = Engine(
            Scheduler(initial_budget, settings.queue_sentences, clock),
            metrics,
            clock,
            # A step that takes longer than a request may take cannot lead to an answer.
            settings.step_timeout_s or max(STEP_TIMEOUT_S, settings.deadline_s),
            threads,
        )
        cache = TranslationCache(settings.cache_bytes)
        shared = SharedDecoding(self._engine, cache, settings.coalesce == "on", metrics, clock, threads)
        self._bridge = EngineBridge(self._engine, shared)
        prepared = PreparedTexts(is_on=settings.cache_bytes > 0, threads=threads)
        self._texts = TextTranslation(self._bridge, self._pool, prepared, settings.queue_sentences, clock)
        self._registry = Registry(settings.pivot_language)
        widths = [width for width in WARM_UP_WIDTHS if width <= settings.max_beam_size]
        budgets = BudgetFinder(
            settings.max_batch_rows,
            settings.max_batch_tokens,
            settings.max_beam_size,
            reserved_bytes=settings.model_memory or 0,
        )
        self._store = ModelStore(
            bundles,
            self._registry,
            self._bridge,
            budgets,
            widths,
            self._models_changed,
            metrics,
            settings.model_memory,
            clock,
            threads,
        )
        # A separate thread: lingua loads for up to a second, and other requests need the threads of the pool.
        self._detection_pool = threads.pool(1, "verso-detect")
        metrics.watch_gpus(lambda: self._translators)
        self._chooser = ModelChooser(
            self._registry,
            detector or LanguageDetector(),
            self._detect_off_loop,
            remembers=settings.cache_bytes > 0,
        )
        self._tasks: set[asyncio.Task[object]] = set()  # tasks that continue even if no caller waits for them
        self._housekeeping: list[asyncio.Task[None]] = []  # end with the service
        self._requests = RunningRequests()
        self._gave_up = asyncio.Event()
        self.failure: Exception | None = None
        """Why the models could not be loaded, in state ``failed``; None if the engine has given up."""

    async def start(self) -> None:
        """Start loading the models; returns immediately."""
        self._engine.start()
        self._keep(self._load_configured())
        self._housekeeping = [asyncio.create_task(self._tidy()), asyncio.create_task(self._watch())]

    async def load_model(self, file: str, sha256: str | None) -> LoadedModel:
        """Load another bundle; loading continues even if the caller is cancelled.

        Args:
            file: Its path, relative to a folder of the configured bundles, or ``auto``.
            sha256: The digest it must have, or None.

        Raises:
            NotReady: The configured models are still loading, or the service is stopping.
            ServiceError: See :meth:`app.models.store.ModelStore.load`.
        """
        self._require("ready", "empty")
        try:
            return await self._finish_anyway(self._store.load(file, sha256))
        except Dropped:
            raise self.not_ready() from None

    async def unload_model(self, name: str) -> float:
        """Unload a model; requests that use it may finish within the drain timeout.

        Args:
            name: Its name.

        Returns:
            The duration in seconds.

        Raises:
            NotReady: The configured models are still loading, or the service is stopping.
            UnknownModel: No model with this name is loaded.
        """
        self._require("ready", "empty")
        try:
            return await self._finish_anyway(self._store.unload(name, self._settings.drain_timeout_s))
        except Dropped:
            raise self.not_ready() from None

    async def engine_given_up(self) -> None:
        """Wait until the engine has given up: only a new process can translate."""
        await self._gave_up.wait()

    async def drain(self, timeout_s: float) -> bool:
        """Refuse new requests and let running requests finish.

        Args:
            timeout_s: Maximum time; requests that still run are then cancelled.

        Returns:
            Whether all requests finished in time.
        """
        if self._state in ("loading", "ready", "empty"):
            self._change_state("draining")
        return await self._requests.finish(timeout_s, self.not_ready())

    async def stop(self) -> None:
        """Stop the engine's thread; requests that are still waiting are refused."""
        if self._state != "failed":
            self._change_state("stopped")
        for task in self._housekeeping:
            task.cancel()
        self._store.close()
        self._loaded.set()  # loading cannot be interrupted; its thread ends with the process
        await asyncio.get_running_loop().run_in_executor(None, self._engine.stop, _STOP_TIMEOUT_S)
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._detection_pool.shutdown(wait=False, cancel_futures=True)

    async def _detect_off_loop(self, run: Callable[[], _T]) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self._detection_pool, run)

    async def _load_configured(self) -> None:
        try:
            await self._store.load_configured(self._num_threads())
        except Dropped:
            logger.debug("stopped while the models were loading")
            if self._state == "loading":  # the engine has given up
                self._fail()
        except Exception as error:
            logger.debug("the models could not be loaded", exc_info=True)
            self.failure = error
            if self._state != "stopped":
                self._change_state("failed")
        else:
            if self._state == "loading":
                self._change_state("ready")
        self._loaded.set()

    async def _tidy(self) -> None:
        """Free memory at intervals and return it to the operating system; under load it would accumulate."""
        while True:
            await asyncio.sleep(_TIDY_S)
            with _errors_logged():
                await self._on_pool(functools.partial(_free, self._translators))

    @property
    def _translators(self) -> list[Translator]:
        """The models that are in memory."""
        return [model.loaded for model in self._registry if model.loaded is not None]

    async def _watch(self) -> None:
        """Check the engine's thread, once the models are loaded: measuring them may take long."""
        await self._loaded.wait()
        while self._state in ("ready", "empty", "draining"):
            await asyncio.sleep(_WATCH_S)
            with _errors_logged():
                self._engine.watch()
            if self._engine.has_given_up:
                self._fail()

    def _fail(self) -> None:
        """The engine has given up: /readyz and /livez report it, and the process must end."""
        if self._state in ("loading", "ready", "empty"):
            self._change_state("failed")
            self._gave_up.set()

    def _num_threads(self) -> int:
        """The configured number of threads, limited to what the process may use."""
        configured, used = self._settings.threads, usable_threads(self._settings.threads)
        if configured is not None and configured > used:
            logger.warning(
                "fewer threads than configured, because of CPU affinity or the cgroup quota",
                extra={"fields": {"configured": configured, "used": used}},
            )
        return used

    async def _finish_anyway(self, work: Coroutine[object, None, _T]) -> _T:
        """Await work that continues even if the waiting task is cancelled."""
        return await asyncio.shield(self._keep(work))

    def _keep(self, work: Coroutine[object, None, _T]) -> asyncio.Task[_T]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _models_changed(self) -> None:
        self._metrics.models_changed(len(self._registry))
        in_memory = [model.num_bytes for model in self._registry if model.in_memory]
        self._metrics.memory_changed(len(in_memory), sum(in_memory))
        if self._state in ("ready", "empty"):
            self._change_state("ready" if len(self._registry) else "empty")

    async def _translate_chosen(
        self,
        request: TranslationRequest,
        choices: Sequence[ModelChoice[LoadedModel] | Unchanged | Remembered | Exception],
        timeout: asyncio.Timeout,
        deliver: Deliver | None,
    ) -> tuple[list[TextResult], Times]:
        return await self._texts.translate(request, choices, timeout, deliver)

    async def _attention(
        self,
        request: TranslationRequest,
        choice: ModelChoice[LoadedModel],
        timeout: asyncio.Timeout,
        target_text: str | None,
        steps: AttentionHead | None,
    ) -> AttentionResult:
        (text,) = request.texts
        translator = choice.model.translator
        # Before the call, because nothing decodes during a call.
        await self._on_pool(translator.prepare_attention)
        attention = await self._bridge.call(
            lambda: translator.attention(text, request.options, choice.source, choice.target, target_text, steps),
            timeout,
            Admission.REFUSE,
        )
        return AttentionResult(attention, choice.model.name, choice.detected)

    async def _choose(
        self, request: TranslationRequest, timeout: asyncio.Timeout, models_in_use: contextlib.ExitStack
    ) -> list[ModelChoice[LoadedModel] | Unchanged | Exception]:
        choices = await super()._choose(request, timeout, models_in_use)
        self._require("ready")  # the state may have changed during detection
        # In their order, not a set: the one that is used last is evicted last.
        models = dict.fromkeys(
            leg.model for choice in choices if isinstance(choice, ModelChoice) for leg in choice.legs
        )
        for model in models:
            models_in_use.enter_context(model.requests.entered())
        await self._store.use(models, timeout, models_in_use)
        return choices

    @contextlib.contextmanager
    def _admitted(self) -> Iterator[contextlib.ExitStack]:
        try:
            with self._requests.entered(), contextlib.ExitStack() as models_in_use:
                self._require("ready")
                yield models_in_use
        except Dropped:
            self._fail()
            raise self.not_ready() from None


def _free(translators: Iterable[Translator]) -> None:
    for translator in translators:
        translator.tidy()
    give_back_freed_memory()


@contextlib.contextmanager
def _errors_logged() -> Iterator[None]:
    """Log an error instead of ending the housekeeping."""
    try:
        yield
    except Exception:
        logger.exception("housekeeping failed; will retry")
