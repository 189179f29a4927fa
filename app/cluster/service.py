"""The translation service of an ingress, which chooses the model of each text and lets engine replicas translate."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from app.cluster.calls import RemoteModel, ReplicaLost
from app.cluster.replicas import Engine
from app.errors import NotReady
from app.models.registry import Registry
from app.serving.backend import TranslationBackend
from app.serving.detection import LanguageDetector
from app.serving.model_choice import ModelChoice, ModelChooser, Remembered, Unchanged
from app.serving.request import TranslationRequest
from app.serving.text_job import AttentionResult, TextResult, Times, TranslateResult, answer_without_model
from app.serving.text_translation import Deliver, StreamedSentence, StreamedText
from app.settings import Settings
from app.telemetry.metrics import Metrics
from app.threads import SYSTEM, Threads
from model.network.heads import AttentionHead

logger = logging.getLogger("app.cluster")

MAX_LOSSES = 3
"""A request that has lost this many replicas fails, so that one that crashes its replica does not crash them all."""

_RETRY_S = 0.05
_LONGEST_RETRY_S = 1.0

_POLL_S = 0.5
"""Interval at which engines are polled for their models until all have answered, in seconds."""

_REFRESH_S = 5.0
"""Interval of later polls: an update may change the models."""

_DESCRIBE_S = 5.0

_GONE = frozenset({"draining", "stopped", "failed"})
"""Reasons of a refusal after which another replica is tried."""


@dataclass(frozen=True)
class _Part:
    """Texts of a request that one model translates.

    Args:
        choice: The model and the pair; its ``detected`` is that of the first text.
        indices: The indices of the texts in the request.
    """

    choice: ModelChoice[RemoteModel]
    indices: list[int]


class RemoteTranslations(TranslationBackend[RemoteModel]):
    """The service behind the routes of an ingress. Its methods belong to the event loop.

    Args:
        settings: The deadline.
        metrics: The metrics of the ingress.
        engines: The engines by name; if several have the same pair, the first one translates it.
        clock: A monotonic clock, in seconds.
        detector: Detects languages; uses lingua by default.
        threads: Where threads come from.
    """

    def __init__(
        self,
        settings: Settings,
        metrics: Metrics,
        engines: Mapping[str, Engine],
        clock: Callable[[], float] = time.monotonic,
        detector: LanguageDetector | None = None,
        threads: Threads = SYSTEM,
    ) -> None:
        super().__init__(settings, metrics, threads.pool(1, "verso-detect"), clock)
        self._engines = engines
        self._described: dict[str, list[RemoteModel]] = {}
        self._detector = detector or LanguageDetector()
        self._adopt([])
        self._watching: asyncio.Task[None] | None = None
        metrics.elsewhere = self._metrics_elsewhere

    async def start(self) -> None:
        """Start polling the engines for their models; returns immediately."""
        self._watching = asyncio.create_task(self._watch())

    async def stop(self) -> None:
        """Stop polling. Ray calls this only after the requests have finished."""
        self._change_state("stopped")
        self._loaded.set()
        if self._watching is not None:
            self._watching.cancel()
        for engine in self._engines.values():
            engine.close()
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def _translate_chosen(
        self,
        request: TranslationRequest,
        choices: Sequence[ModelChoice[RemoteModel] | Unchanged | Remembered | Exception],
        timeout: asyncio.Timeout,
        deliver: Deliver | None,
    ) -> tuple[list[TextResult], Times]:
        """See :class:`app.serving.backend.TranslationBackend`.

        If a replica is lost, another one translates the unfinished texts; a stream delivers nothing twice.
        """
        results: dict[int, TextResult] = {}
        request = replace(request, memory=None)  # engine replicas have no memories

        def finish(index: int, result: TextResult) -> None:
            # Languages are detected in this process, not in replicas.
            choice = choices[index]
            detected = choice.detected if isinstance(choice, ModelChoice) else None
            results[index] = result if detected is None else replace(result, detected=detected)
            if deliver is not None:
                deliver(StreamedText(index, results[index]))

        times = await _all([self._translate_part(part, request, timeout, finish, deliver) for part in _parts(choices)])
        for index, (text, choice) in enumerate(zip(request.texts, choices, strict=True)):
            if not isinstance(choice, ModelChoice):
                finish(index, answer_without_model(text, choice, request.options))
        longest = Times(
            max((part.queue_s for part in times), default=0.0), max((part.decode_s for part in times), default=0.0)
        )
        return [results[index] for index in range(len(request.texts))], longest

    async def _attention(
        self,
        request: TranslationRequest,
        choice: ModelChoice[RemoteModel],
        timeout: asyncio.Timeout,
        target_text: str | None,
        steps: AttentionHead | None,
    ) -> AttentionResult:
        request = replace(request, source=choice.source, target=choice.target)
        result: AttentionResult = await self._call(
            choice.model.engine, timeout, "attention", request, target_text, steps
        )
        return replace(result, detected=choice.detected)

    async def _call(
        self, engine: str, timeout: asyncio.Timeout, method: str, request: TranslationRequest, *arguments: Any
    ) -> Any:
        """The result of a call. If a replica is lost before it answers, another one is called."""
        retries = _Retries(engine, self._metrics)
        while True:
            try:
                request = replace(request, within_s=_seconds_left(timeout))
                return await self._engines[engine].call(method, request, *arguments)
            except (ReplicaLost, NotReady) as error:
                await retries.pause(error)

    async def _translate_part(
        self,
        part: _Part,
        request: TranslationRequest,
        timeout: asyncio.Timeout,
        finish: Callable[[int, TextResult], None],
        deliver: Deliver | None,
    ) -> Times:
        """Translate the texts of one model; ``finish`` is called with each index and result."""
        request = replace(request, source=part.choice.source, target=part.choice.target)
        if deliver is not None:
            return await self._stream_part(part, request, timeout, finish, deliver)
        texts = [request.texts[index] for index in part.indices]
        answer: TranslateResult = await self._call(
            part.choice.model.engine, timeout, "translate", replace(request, texts=texts)
        )
        for index, result in zip(part.indices, answer.texts, strict=True):
            finish(index, result)
        return Times(answer.queue_ms / 1000, answer.decode_ms / 1000)

    async def _stream_part(
        self,
        part: _Part,
        request: TranslationRequest,
        timeout: asyncio.Timeout,
        finish: Callable[[int, TextResult], None],
        deliver: Deliver,
    ) -> Times:
        """As :meth:`_translate_part`, delivering each sentence once even if replicas are lost."""
        engine = self._engines[part.choice.model.engine]
        next_sentence = dict.fromkeys(part.indices, 0)  # of each unfinished text, the sentence to deliver next
        times = Times(0.0, 0.0)  # remain if the replica is lost after it has delivered the last text
        retries = _Retries(part.choice.model.engine, self._metrics)
        while next_sentence:
            indices = list(next_sentence)
            texts = [request.texts[index] for index in indices]
            try:
                stream = engine.stream("stream", replace(request, texts=texts, within_s=_seconds_left(timeout)))
                async with stream as items:
                    async for element in items:
                        if isinstance(element, TranslateResult):  # the last one
                            times = Times(element.queue_ms / 1000, element.decode_ms / 1000)
                            continue
                        index = indices[element.text]
                        if isinstance(element, StreamedText):
                            del next_sentence[index]
                            finish(index, element.result)
                        elif element.index >= next_sentence[index]:  # sentences of a text arrive in order
                            next_sentence[index] = element.index + 1
                            deliver(StreamedSentence(index, element.index, element.translated))
            except (ReplicaLost, NotReady) as error:
                await retries.pause(error)
        return times

    async def _watch(self) -> None:
        """Poll the engines for their models."""
        while True:
            for name, engine in self._engines.items():
                try:
                    async with asyncio.timeout(_DESCRIBE_S):
                        models = await engine.describe()
                    self._described[name] = [replace(model, engine=name) for model in models]
                except (NotReady, TimeoutError):
                    logger.debug("an engine has not described its models", extra={"fields": {"engine": name}})
                except Exception:
                    logger.exception("an engine could not describe its models", extra={"fields": {"engine": name}})
            models = [model for name in self._engines for model in self._described.get(name, ())]
            if models != self.models:
                self._adopt(models)
            if self._state == "loading" and len(self._described) == len(self._engines):
                self._change_state("ready")
                self._loaded.set()
                logger.info("ready", extra={"fields": {"models": self._registry.names}})
            await asyncio.sleep(_POLL_S if self._state == "loading" else _REFRESH_S)

    def _adopt(self, models: Sequence[RemoteModel]) -> None:
        """Serve these models from now on."""
        registry: Registry[RemoteModel] = Registry(self._settings.pivot_language)
        for model in models:
            registry.add(model)
        self._registry = registry
        self._chooser = ModelChooser(registry, self._detector, self._on_pool, remembers=self._settings.cache_bytes > 0)
        self._metrics.models_changed(len(registry))

    @contextlib.contextmanager
    def _admitted(self) -> Iterator[contextlib.ExitStack]:
        self._require("ready")
        with contextlib.ExitStack() as models_in_use:
            yield models_in_use

    async def _metrics_elsewhere(self) -> dict[str, bytes]:
        """The metrics of all engine replicas."""
        pages: dict[str, bytes] = {}
        for engine in self._engines.values():
            pages |= await engine.metrics()
        return pages


class _Retries:
    """The attempts of one call.

    Args:
        engine: The name of the engine, for the log.
        metrics: Counts lost replicas.
    """

    def __init__(self, engine: str, metrics: Metrics) -> None:
        self._engine = engine
        self._metrics = metrics
        self._num_losses = 0
        self._pause_s = _RETRY_S

    async def pause(self, error: ReplicaLost | NotReady) -> None:
        """Wait before the next attempt.

        Args:
            error: Why the previous replica did not answer.

        Raises:
            NotReady: Another replica would not help, or too many were lost.
        """
        if isinstance(error, NotReady) and error.reason not in _GONE:
            raise error
        if isinstance(error, ReplicaLost):
            self._num_losses += 1
            self._metrics.replica_lost()
            logger.warning(
                "a replica was lost during a request",
                extra={"fields": {"engine": self._engine, "losses": self._num_losses}},
            )
            if self._num_losses >= MAX_LOSSES:
                raise NotReady(5.0, "failed") from error
        await asyncio.sleep(self._pause_s)
        self._pause_s = min(_LONGEST_RETRY_S, self._pause_s * 2)


def _parts(choices: Sequence[ModelChoice[RemoteModel] | Unchanged | Remembered | Exception]) -> list[_Part]:
    """The texts that need a model, grouped by engine and pair."""
    parts: dict[tuple[str, str, str], _Part] = {}
    for index, choice in enumerate(choices):
        if isinstance(choice, ModelChoice):
            key = (choice.model.engine, choice.source, choice.target)
            parts.setdefault(key, _Part(choice, [])).indices.append(index)
    return list(parts.values())


async def _all(calls: Sequence[Coroutine[Any, Any, Times]]) -> list[Times]:
    """The results of concurrent calls; if one fails, the others are cancelled."""
    if len(calls) == 1:  # a single call needs no task
        return [await calls[0]]
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(call) for call in calls]
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from None
    return [task.result() for task in tasks]


def _seconds_left(timeout: asyncio.Timeout) -> float:
    """Seconds until a deadline."""
    when = timeout.when()
    assert when is not None, "every request has a deadline"
    return max(0.001, when - asyncio.get_running_loop().time())
