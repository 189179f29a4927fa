"""Translation of a request's texts as a stream: each sentence when it is finished, in the order of its text."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.engine.bridge import EngineBridge
from app.engine.caller import Caller
from app.models.registry import LoadedModel
from app.serving.model_choice import ModelChoice, Unchanged
from app.serving.text_job import TextJob, TextResult, answer_without_model
from app.serving.text_translation import TextTranslation, Times
from model.decoding.options import DecodingOptions

if TYPE_CHECKING:
    from model.text_plan import TranslatedSentence


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
    """Streams one request. Belongs to the event loop; iterate once.

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
        options: DecodingOptions,
        timeout: asyncio.Timeout,
        caller: Caller,
    ) -> AsyncGenerator[StreamedSentence | StreamedText, None]:
        """See :meth:`app.serving.text_translation.TextTranslation.translate`.

        Args:
            texts: The texts.
            choices: The choice for each text.
            options: How to decode.
            timeout: The request's deadline.
            caller: Whose texts they are.

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
            # Nothing has been streamed yet when this is refused for the first time.
            decoded = [(one.job.translator, request) for one, request in requests]
            arriving = self._bridge.decode_each(decoded, timeout, caller, refuse_late=queue_s is None)
            try:
                async for place, outcome in arriving:
                    one, request = requests[place]
                    one.job.plan.settle_one(request.key, outcome)
                    if one.job.plan.outcome(request.key) is None:
                        continue  # it is decoded again
                    one.num_left -= 1
                    for finished in await self._finished(one, timeout):
                        yield finished
            finally:
                arriving.close(expired=timeout.expired())
            queue_s = arriving.waited_s if queue_s is None else queue_s
        self.times = Times(queue_s or 0.0, max(0.0, self._clock() - began - (queue_s or 0.0)))
        for number, (text, prepared_text) in enumerate(zip(texts, prepared, strict=True)):
            if not isinstance(prepared_text, TextJob):
                yield StreamedText(number, answer_without_model(text, prepared_text, options))
            elif not prepared_text.plan.num_sentences:
                yield StreamedText(number, await self._translation.complete_one(prepared_text, timeout))

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
