"""What both translation services have: a state, deadlines, and answers that need no more than the choice of a model."""

from __future__ import annotations

import asyncio
import contextlib
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Sequence
from typing import Any, Generic, TypeVar

from app.errors import DeadlineExceeded, NotReady
from app.models.registry import ModelT, Registry
from app.serving.detection import Detection
from app.serving.model_choice import ModelChooser
from app.serving.protocol import State
from app.settings import Settings
from app.steady_pool import SteadyPool
from app.telemetry.metrics import Metrics
from model.languages import LanguagePairs

_T = TypeVar("_T")


async def elements_of(
    produce: Callable[[Callable[[_T], None]], Coroutine[object, None, None]],
) -> AsyncGenerator[_T, None]:
    """The elements that a function produces on a task of its own.

    The deadline of the function cancels that task, wherever the task that iterates is at that time: in the midst of
    sending an element, for example (PEP 789). Close the generator in any case; it cancels the function.

    Args:
        produce: Calls its argument with each element.

    Raises:
        Exception: What ended the function, after all elements.
    """
    produced: asyncio.Queue[_T | None] = asyncio.Queue()
    task = asyncio.create_task(produce(produced.put_nowait))
    task.add_done_callback(lambda _: produced.put_nowait(None))
    try:
        while (element := await produced.get()) is not None:
            yield element
        await task
    finally:
        task.cancel()
        await asyncio.wait([task])
        if not task.cancelled():
            task.exception()  # it has been raised, or no caller iterates any more


class ServiceLifecycle(ABC, Generic[ModelT]):
    """The base of a translation service; its methods belong to the event loop.

    Subclasses set ``_registry`` and ``_chooser``, and ``_loaded`` when their models are known.

    Args:
        settings: The deadline.
        metrics: Told whether the service is ready.
        pool: Runs slow functions.
    """

    _registry: Registry[ModelT]
    _chooser: ModelChooser[ModelT]

    def __init__(self, settings: Settings, metrics: Metrics, pool: SteadyPool) -> None:
        self._settings = settings
        self._metrics = metrics
        self._pool = pool
        self._loaded = asyncio.Event()
        self._state: State = "loading"

    @property
    def state(self) -> State:
        """The service's state; requests are accepted only in ``ready``."""
        return self._state

    @property
    def models(self) -> list[ModelT]:
        """The loaded models, in the order they serve."""
        return list(self._registry)

    async def wait_loaded(self) -> None:
        """Wait until the models are loaded, or have failed to load."""
        await self._loaded.wait()

    def not_ready(self) -> NotReady:
        """The error of requests that are refused in the current state."""
        return NotReady(5.0 if self._state in ("loading", "empty") else 1.0, self._state)

    async def language_pairs(self) -> LanguagePairs:
        """The pairs of the loaded models; waits until the deadline for models that are still loading.

        Raises:
            NotReady: No models are loaded, or the service is draining.
            DeadlineExceeded: The models take too long to load.
        """
        await self._wait_for_models()
        self._require("ready")
        return self._registry.pairs

    async def detect(self, texts: Sequence[str]) -> list[Detection | None]:
        """Detect the languages of texts among the loaded ones; waits until the deadline for models that are loading.

        Args:
            texts: The texts.

        Returns:
            For each text its language, or None if it has no letters or letters of no loaded language.

        Raises:
            NotReady: No models are loaded, or the service is draining.
            DeadlineExceeded: The request took too long.
        """
        await self._wait_for_models()
        with self._counted():
            async with self._deadline():
                return await self._chooser.detect(texts)

    async def pair_of(self, text: str, source: str | None, target: str | None) -> tuple[str, str]:
        """The language pair that a text would be translated with.

        Args:
            text: The text.
            source: Its language, ``auto``, or None.
            target: The target language, or None.

        Returns:
            Both in the model's spelling; they are equal if the text would come back unchanged.

        Raises:
            UnsupportedPair: No loaded pair fits.
            LanguageNotDetected: The source is ``auto``, and no loaded language is detected.
            DetectedPairNotServed: The source is ``auto``, and its pair is not loaded.
            NotReady: The service is loading or draining.
        """
        with self._counted():
            return await self._chooser.pair_of(text, source, target)

    @abstractmethod
    def _counted(self) -> contextlib.AbstractContextManager[Any]:
        """Count the current task as a running request.

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
        """Bound a request, by the settings or by what another process has left of its time."""
        try:
            async with asyncio.timeout(self._settings.deadline_s if within_s is None else within_s) as timeout:
                yield timeout
        except TimeoutError:
            raise DeadlineExceeded(self._settings.deadline_s) from None

    async def _on_pool(self, run: Callable[[], _T]) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self._pool, run)
