"""The translation service for routes and documents, with models in this process or in others."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Sequence
from concurrent.futures import Executor
from typing import Generic, Literal, TypeVar

from app.errors import DeadlineExceeded, NotReady, PairInTwoLegs
from app.models.registry import ModelT, Registry
from app.serving.detection import Detection
from app.serving.model_choice import ModelChoice, ModelChooser, Remembered, Unchanged
from app.serving.request import TranslationRequest
from app.serving.text_job import AttentionResult, TextResult, Times, TranslateResult
from app.serving.text_translation import Deliver, StreamedSentence, StreamedText
from app.settings import Settings
from app.telemetry.metrics import Metrics
from model.languages import LanguagePairs
from model.network.heads import AttentionHead

_T = TypeVar("_T")

State = Literal["loading", "ready", "empty", "draining", "failed", "stopped"]
"""The states of a service; it accepts requests only in ``ready``."""


async def elements_of(
    produce: Callable[[Callable[[_T], None]], Coroutine[object, None, _T]],
) -> AsyncGenerator[_T, None]:
    """Run a function on a task of its own, and yield each element that it produces, then its result.

    The deadline of the function cancels that task and never the iterating task, which may be sending an element
    (PEP 789). Always close the generator: that cancels the function.

    Args:
        produce: Calls its argument with each element.

    Raises:
        Exception: The error of the function, after all elements.
    """
    elements: asyncio.Queue[_T | None] = asyncio.Queue()
    task = asyncio.create_task(produce(elements.put_nowait))
    task.add_done_callback(lambda _: elements.put_nowait(None))
    try:
        while (element := await elements.get()) is not None:
            yield element
        yield await task
    finally:
        task.cancel()
        await asyncio.wait([task])
        if not task.cancelled():
            task.exception()  # mark it as retrieved


class TranslationBackend(ABC, Generic[ModelT]):
    """A translation service: a state, deadlines, and the choice of models. Its methods belong to the event loop.

    Subclasses set ``_registry`` and ``_chooser``, and ``_loaded`` when their models are known.

    Args:
        settings: The deadline.
        metrics: Notified when the service becomes ready or not ready.
        pool: Runs slow functions.
        clock: A monotonic clock, in seconds.
    """

    _registry: Registry[ModelT]
    _chooser: ModelChooser[ModelT]

    def __init__(self, settings: Settings, metrics: Metrics, pool: Executor, clock: Callable[[], float]) -> None:
        self._settings = settings
        self._clock = clock
        self._metrics = metrics
        self._pool = pool
        self._loaded = asyncio.Event()
        self._state: State = "loading"

    @property
    def state(self) -> State:
        """The current state."""
        return self._state

    @property
    def models(self) -> list[ModelT]:
        """The loaded models; if several have the same pair, the first one translates it."""
        return list(self._registry)

    @abstractmethod
    async def start(self) -> None:
        """Start loading the models; returns immediately."""

    @abstractmethod
    async def stop(self) -> None:
        """Stop; requests that are still waiting are refused."""

    async def wait_loaded(self) -> None:
        """Wait until the models are loaded or have failed to load."""
        await self._loaded.wait()

    def not_ready(self) -> NotReady:
        """The error of requests that are refused in the current state."""
        return NotReady(5.0 if self._state in ("loading", "empty") else 1.0, self._state)

    async def language_pairs(self) -> LanguagePairs:
        """The language pairs of the loaded models; waits for models that are loading, until the deadline.

        Raises:
            NotReady: No models are loaded, or the service is draining.
            DeadlineExceeded: The models take too long to load.
        """
        await self._wait_for_models()
        self._require("ready")
        return self._registry.pairs

    @property
    def pivoted(self) -> LanguagePairs:
        """The language pairs that are translated through the pivot language, and others of the same languages."""
        return self._registry.pivoted

    async def detect(self, texts: Sequence[str]) -> list[Detection | None]:
        """Detect the languages of texts among the loaded ones; waits for models that are loading, until the deadline.

        Args:
            texts: The texts.

        Returns:
            For each text its language, or None if it has no letters or letters of no loaded language.

        Raises:
            NotReady: No models are loaded, or the service is draining.
            DeadlineExceeded: The request took too long.
        """
        await self._wait_for_models()
        with self._admitted():
            async with self._deadline():
                return await self._chooser.detect(texts)

    async def pair_of(self, text: str, source: str | None, target: str | None) -> tuple[str, str]:
        """The language pair that a text would be translated with.

        Args:
            text: The text.
            source: Its language, ``auto``, or None.
            target: The target language, or None.

        Returns:
            Source and target in the model's spelling; equal if the text would be returned unchanged.

        Raises:
            UnsupportedPair: No loaded pair fits.
            LanguageNotDetected: The source is ``auto``, and no loaded language is detected.
            DetectedPairNotServed: The source is ``auto``, and its pair is not loaded.
            NotReady: The service is loading or draining.
        """
        with self._admitted():
            return await self._chooser.pair_of(text, source, target)

    async def translate(self, request: TranslationRequest) -> TranslateResult:
        """Translate texts. When the awaiting task is cancelled, their sentences are withdrawn.

        Args:
            request: The texts, and how to translate them.

        Raises:
            UnsupportedPair: No loaded pair fits.
            NotReady: The service is loading or draining.
            LimitExceeded: The texts have more sentences than the capacity of the queue.
            QueueFull: Too many sentences are queued.
            DeadlineUnreachable: The request would take too long and was not started.
            DeadlineExceeded: The request took too long and was cancelled.
        """
        return await self._translate(request)

    def stream(
        self, request: TranslationRequest
    ) -> AsyncGenerator[StreamedSentence | StreamedText | TranslateResult, None]:
        """As :meth:`translate`, sentence by sentence: the result of the request is the last element.

        Always close the generator. A refused request raises before the first element. The deadline bounds the
        translation: a client that reads slowly gets all elements that were ready by then.

        Args:
            request: The texts, and how to translate them.

        Raises:
            ServiceError: See :meth:`translate`.
            UnsupportedPair: No loaded pair fits.
        """
        return elements_of(functools.partial(self._translate, request))

    async def _translate(self, request: TranslationRequest, deliver: Deliver | None = None) -> TranslateResult:
        start_time = self._clock()
        if request.waits:
            await self._wait_for_models()
        with self._admitted() as models_in_use:
            async with self._deadline(request.within_s) as timeout:
                choices = await self._with_memory(request, await self._choose(request, timeout, models_in_use))
                default_model = self._registry.names[0]
                results, times = await self._translate_chosen(request, choices, timeout, deliver)
        return TranslateResult.of(results, default_model, times, total_ms=(self._clock() - start_time) * 1000)

    async def attention(
        self, request: TranslationRequest, target_text: str | None = None, steps: AttentionHead | None = None
    ) -> AttentionResult:
        """All attention weights of a sentence and its translation.

        Args:
            request: A single text, and how to translate it.
            target_text: A given translation, or None.
            steps: A head whose computation is returned step by step, or None.

        Raises:
            InputError: See :meth:`model.translator.Translator.attention`.
            PairInTwoLegs: No model translates the pair directly.
            NotReady: The service is loading or draining.
            QueueFull: Too many calls are queued.
            DeadlineExceeded: The request took too long.
            InferenceFailed: The model failed.
        """
        (text,) = request.texts
        with self._admitted() as models_in_use:
            async with self._deadline(request.within_s) as timeout:
                (choice,) = await self._choose(request, timeout, models_in_use)
                if isinstance(choice, Exception):
                    raise choice
                if isinstance(choice, Unchanged):
                    raise self._chooser.refused(text, request.target, choice)
                if len(choice.legs) > 1:
                    first, second = choice.legs
                    raise PairInTwoLegs((first.source, first.target), (second.source, second.target))
                return await self._attention(request, choice, timeout, target_text, steps)

    @abstractmethod
    async def _translate_chosen(
        self,
        request: TranslationRequest,
        choices: Sequence[ModelChoice[ModelT] | Unchanged | Remembered | Exception],
        timeout: asyncio.Timeout,
        deliver: Deliver | None,
    ) -> tuple[list[TextResult], Times]:
        """Translate the texts of a request with the models chosen for them."""

    @abstractmethod
    async def _attention(
        self,
        request: TranslationRequest,
        choice: ModelChoice[ModelT],
        timeout: asyncio.Timeout,
        target_text: str | None,
        steps: AttentionHead | None,
    ) -> AttentionResult:
        """Compute the attention of a request with the model chosen for it."""

    async def _with_memory(
        self, request: TranslationRequest, choices: Sequence[ModelChoice[ModelT] | Unchanged | Exception]
    ) -> list[ModelChoice[ModelT] | Unchanged | Remembered | Exception]:
        """The choices, but :class:`Remembered` for plain texts that a memory has as a whole."""
        result: list[ModelChoice[ModelT] | Unchanged | Remembered | Exception] = list(choices)
        if request.memory is None or request.options.format != "text" or request.options.steering:
            return result
        by_pair: dict[tuple[str, str], list[int]] = {}
        for index, choice in enumerate(choices):
            if isinstance(choice, ModelChoice):
                by_pair.setdefault((choice.source, choice.target), []).append(index)
        for pair, indices in by_pair.items():
            matches = await request.memory.exact([request.texts[index] for index in indices], *pair)
            for index, match in zip(indices, matches, strict=True):
                choice = choices[index]
                if match is not None and isinstance(choice, ModelChoice):
                    result[index] = Remembered(*pair, choice.detected, match)
        return result

    async def _choose(
        self, request: TranslationRequest, timeout: asyncio.Timeout, models_in_use: contextlib.ExitStack
    ) -> list[ModelChoice[ModelT] | Unchanged | Exception]:
        """Choose the model of each text; the models stay in memory until ``models_in_use`` is closed."""
        return await self._chooser.choose(request.texts, request.source, request.target, request.options)

    @abstractmethod
    def _admitted(self) -> contextlib.AbstractContextManager[contextlib.ExitStack]:
        """Count the current task as a running request; the stack is closed when the request ends.

        Raises:
            NotReady: No requests are accepted.
        """

    def _change_state(self, state: State) -> None:
        self._state = state
        self._metrics.ready_changed(state == "ready")

    def _require(self, *states: State) -> None:
        if self._state not in states:
            raise self.not_ready()

    async def _wait_for_models(self) -> None:
        async with self._deadline():
            await self._loaded.wait()

    @contextlib.asynccontextmanager
    async def _deadline(self, within_s: float | None = None) -> AsyncIterator[asyncio.Timeout]:
        """Bound a request by the settings' deadline, or by the time that is left in the process that sent it."""
        try:
            async with asyncio.timeout(self._settings.deadline_s if within_s is None else within_s) as timeout:
                yield timeout
        except TimeoutError:
            raise DeadlineExceeded(self._settings.deadline_s) from None

    async def _on_pool(self, run: Callable[[], _T]) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self._pool, run)
