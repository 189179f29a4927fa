"""The translation service: the life cycle of models and engine, and the processing of requests."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, TypeVar

from app.engine.bridge import EngineBridge
from app.engine.caller import UNKNOWN_CALLER, Caller
from app.engine.capacity import BudgetFinder
from app.engine.coalescing import SharedDecoding
from app.engine.engine import STEP_TIMEOUT_S, Dropped, Engine
from app.engine.scheduler import Admission, Budget, Scheduler
from app.engine.translation_cache import TranslationCache
from app.models.bundles import BundleSource
from app.models.in_flight import RunningRequests
from app.models.registry import LoadedModel, Registry
from app.models.store import ModelStore
from app.serving.detection import LanguageDetector
from app.serving.lifecycle import ServiceLifecycle, elements_of
from app.serving.model_choice import ModelChoice, ModelChooser, Unchanged
from app.serving.text_job import AttentionResult, TextResult, TranslateResult
from app.serving.text_stream import StreamedSentence, StreamedText, TextStream
from app.serving.text_translation import TextTranslation
from app.settings import Settings
from app.steady_pool import SteadyPool
from app.telemetry.metrics import Metrics
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
"""Interval at which the engine's thread is looked after, in seconds."""


class TranslationService(ServiceLifecycle[LoadedModel]):
    """The service behind the routes. Its methods belong to the event loop.

    Args:
        settings: Limits, deadline and budget.
        metrics: The metrics to update.
        bundles: Loads translators.
        clock: A monotonic clock, in seconds.
        detector: Detects languages; with lingua by default.
    """

    def __init__(
        self,
        settings: Settings,
        metrics: Metrics,
        bundles: BundleSource,
        clock: Callable[[], float] = time.monotonic,
        detector: LanguageDetector | None = None,
    ) -> None:
        super().__init__(settings, metrics, SteadyPool(max_workers=2, thread_name_prefix="verso-prepare"))
        self._clock = clock
        initial_budget = Budget(max_tokens=0, max_rows=0)
        self._engine = Engine(
            Scheduler(initial_budget, settings.queue_sentences, clock),
            metrics,
            clock,
            # A step that takes longer than a request may take leads to no answer.
            settings.step_timeout_s or max(STEP_TIMEOUT_S, settings.deadline_s),
        )
        cache = TranslationCache(settings.cache_bytes)
        shared = SharedDecoding(self._engine, cache, settings.coalesce == "on", metrics, clock)
        self._bridge = EngineBridge(self._engine, shared)
        self._texts = TextTranslation(self._bridge, self._pool, settings.queue_sentences, clock)
        self._registry = Registry()
        widths = [width for width in WARM_UP_WIDTHS if width <= settings.max_beam_size]
        budgets = BudgetFinder(settings.max_batch_rows, settings.max_batch_tokens, settings.max_beam_size)
        self._store = ModelStore(bundles, self._registry, self._bridge, budgets, widths, self._models_changed)
        # A thread of its own: while lingua loads, for up to a second, other requests need those of the pool.
        self._detection_pool = SteadyPool(max_workers=1, thread_name_prefix="verso-detect")
        metrics.watch_gpus(lambda: [model.translator for model in self._registry])
        self._chooser = ModelChooser(self._registry, detector or LanguageDetector(), self._detect_off_loop)
        self._tasks: set[asyncio.Task[object]] = set()  # tasks that continue even if no caller waits for them
        self._housekeeping: list[asyncio.Task[None]] = []  # they end with the service
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

    async def translate(
        self,
        texts: Sequence[str],
        *,
        source: str | None,
        target: str | None,
        options: TranslationOptions,
        caller: Caller = UNKNOWN_CALLER,
        waits: bool = False,
        within_s: float | None = None,
    ) -> TranslateResult:
        """Translate texts. When the awaiting task is cancelled, their sentences are withdrawn.

        Args:
            texts: The texts; they may be blank.
            source: Their language, or None.
            target: The target language, or None.
            options: How to decode.
            caller: Who asks; the model is shared fairly among callers.
            waits: Whether to wait until the deadline for models that are still loading, and for room in the queue,
                instead of refusing at once: for clients that stay away for long when they are refused.
            within_s: Seconds until the deadline of a request that another process received; from now on and as long as
                the settings say if None.

        Raises:
            UnsupportedPair: No loaded pair fits.
            NotReady: The service is loading or draining.
            LimitExceeded: The texts have more sentences than the queue can hold.
            QueueFull: Too many sentences wait.
            DeadlineUnreachable: The request would take too long, so it is not begun.
            DeadlineExceeded: The request took too long and was cancelled.
        """
        began = self._clock()
        if waits:
            await self._wait_for_models()
        with self._counted() as used:
            async with self._deadline(within_s) as timeout:
                choices = await self._chooser.choose(texts, source, target, options)
                self._use(used, choices)
                some_model = self._registry.names[0]
                results, times = await self._texts.translate(texts, choices, options, timeout, caller, waits=waits)
        return TranslateResult.of(
            results,
            some_model,
            queue_ms=times.queue_s * 1000,
            decode_ms=times.decode_s * 1000,
            total_ms=(self._clock() - began) * 1000,
        )

    async def stream(
        self,
        texts: Sequence[str],
        *,
        source: str | None,
        target: str | None,
        options: TranslationOptions,
        caller: Caller = UNKNOWN_CALLER,
        within_s: float | None = None,
    ) -> AsyncGenerator[StreamedSentence | StreamedText | TranslateResult, None]:
        """As :meth:`translate`, sentence by sentence: the result of the request is the last element.

        Close the generator in any case. A request that is refused is refused before the first element. The deadline is
        the one of the translation: a client that reads slowly gets all elements that were ready by then.

        Args:
            texts: The texts; they may be blank.
            source: Their language, or None.
            target: The target language, or None.
            options: How to decode.
            caller: Who asks.
            within_s: As for :meth:`translate`.

        Raises:
            ServiceError: See :meth:`translate`.
            UnsupportedPair: No loaded pair fits.
        """
        began = self._clock()

        async def produce(deliver: Callable[[StreamedSentence | StreamedText | TranslateResult], None]) -> None:
            results: dict[int, TextResult] = {}

            def deliver_part(part: StreamedSentence | StreamedText) -> None:
                if isinstance(part, StreamedText):
                    results[part.text] = part.result
                deliver(part)

            with self._counted() as used:
                async with self._deadline(within_s) as timeout:
                    choices = await self._chooser.choose(texts, source, target, options)
                    self._use(used, choices)
                    some_model = self._registry.names[0]
                    stream = TextStream(self._texts, self._bridge, self._clock)
                    await stream.translate(texts, choices, options, timeout, caller, deliver_part)
            deliver(
                TranslateResult.of(
                    [results[number] for number in range(len(texts))],
                    some_model,
                    queue_ms=stream.times.queue_s * 1000,
                    decode_ms=stream.times.decode_s * 1000,
                    total_ms=(self._clock() - began) * 1000,
                )
            )

        async with aclosing(elements_of(produce)) as elements:
            async for element in elements:
                yield element

    async def engine_given_up(self) -> None:
        """Wait until the engine has given up: only a new process can translate."""
        await self._gave_up.wait()

    async def attention(
        self,
        text: str,
        *,
        source: str | None,
        target: str | None,
        options: TranslationOptions,
        target_text: str | None,
        steps: AttentionHead | None = None,
        within_s: float | None = None,
    ) -> AttentionResult:
        """All attention weights of a sentence and its translation.

        Args:
            text: The sentence.
            source: Its language, or None.
            target: The target language, or None.
            options: How to decode, if no translation is given.
            target_text: A given translation, or None.
            steps: A head whose computation is returned step by step, or None.
            within_s: As for :meth:`translate`.

        Raises:
            InputError: See :meth:`model.translator.Translator.attention`.
            NotReady: The service is loading or draining.
            QueueFull: Too many calls wait.
            DeadlineExceeded: The request took too long.
            InferenceFailed: The model failed.
        """
        with self._counted() as used:
            async with self._deadline(within_s) as timeout:
                choices = await self._chooser.choose([text], source, target, options)
                self._use(used, choices)
                choice = choices[0]
                if not isinstance(choice, ModelChoice):
                    raise choice if isinstance(choice, Exception) else self._chooser.refused(text, target, choice)
                pair = (choice.source, choice.target)
                translator = choice.model.translator
                # Not by the call: nothing decodes beside a call.
                await self._on_pool(translator.prepare_attention)
                attention = await self._bridge.call(
                    lambda: translator.attention(text, options, *pair, target_text, steps), timeout, Admission.REFUSE
                )
                return AttentionResult(attention, choice.model.name, choice.detected)

    async def drain(self, timeout_s: float) -> bool:
        """Refuse new requests and let running requests finish.

        Args:
            timeout_s: How long they may take; the remaining requests are cancelled.

        Returns:
            Whether all requests finished in time.
        """
        if self._state in ("loading", "ready", "empty"):
            self._change_state("draining")
        return await self._requests.finish(timeout_s, self.not_ready())

    async def stop(self) -> None:
        """Stop the engine's thread; requests that still wait are refused."""
        if self._state != "failed":
            self._change_state("stopped")
        for task in self._housekeeping:
            task.cancel()
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
        """At intervals free memory, and return it to the operating system; under load it otherwise accumulates."""
        while True:
            await asyncio.sleep(_TIDY_S)
            with _going_on():
                translators = [model.translator for model in self._registry]
                await self._on_pool(functools.partial(_free, translators))

    async def _watch(self) -> None:
        """Look after the engine's thread, once the models are loaded: measuring them takes as long as it takes."""
        await self._loaded.wait()
        while self._state in ("ready", "empty", "draining"):
            await asyncio.sleep(_WATCH_S)
            # On a GPU, what hangs is the device, and its graphs and slots belong to one thread.
            with _going_on():
                self._engine.watch(may_replace=all(model.device == "cpu" for model in self._registry))
            if self._engine.has_given_up:
                self._fail()

    def _fail(self) -> None:
        """The engine has given up, which /readyz and /livez must report, and the process has to end."""
        if self._state in ("loading", "ready", "empty"):
            self._change_state("failed")
            self._gave_up.set()

    def _num_threads(self) -> int:
        """The configured number of threads, limited to what the process may use."""
        asked, used = self._settings.threads, usable_threads(self._settings.threads)
        if asked is not None and asked > used:
            logger.warning(
                "fewer threads than were asked for: affinity and cgroup quota allow no more",
                extra={"fields": {"asked": asked, "used": used}},
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
        if self._state in ("ready", "empty"):
            self._change_state("ready" if len(self._registry) else "empty")

    @contextlib.contextmanager
    def _counted(self) -> Iterator[contextlib.ExitStack]:
        """Count the current task as a running request; yields the stack in which its models are entered."""
        try:
            with self._requests.entered(), contextlib.ExitStack() as used:
                self._require("ready")
                yield used
        except Dropped:
            self._fail()
            raise self.not_ready() from None

    def _use(
        self, used: contextlib.ExitStack, choices: Sequence[ModelChoice[LoadedModel] | Unchanged | Exception]
    ) -> None:
        """Keep the chosen models loaded until the current request ends."""
        self._require("ready")  # the state may have changed during detection
        for model in {choice.model for choice in choices if isinstance(choice, ModelChoice)}:
            used.enter_context(model.requests.entered())


def _free(translators: Iterable[Translator]) -> None:
    for translator in translators:
        translator.tidy()
    give_back_freed_memory()


@contextlib.contextmanager
def _going_on() -> Iterator[None]:
    """Housekeeping does not end because of an error: it is logged."""
    try:
        yield
    except Exception:
        logger.exception("housekeeping failed, and goes on")
