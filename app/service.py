"""A request's way through the service: texts to sentences, sentences to the engine, answers back to texts."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from app.engine import Dropped, Engine
from app.errors import DeadlineExceeded, InferenceFailed, LimitExceeded, NotReady
from app.metrics import Metrics
from app.scheduler import Budget, Scheduler
from app.settings import Settings
from model.decoding.options import DecodingOptions, Hypothesis
from model.errors import ModelError

if TYPE_CHECKING:
    from model.bundle import Manifest
    from model.translator import Attention, PreparedText, Translation, Translator

logger = logging.getLogger("app.service")

State = Literal["loading", "ready", "draining", "failed", "stopped"]

_T = TypeVar("_T")

_SMALL_CHARACTERS = 500
"""Texts this short are cut into sentences on the event loop: a thread's hand-over takes longer."""

_WARM_UP_WIDTHS = (1, DecodingOptions().beam_size)

_STOP_TIMEOUT_S = 10.0


@dataclass(frozen=True)
class TranslateOutcome:
    """The answer to a translation request.

    Args:
        results: For each text its translation, or why there is none.
        num_source_tokens: Of all texts.
        num_target_tokens: Of all translations.
        queue_ms: How long its first sentence waited for the model, in milliseconds.
        decode_ms: From there to its last sentence's end.
        total_ms: All told.
    """

    results: list[Translation | Exception]
    num_source_tokens: int
    num_target_tokens: int
    queue_ms: float
    decode_ms: float
    total_ms: float


class TranslationService:
    """Everything behind the routes. Its methods belong to the event loop.

    Args:
        settings: Limits, deadline, budget.
        metrics: Told what happens.
        load: Gives the translator; called on the engine's thread.
        clock: Seconds that only go forward.
    """

    def __init__(
        self,
        settings: Settings,
        metrics: Metrics,
        load: Callable[[], Translator],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._metrics = metrics
        self._clock = clock
        self._engine = Engine(
            load,
            Scheduler(Budget(settings.max_batch_tokens, settings.max_batch_rows), settings.queue_sentences, clock),
            metrics,
            [width for width in _WARM_UP_WIDTHS if width <= settings.max_beam_size],
            self._loaded_on_engine_thread,
        )
        self._pool = ThreadPoolExecutor(max_workers=2, thread_name_prefix="verso-prepare")
        self._translator: Translator | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._loaded = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._active: set[asyncio.Task[Any]] = set()
        self._giving_up = False
        self._state: State = "loading"
        self.failure: BaseException | None = None
        """Why the model could not be loaded, in state ``failed``."""

    @property
    def state(self) -> State:
        """Where the service stands; requests are taken in ``ready`` alone."""
        return self._state

    @property
    def manifests(self) -> list[Manifest]:
        """What is loaded; empty until then."""
        return [] if self._translator is None else [self._translator.manifest]

    @property
    def device(self) -> str:
        """Where the model lives."""
        return "" if self._translator is None else self._translator.device

    async def start(self) -> None:
        """Begin to load the model; returns at once."""
        self._loop = asyncio.get_running_loop()
        self._engine.start()

    async def wait_loaded(self) -> None:
        """Wait until the model is loaded, or known not to load (``failure``)."""
        await self._loaded.wait()

    def not_ready(self) -> NotReady:
        """Why a request is not taken now."""
        return NotReady(5.0 if self._state == "loading" else 1.0, self._state)

    async def translate(
        self,
        texts: Sequence[str],
        *,
        source: str | None,
        target: str | None,
        options: DecodingOptions,
        return_alignment: bool,
    ) -> TranslateOutcome:
        """Translate texts. When the awaiting task is cancelled, their sentences are dropped.

        Args:
            texts: The texts, any of them blank.
            source: Their language, or None.
            target: The language wanted, or None.
            options: How to decode.
            return_alignment: Whether to align.

        Raises:
            UnsupportedPair: No loaded pair fits.
            NotReady: Loading or draining.
            LimitExceeded: The texts have more sentences than may wait at all.
            QueueFull: Too many sentences wait.
            DeadlineExceeded: It took too long; the work was stopped.
        """
        began = self._clock()
        with self._counted():
            translator = self._ready_translator()
            pair = translator.resolve_pair(source, target)
            async with self._deadline() as timeout:
                prepared = await self._off_loop(
                    sum(map(len, texts)), lambda: [translator.prepare(text, *pair) for text in texts]
                )
                submitted = self._clock()
                outcomes, queue_s = await self._decode(prepared, options, timeout)
                decoded = self._clock()
                weights = await self._align(prepared, outcomes, timeout) if return_alignment else [None] * len(prepared)
                results = await self._off_loop(
                    sum(map(len, texts)),
                    lambda: [
                        _complete(translator, text, own, aligned)
                        for text, own, aligned in zip(prepared, outcomes, weights, strict=True)
                    ],
                )
        done = [result for result in results if not isinstance(result, Exception)]
        total_s = self._clock() - began
        return TranslateOutcome(
            results=results,
            num_source_tokens=sum(result.num_source_tokens for result in done),
            num_target_tokens=sum(result.num_target_tokens for result in done),
            queue_ms=queue_s * 1000,
            decode_ms=max(0.0, decoded - submitted - queue_s) * 1000,
            total_ms=total_s * 1000,
        )

    async def attention(
        self, text: str, *, source: str | None, target: str | None, options: DecodingOptions, target_text: str | None
    ) -> Attention:
        """All attention weights behind one sentence and its translation.

        Args:
            text: One sentence.
            source: Its language, or None.
            target: The language of the translation, or None.
            options: How to translate it, where no translation is given.
            target_text: A given translation.

        Raises:
            InputError: See :meth:`model.translator.Translator.attention`.
            NotReady: Loading or draining.
            QueueFull: Too many calls wait.
            DeadlineExceeded: It took too long.
            InferenceFailed: The model failed.
        """
        with self._counted():
            self._ready_translator().resolve_pair(source, target)
            async with self._deadline() as timeout:
                attention: Attention = await self._call(
                    lambda translator: translator.attention(text, options, source, target, target_text), timeout
                )
        return attention

    async def drain(self, timeout_s: float) -> bool:
        """Take no new requests and let running ones finish.

        Args:
            timeout_s: How long they may take; those left are given up.

        Returns:
            Whether all finished.
        """
        if self._state in ("loading", "ready"):
            self._change_state("draining")
        try:
            async with asyncio.timeout(timeout_s):
                await self._idle.wait()
        except TimeoutError:
            self._giving_up = True
            for task in list(self._active):
                task.cancel()
            return False
        return True

    async def stop(self) -> None:
        """End the engine's thread; whoever still waits is refused."""
        # A model that is still loading cannot be interrupted; its thread ends with the process.
        timeout_s = _STOP_TIMEOUT_S if self._loaded.is_set() else 0.0
        if self._state != "failed":
            self._change_state("stopped")
        self._loaded.set()
        await asyncio.get_running_loop().run_in_executor(None, self._engine.stop, timeout_s)
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _loaded_on_engine_thread(self, loaded: Translator | BaseException) -> None:
        assert self._loop is not None
        with contextlib.suppress(RuntimeError):  # the loop ended while the model was loading
            self._loop.call_soon_threadsafe(self._on_loaded, loaded)

    def _on_loaded(self, loaded: Translator | BaseException) -> None:
        if isinstance(loaded, BaseException):
            self.failure = loaded
            if self._state != "stopped":
                self._change_state("failed")
        else:
            self._translator = loaded
            if self._state == "loading":
                self._change_state("ready")
        self._loaded.set()

    def _change_state(self, state: State) -> None:
        self._state = state
        self._metrics.ready_changed(state == "ready")

    def _ready_translator(self) -> Translator:
        if self._state != "ready" or self._translator is None:
            raise self.not_ready()
        return self._translator

    @contextlib.contextmanager
    def _counted(self) -> Iterator[None]:
        """Mark the current task as a running request: draining waits for it, and gives it up in the end."""
        task = asyncio.current_task()
        assert task is not None
        self._active.add(task)
        self._idle.clear()
        try:
            yield
        except Dropped:
            if self._state == "ready":  # nobody stopped the engine: it died, and /readyz is to say so
                self._change_state("failed")
            raise self.not_ready() from None
        except asyncio.CancelledError:
            if not self._giving_up:
                raise
            # Not the client's doing: the time to drain is over, and it is owed an answer.
            task.uncancel()
            raise self.not_ready() from None
        finally:
            self._active.discard(task)
            if not self._active:
                self._idle.set()

    @contextlib.asynccontextmanager
    async def _deadline(self) -> AsyncIterator[asyncio.Timeout]:
        try:
            async with asyncio.timeout(self._settings.deadline_s) as timeout:
                yield timeout
        except TimeoutError:
            raise DeadlineExceeded(self._settings.deadline_s) from None

    async def _off_loop(self, num_characters: int, run: Callable[[], _T]) -> _T:
        if num_characters <= _SMALL_CHARACTERS:
            return run()
        return await asyncio.get_running_loop().run_in_executor(self._pool, run)

    async def _decode(
        self, prepared: Sequence[PreparedText], options: DecodingOptions, timeout: asyncio.Timeout
    ) -> tuple[list[list[Hypothesis | Exception]], float]:
        """The outcome of every sentence, by text, and the seconds until the first one joined the model."""
        sources = [segment.token_ids for text in prepared for segment in text.segments]
        if not sources:
            return [[] for _ in prepared], 0.0
        if len(sources) > self._settings.queue_sentences:
            # Trying again would never help, so this is no full queue.
            raise LimitExceeded("text", len(sources), self._settings.queue_sentences, "sentences in one request")
        outcomes, queue_s = await self._submit(sources, options, timeout)
        by_text = iter(outcomes)
        return [[next(by_text) for _ in text.segments] for text in prepared], queue_s

    async def _submit(
        self, sources: list[list[int]], options: DecodingOptions, timeout: asyncio.Timeout
    ) -> tuple[list[Hypothesis | Exception], float]:
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        outcomes: list[Any] = [None] * len(sources)
        left = len(sources)

        def deliver(place: int, outcome: object) -> None:  # on the engine's thread
            nonlocal left
            outcomes[place] = outcome
            left -= 1
            if left == 0:
                _tell(loop, done)

        sentences = self._engine.submit(sources, options, deliver)
        await self._until(done, {sentence.key for sentence in sentences}, timeout)
        for outcome in outcomes:
            if isinstance(outcome, Dropped):
                raise outcome
        return outcomes, min(sentence.started_at - sentence.arrived_at for sentence in sentences)

    async def _align(
        self,
        prepared: Sequence[PreparedText],
        outcomes: Sequence[Sequence[Hypothesis | Exception]],
        timeout: asyncio.Timeout,
    ) -> list[Any]:
        async def align(text: PreparedText, own: Sequence[Hypothesis | Exception]) -> Any:
            hypotheses = [outcome for outcome in own if isinstance(outcome, Hypothesis)]
            if not own:
                return []  # a blank text: nothing to ask the model
            if len(hypotheses) < len(own):
                return None
            try:
                return await self._call(lambda translator: translator.align(text, hypotheses), timeout)
            except (InferenceFailed, ModelError) as failure:
                return failure

        return [await align(text, own) for text, own in zip(prepared, outcomes, strict=True)]

    async def _call(self, run: Callable[[Translator], Any], timeout: asyncio.Timeout) -> Any:
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        result: list[object] = []

        def deliver(outcome: object) -> None:  # on the engine's thread
            result.append(outcome)
            _tell(loop, done)

        key = self._engine.call(run, deliver)
        await self._until(done, {key}, timeout)
        if isinstance(result[0], Exception):
            raise result[0]
        return result[0]

    async def _until(self, done: asyncio.Future[None], keys: Collection[int], timeout: asyncio.Timeout) -> None:
        """Wait for the engine; withdraw from it if the deadline or a client that left cuts the wait short."""
        try:
            await done
        except asyncio.CancelledError:
            self._engine.withdraw(keys, expired=timeout.expired())
            raise


def _complete(
    translator: Translator, text: PreparedText, outcomes: Sequence[Hypothesis | Exception], weights: Any
) -> Translation | Exception:
    """A text's translation, or the first failure among its sentences."""
    for outcome in (*outcomes, weights):
        if isinstance(outcome, Exception):
            return outcome
    try:
        return translator.complete(text, [outcome for outcome in outcomes if isinstance(outcome, Hypothesis)], weights)
    except Exception:
        # One text must not take the others of its request along.
        logger.exception("a text could not be put together")
        return InferenceFailed()


def _tell(loop: asyncio.AbstractEventLoop, done: asyncio.Future[None]) -> None:
    """Wake the waiting task; it may have left, and at the very end the loop may have, too."""

    def finish() -> None:
        if not done.done():
            done.set_result(None)

    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(finish)
