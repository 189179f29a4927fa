"""Translation of a request's texts as a stream: each sentence when it is finished, in the order of its text."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.engine.bridge import EngineBridge
from app.engine.caller import Caller
from app.engine.engine import Dropped
from app.engine.scheduler import Admission
from app.models.registry import LoadedModel
from app.serving.model_choice import ModelChoice, Unchanged
from app.serving.text_job import TextJob, TextResult, answer_without_model
from app.serving.text_translation import TextTranslation, Times, retry_until
from model.translation.options import TranslationOptions

if TYPE_CHECKING:
    from model.decoding.sentence import DecodingRequest
    from model.translation.results import TranslatedSentence


@dataclass(frozen=True)
class StreamedSentence:
    """A finished sentence.

    Args:
        text: The index of its text.
        index: Its index in the text.
        translated: Its translation.
    """

    text: int
    index: int
    translated: TranslatedSentence


@dataclass(frozen=True)
class StreamedText:
    """A finished text.

    Args:
        text: Its index.
        result: Its translation or its error.
    """

    text: int
    result: TextResult


@dataclass(eq=False)
class _Progress:
    """A text on its way.

    Args:
        number: The index of the text.
        job: The text.
        num_left: Sentences that have no final outcome.
        next_sentence: Index of the sentence to be streamed next.
    """

    number: int
    job: TextJob
    num_left: int
    next_sentence: int = 0


class TextStream:
    """Streams one request. Belongs to the event loop; use it once.

    Args:
        translation: What prepares and completes texts.
        bridge: The engine's interface.
        clock: A monotonic clock, in seconds.

    Attributes:
        times: How long the texts took, at the end of the stream.
    """

    def __init__(self, translation: TextTranslation, bridge: EngineBridge, clock: Callable[[], float]) -> None:
        self._translation = translation
        self._bridge = bridge
        self._clock = clock
        self.times = Times(0.0, 0.0)

    async def translate(
        self,
        texts: Sequence[str],
        choices: Sequence[ModelChoice[LoadedModel] | Unchanged | Exception],
        options: TranslationOptions,
        timeout: asyncio.Timeout,
        caller: Caller,
        deliver: Callable[[StreamedSentence | StreamedText], None],
    ) -> None:
        """See :meth:`app.serving.text_translation.TextTranslation.translate`.

        Args:
            texts: The texts.
            choices: The choice for each text.
            options: How to decode.
            timeout: The request's deadline.
            caller: Whose texts they are.
            deliver: Called with each sentence and each text when it is finished.

        Raises:
            LimitExceeded: The texts have more sentences than the queue can hold.
            QueueFull: Too many sentences wait.
            DeadlineUnreachable: The texts would not be translated in time.
            Dropped: The engine has stopped.
        """
        prepared = await self._translation.prepare(texts, choices, options)
        under_way = [
            _Progress(number, one, one.plan.num_sentences)
            for number, one in enumerate(prepared)
            if isinstance(one, TextJob)
        ]
        self._translation.check_number([one.job for one in under_way])
        began = self._clock()
        queue_s: float | None = None
        while requests := [(one, request) for one in under_way for request in one.job.plan.pending]:
            is_first = queue_s is None  # nothing has been streamed yet, so the request may be refused
            try:
                has_all, waited_s = await self._decode_each(requests, timeout, caller, deliver, is_first=is_first)
            except Dropped:
                if is_first:
                    raise
                has_all, waited_s = False, 0.0
            queue_s = waited_s if queue_s is None else queue_s
            if not has_all:
                for one in under_way:
                    if dropped := one.job.plan.drop_retries():
                        await self._deliver_finished(one, len(dropped), timeout, deliver)
        self.times = Times(queue_s or 0.0, max(0.0, self._clock() - began - (queue_s or 0.0)))
        for number, (text, prepared_text) in enumerate(zip(texts, prepared, strict=True)):
            if not isinstance(prepared_text, TextJob):
                deliver(StreamedText(number, answer_without_model(text, prepared_text, options)))
            elif not prepared_text.plan.num_sentences:
                deliver(StreamedText(number, await self._translation.complete_one(prepared_text, timeout)))

    async def _decode_each(
        self,
        requests: Sequence[tuple[_Progress, DecodingRequest]],
        timeout: asyncio.Timeout,
        caller: Caller,
        deliver: Callable[[StreamedSentence | StreamedText], None],
        *,
        is_first: bool,
    ) -> tuple[bool, float]:
        """Decode once; returns whether there are all outcomes, and the seconds until the first sentence joined."""
        arriving = self._bridge.decode_each(
            [(one.job.translator, request) for one, request in requests],
            timeout,
            caller,
            Admission.REFUSE if is_first else Admission.ALWAYS,
            until=None if is_first else retry_until(timeout),
        )
        try:
            async for place, outcome in arriving:
                one, request = requests[place]
                one.job.plan.settle_one(request.key, outcome)
                if one.job.plan.outcome(request.key) is not None:  # it is not decoded again
                    await self._deliver_finished(one, 1, timeout, deliver)
        finally:
            arriving.close(expired=timeout.expired())
        return not arriving.is_over, arriving.waited_s

    async def _deliver_finished(
        self,
        one: _Progress,
        num_finished: int,
        timeout: asyncio.Timeout,
        deliver: Callable[[StreamedSentence | StreamedText], None],
    ) -> None:
        one.num_left -= num_finished
        for finished in await self._finished(one, timeout):
            deliver(finished)

    async def _finished(self, one: _Progress, timeout: asyncio.Timeout) -> list[StreamedSentence | StreamedText]:
        """What can be streamed of a text now: sentences behind no unfinished one, and the text after its last."""
        found: list[StreamedSentence | StreamedText] = []
        job, plan = one.job, one.job.plan
        while job.failure is None and one.next_sentence < plan.num_sentences:
            outcome = plan.outcome(one.next_sentence)
            if outcome is None or isinstance(outcome, Exception):
                break
            answers = plan.attended_by(one.next_sentence)
            await self._translation.attend([(job, answer) for answer in answers], timeout)
            translated = job.sentence(one.next_sentence) if job.failure is None else None
            if translated is not None:
                found.append(StreamedSentence(one.number, one.next_sentence, translated))
            one.next_sentence += 1
        if not one.num_left:
            found.append(StreamedText(one.number, await self._translation.complete_one(job, timeout)))
        return found
