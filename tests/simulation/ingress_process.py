"""A process that is an ingress: clients send it requests, and it calls engine replicas."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from functools import lru_cache
from typing import TYPE_CHECKING

from app.cluster.calls import Description, RemoteModel
from app.cluster.replicas import Engine, _Replica
from app.cluster.service import MAX_LOSSES, RemoteTranslations
from app.errors import (
    DeadlineExceeded,
    DeadlineUnreachable,
    InferenceFailed,
    LimitExceeded,
    NotReady,
    QueueFull,
)
from app.serving.request import TranslationRequest
from app.serving.text_job import TextResult, TranslateResult
from app.serving.text_translation import StreamedSentence, StreamedText
from app.settings import Settings
from app.telemetry.metrics import Metrics
from model.errors import DecodingError
from model.translation.options import TranslationOptions
from tests.app.fakes import WordDetector
from tests.simulation.cluster_scenario import MAX_DEADLINE_S, MODELS, ClusterScenario, Translate
from tests.simulation.ledger import require
from tests.simulation.network import DELAYS_S
from tests.simulation.process import LOST_S, Attempt, Process
from tests.simulation.scenario import What
from tests.simulation.stand_in import FAILS

if TYPE_CHECKING:
    from tests.simulation.cluster_world import ClusterWorld

ANSWER_S = 5.0
"""Seconds within which all replicas must answer a search."""


class SimulatedEngine(Engine):
    """An engine whose replicas are those of the world.

    Args:
        world: The world.
    """

    def __init__(self, world: ClusterWorld) -> None:
        super().__init__(world.kernel.rng.random)
        self.replicas: dict[_Replica, None] = {}
        """All that were ever known."""
        self._world = world

    async def discover(self) -> Sequence[Description]:
        """See :class:`app.cluster.replicas.Engine`; replicas may end before the answer arrives."""
        world = self._world
        await asyncio.sleep(world.kernel.rng.choice(DELAYS_S))
        if world.num_failing_searches:
            world.num_failing_searches -= 1
            raise NotReady(5.0, "failed")
        if any(world.network.silent_s(replica.loop) > 0 for replica in world.running_replicas):
            await asyncio.sleep(ANSWER_S)
            raise NotReady(5.0, "failed")
        answers = [replica.describe() for replica in world.running_replicas]
        await asyncio.sleep(world.kernel.rng.choice(DELAYS_S))
        return [answer for answer in answers if answer is not None]

    async def describe(self) -> Sequence[RemoteModel]:
        """See :class:`app.cluster.replicas.Engine`."""
        try:
            return await super().describe()
        finally:
            self.replicas.update(dict.fromkeys(self._replicas.values()))

    async def metrics(self) -> Mapping[str, bytes]:
        """See :class:`app.cluster.replicas.Engine`."""
        return {}


class IngressProcess(Process):
    """One life of an ingress.

    Args:
        world: The world.
    """

    world: ClusterWorld

    def __init__(self, world: ClusterWorld) -> None:
        super().__init__(world)
        scenario, clock = world.scenario, world.kernel.clock
        assert isinstance(scenario, ClusterScenario)
        self.loop.network = world.network
        self.metrics = Metrics()
        lose = self.metrics.replica_lost

        def watched_lose() -> None:
            world.trace.note(clock(), "call lost")
            lose()

        vars(self.metrics)["replica_lost"] = watched_lose
        self._replicas = SimulatedEngine(world)
        self._max_waiting = scenario.max_waiting
        self._service = RemoteTranslations(
            _settings(scenario), self.metrics, {"engine": self._replicas}, clock, WordDetector(), self.threads
        )

    @property
    def is_lowered(self) -> bool:
        """See :class:`tests.simulation.process.Process`; it has no engine."""
        return False

    def check(self) -> None:
        """See :class:`tests.simulation.process.Process`."""
        num_calls = sum(replica.num_calls for replica in self._replicas.replicas)
        require(num_calls <= len(MODELS) * len(self.attempts), "more calls than requests have", num_calls)

    def check_end(self) -> None:
        """See :class:`tests.simulation.process.Process`."""
        for replica in self._replicas.replicas:
            require(not replica.num_calls, "calls are counted that have ended", replica.num_calls)
            require(not replica._connections, "connections without a call stay", len(replica._connections))
        open_ends = self.world.network.of(self.loop)
        require(not open_ends, "connections stay open", len(open_ends))

    def happen(self, what: What) -> None:
        """See :class:`tests.simulation.process.Process`."""
        raise AssertionError("it has no events of its own")

    def close(self) -> None:
        """End its connections."""
        self.world.network.cut(self.loop)

    async def _live(self) -> None:
        await self._service.start()
        await self.stopping.wait()
        self.accepts = False
        while self.attempts:
            await asyncio.sleep(0.01)
        await self._service.stop()
        ends_at = self.loop.time() + LOST_S
        while self.loop.time() < ends_at and (self.world.network.of(self.loop) or len(asyncio.all_tasks()) > 1):
            await asyncio.sleep(0.01)
        require(len(asyncio.all_tasks()) == 1, "tasks stay", *asyncio.all_tasks())
        self.world.ended(self, False)

    async def _answer(self, attempt: Attempt) -> str:
        ask = attempt.request
        assert isinstance(ask, Translate)
        request = _request_of(ask)
        try:
            if ask.streams:
                result = await self._read_stream(ask, request)
            else:
                result = await self._service.translate(request)
        except DeadlineExceeded:
            require(self._may_expire(ask, attempt), "a request expired without reason", ask.number)
            return "expired"
        except (QueueFull, DeadlineUnreachable) as error:
            require(1 <= (error.retry_after_s or 1.0) <= 60, "Retry-After", error.retry_after_s)
            return type(error).__name__
        except LimitExceeded:
            require(ask.num_sentences > self._max_waiting, "a request of this length was refused", ask.num_sentences)
            return "limit exceeded"
        except NotReady as error:
            require(self._may_be_unready(error, attempt), "a refusal without reason", ask.number, error.reason)
            return "not_ready"
        except Exception as error:
            require(False, "an error that no request may have", ask.number, repr(error))
            raise
        require(len(result.texts) == len(ask.texts), "texts are missing", ask.number)
        for index, text in enumerate(result.texts):
            self._check_text(ask, index, text)
        return "answered"

    async def _read_stream(self, ask: Translate, request: TranslationRequest) -> TranslateResult:
        """The last element of a stream, which has each sentence once and in order, and then its text."""
        next_sentence = [0] * len(ask.texts)
        texts: dict[int, TextResult] = {}
        async with aclosing(self._service.stream(request)) as elements:
            async for element in elements:
                if isinstance(element, TranslateResult):
                    require(element.texts == [texts.get(index) for index in range(len(ask.texts))], "a stream's result")
                    return element
                index = element.text
                require(index not in texts, "a text that had ended continues", ask.number, index)
                if isinstance(element, StreamedText):
                    texts[index] = element.result
                    require(
                        isinstance(element.result.result, Exception)
                        or next_sentence[index] == len(ask.texts[index][1]),
                        "a stream lacks sentences",
                        ask.number,
                        index,
                    )
                else:
                    self._check_sentence(ask, element, next_sentence[index])
                    next_sentence[index] += 1
                await asyncio.sleep(ask.reads_s)
        raise AssertionError("a stream has no end")

    def _check_sentence(self, ask: Translate, element: StreamedSentence, next_index: int) -> None:
        require(element.index == next_index, "sentences of a stream", ask.number, element.index, next_index)
        language, sentences = ask.texts[element.text]
        right = _translated(language, sentences[element.index])
        require(element.translated.text == right, "a wrong sentence", ask.number, element.translated.text, right)

    def _check_text(self, ask: Translate, index: int, text: TextResult) -> None:
        """A text has the right translation, or an error with a reason."""
        language, sentences = ask.texts[index]
        result = text.result
        if isinstance(result, InferenceFailed):
            failed = any((MODELS[language], sentence) in self.world.failed for sentence in sentences)
            require(failed, "a text failed without reason", ask.number, index)
        elif isinstance(result, DecodingError):
            require(any(FAILS in sentence for sentence in sentences), "a text has no answer", ask.number, index)
        elif isinstance(result, Exception):
            require(False, "an error that no text may have", ask.number, repr(result))
        else:
            right = " ".join(_translated(language, sentence) for sentence in sentences)
            require(result.text == right, "a wrong translation", ask.number, result.text, right)
            require(text.model == MODELS[language], "another model", ask.number, text.model)
            if ask.source == "auto":
                detected = None if text.detected is None else text.detected.language
                require(detected == language, "another language is detected", ask.number, index, detected)

    def _may_expire(self, ask: Translate, attempt: Attempt) -> bool:
        """Whether a request may have expired: time was short, no replica took calls, or the model or machine hung."""
        return ask.deadline_s < MAX_DEADLINE_S or not self.world.is_calm(attempt.began)

    def _may_be_unready(self, error: NotReady, attempt: Attempt) -> bool:
        """Whether a request may have been refused: no replica was known yet, or too many were lost."""
        if error.reason == "loading":
            return self._service.state == "loading"
        return error.reason == "failed" and self.world.num_losses(attempt.began) >= MAX_LOSSES


def _request_of(ask: Translate) -> TranslationRequest:
    return TranslationRequest(
        [" ".join(sentences) for _, sentences in ask.texts],
        ask.source,
        "de",
        TranslationOptions(decoding="greedy") if ask.beam_size == 1 else TranslationOptions(beam_size=ask.beam_size),
        ask.caller,
        ask.waits,
        within_s=ask.deadline_s,
    )


def _translated(language: str, sentence: str) -> str:
    return (MODELS[language][0] + sentence).upper()


@lru_cache(maxsize=1)
def _settings(scenario: ClusterScenario) -> Settings:
    """The settings of all ingresses of a simulation."""
    return Settings(deadline_s=scenario.deadline_s)
