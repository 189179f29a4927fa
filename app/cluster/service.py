"""The translation service of an ingress: it chooses the model of each text, and engine replicas translate."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any

from app.cluster.calls import Engine, Refusal, RemoteModel, ReplicaLost
from app.engine.caller import UNKNOWN_CALLER, Caller
from app.errors import NotReady
from app.models.registry import Registry
from app.serving.detection import LanguageDetector
from app.serving.lifecycle import ServiceLifecycle, elements_of
from app.serving.model_choice import ModelChoice, ModelChooser, Unchanged
from app.serving.text_job import AttentionResult, TextResult, TranslateResult, answer_without_model
from app.serving.text_stream import StreamedSentence, StreamedText
from app.settings import Settings
from app.steady_pool import SteadyPool
from app.telemetry.metrics import Metrics
from model.network.heads import AttentionHead
from model.translation.options import TranslationOptions

logger = logging.getLogger("app.cluster")

MAX_LOSSES = 3
"""Replicas that a request may lose. One that ends each replica that it is given to must not end them all."""

_RETRY_S = 0.05
_LONGEST_RETRY_S = 1.0

_LOOK_S = 0.5
"""Interval at which engines are asked for their models until all have some, in seconds."""

_REFRESH_S = 5.0
"""Interval at which they are asked again: an update may change the models."""

_DESCRIBE_S = 5.0

_GONE = frozenset({"draining", "stopped", "failed"})
"""Why a replica refuses a request that another one would take."""


@dataclass(frozen=True)
class _Part:
    """Texts of a request that one model translates.

    Args:
        choice: The model and the pair; its ``detected`` is that of the first text.
        numbers: The indices of the texts.
    """

    choice: ModelChoice[RemoteModel]
    numbers: list[int]


class RemoteTranslations(ServiceLifecycle[RemoteModel]):
    """The service behind the routes of an ingress. Its methods belong to the event loop.

    Args:
        settings: The deadline.
        metrics: The metrics of the ingress.
        engines: The engines by name; of several models with the same pair, that of the first engine serves.
        clock: A monotonic clock, in seconds.
        detector: Detects languages; with lingua by default.
    """

    def __init__(
        self,
        settings: Settings,
        metrics: Metrics,
        engines: Mapping[str, Engine],
        clock: Callable[[], float] = time.monotonic,
        detector: LanguageDetector | None = None,
    ) -> None:
        super().__init__(settings, metrics, SteadyPool(max_workers=1, thread_name_prefix="verso-detect"))
        self._engines = engines
        self._clock = clock
        self._described: dict[str, list[RemoteModel]] = {}
        self._detector = detector or LanguageDetector()
        self._adopt([])
        self._watching: asyncio.Task[None] | None = None
        metrics.elsewhere = self._metrics_elsewhere

    async def start(self) -> None:
        """Start asking the engines for their models; returns immediately."""
        self._watching = asyncio.create_task(self._watch())

    async def stop(self) -> None:
        """Stop asking. Ray has let the requests finish before."""
        self._change_state("stopped")
        self._loaded.set()
        if self._watching is not None:
            self._watching.cancel()
        self._pool.shutdown(wait=False, cancel_futures=True)

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
        """See :meth:`app.serving.service.TranslationService.translate`."""
        began = self._clock()
        if waits:
            await self._wait_for_models()
        with self._counted():
            async with self._deadline(within_s) as timeout:
                choices = await self._chooser.choose(texts, source, target, options)
                parts = _parts(choices)
                some_model = self._registry.names[0]
                answers = await _all(
                    self._ask(
                        part.choice.model.engine,
                        timeout,
                        "translate",
                        [texts[number] for number in part.numbers],
                        source=part.choice.source,
                        target=part.choice.target,
                        options=options,
                        caller=caller,
                        waits=waits,
                    )
                    for part in parts
                )
        results = _without_model(texts, choices, options)
        for part, answer in zip(parts, answers, strict=True):
            for number, text in zip(part.numbers, answer.texts, strict=True):
                results[number] = _as_detected(text, choices[number])
        return TranslateResult.of(
            [results[number] for number in range(len(texts))],
            some_model,
            queue_ms=max((answer.queue_ms for answer in answers), default=0.0),
            decode_ms=max((answer.decode_ms for answer in answers), default=0.0),
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
        """See :meth:`app.serving.service.TranslationService.stream`.

        If a replica ends, another one translates the texts that are not finished, and what was delivered already is
        left out.
        """
        began = self._clock()

        async def produce(deliver: Callable[[StreamedSentence | StreamedText | TranslateResult], None]) -> None:
            queue_ms = decode_ms = 0.0
            with self._counted():
                async with self._deadline(within_s) as timeout:
                    choices = await self._chooser.choose(texts, source, target, options)
                    some_model = self._registry.names[0]
                    results: dict[int, TextResult] = {}
                    for part in _parts(choices):
                        how = {"options": options, "caller": caller}
                        async with aclosing(self._stream_part(part, texts, timeout, how)) as found:
                            async for one in found:
                                if isinstance(one, TranslateResult):
                                    queue_ms, decode_ms = queue_ms or one.queue_ms, decode_ms + one.decode_ms
                                    continue
                                if isinstance(one, StreamedText):
                                    one = StreamedText(one.text, _as_detected(one.result, choices[one.text]))
                                    results[one.text] = one.result
                                deliver(one)
                    for number, result in _without_model(texts, choices, options).items():
                        results[number] = result
                        deliver(StreamedText(number, result))
            deliver(
                TranslateResult.of(
                    [results[number] for number in range(len(texts))],
                    some_model,
                    queue_ms=queue_ms,
                    decode_ms=decode_ms,
                    total_ms=(self._clock() - began) * 1000,
                )
            )

        async with aclosing(elements_of(produce)) as elements:
            async for element in elements:
                yield element

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
        """See :meth:`app.serving.service.TranslationService.attention`."""
        with self._counted():
            async with self._deadline(within_s) as timeout:
                (choice,) = await self._chooser.choose([text], source, target, options)
                if not isinstance(choice, ModelChoice):
                    raise choice if isinstance(choice, Exception) else self._chooser.refused(text, target, choice)
                result: AttentionResult = await self._ask(
                    choice.model.engine,
                    timeout,
                    "attention",
                    text,
                    source=choice.source,
                    target=choice.target,
                    options=options,
                    target_text=target_text,
                    steps=steps,
                )
                return replace(result, detected=choice.detected)

    async def _ask(self, engine: str, timeout: asyncio.Timeout, method: str, *arguments: Any, **options: Any) -> Any:
        """The result of a call. If a replica ends before it has answered, another one is asked."""
        retries = _Retries(engine, self._metrics)
        while True:
            try:
                result = await self._engines[engine].call(
                    method, *arguments, **options, within_s=_seconds_left(timeout)
                )
                return _checked(result)
            except (ReplicaLost, NotReady) as error:
                await retries.pause(error)

    async def _stream_part(
        self, part: _Part, texts: Sequence[str], timeout: asyncio.Timeout, how: Mapping[str, Any]
    ) -> AsyncGenerator[StreamedSentence | StreamedText | TranslateResult, None]:
        """Stream some texts, each sentence once, however many replicas end meanwhile."""
        engine = self._engines[part.choice.model.engine]
        pair = {"source": part.choice.source, "target": part.choice.target}
        next_sentence = dict.fromkeys(part.numbers, 0)  # the next sentence of each text that is not finished
        retries = _Retries(part.choice.model.engine, self._metrics)
        while next_sentence:
            numbers = list(next_sentence)
            asked = [texts[number] for number in numbers]
            try:
                arriving = engine.stream("stream", asked, **pair, **how, within_s=_seconds_left(timeout))
                async with aclosing(arriving) as found:
                    async for item in found:
                        one = _checked(item)
                        if isinstance(one, TranslateResult):
                            yield one
                        elif isinstance(one, StreamedText):
                            number = numbers[one.text]
                            del next_sentence[number]
                            yield StreamedText(number, one.result)
                        elif one.index >= next_sentence[numbers[one.text]]:  # sentences of a text arrive in order
                            number = numbers[one.text]
                            next_sentence[number] = one.index + 1
                            yield StreamedSentence(number, one.index, one.translated)
                return
            except (ReplicaLost, NotReady) as error:
                await retries.pause(error)

    async def _watch(self) -> None:
        """Ask the engines for their models, again and again."""
        while True:
            for name, engine in self._engines.items():
                try:
                    async with asyncio.timeout(_DESCRIBE_S):
                        found: list[RemoteModel] = await engine.call("describe")
                    self._described[name] = [replace(model, engine=name) for model in found]
                except (ReplicaLost, NotReady, TimeoutError):
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
            await asyncio.sleep(_LOOK_S if self._state == "loading" else _REFRESH_S)

    def _adopt(self, models: Sequence[RemoteModel]) -> None:
        """Serve these models from now on."""
        registry: Registry[RemoteModel] = Registry()
        for model in models:
            registry.add(model)
        self._registry = registry
        self._chooser = ModelChooser(registry, self._detector, self._on_pool)
        self._metrics.models_changed(len(registry))

    @contextlib.contextmanager
    def _counted(self) -> Iterator[None]:
        self._require("ready")
        yield

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
        """Wait before another replica is asked.

        Args:
            error: Why the last one did not answer.

        Raises:
            NotReady: There is no use in asking another one.
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


def _checked(result: Any) -> Any:
    """The result of a call.

    Raises:
        Exception: The replica refused it.
    """
    if isinstance(result, Refusal):
        raise result.error
    return result


def _parts(choices: Sequence[ModelChoice[RemoteModel] | Unchanged | Exception]) -> list[_Part]:
    """The texts that models translate, by model and pair."""
    parts: dict[tuple[str, str, str], _Part] = {}
    for number, choice in enumerate(choices):
        if isinstance(choice, ModelChoice):
            key = (choice.model.engine, choice.source, choice.target)
            parts.setdefault(key, _Part(choice, [])).numbers.append(number)
    return list(parts.values())


def _without_model(
    texts: Sequence[str],
    choices: Sequence[ModelChoice[RemoteModel] | Unchanged | Exception],
    options: TranslationOptions,
) -> dict[int, TextResult]:
    """The results of the texts that go through no model."""
    return {
        number: answer_without_model(text, choice, options)
        for number, (text, choice) in enumerate(zip(texts, choices, strict=True))
        if not isinstance(choice, ModelChoice)
    }


def _as_detected(text: TextResult, choice: ModelChoice[RemoteModel] | Unchanged | Exception) -> TextResult:
    """A result with the language that the ingress has detected; the replica was told the language."""
    detected = choice.detected if isinstance(choice, ModelChoice) else None
    return text if detected is None else replace(text, detected=detected)


async def _all(calls: Iterator[Any]) -> list[Any]:
    """The results of calls that run at the same time; if one fails, the others are withdrawn."""
    first, *others = list(calls) or [None]
    if not others:
        return [] if first is None else [await first]
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one) for one in (first, *others)]
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from None
    return [task.result() for task in tasks]


def _seconds_left(timeout: asyncio.Timeout) -> float:
    """Seconds until a deadline."""
    when = timeout.when()
    assert when is not None, "every request has a deadline"
    return max(0.001, when - asyncio.get_running_loop().time())
