"""Translation of a request's texts by the models chosen for them: split, decode, align, join.

One driver serves complete answers and streams, whose sentences come in the order of their text.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby, islice
from typing import TYPE_CHECKING, TypeVar

from app.engine.bridge import EngineBridge
from app.engine.caller import Caller
from app.engine.engine import Dropped
from app.engine.scheduler import Admission
from app.errors import InferenceFailed, LimitExceeded
from app.models.registry import LoadedModel
from app.serving.model_choice import ModelChoice, Remembered, Unchanged
from app.serving.prepared_texts import PreparedTexts
from app.serving.request import Memory, TranslationRequest
from app.serving.text_job import TextJob, TextResult, Times, answer_without_model
from app.telemetry.tracing import stage
from model.errors import InputError, ModelError
from model.translation.options import TranslationOptions
from model.translation.results import AttendedSentence

if TYPE_CHECKING:
    from model.translation.confidence import Evidence
    from model.translation.results import TranslatedSentence

_T = TypeVar("_T")

_SMALL_CHARACTERS = 500
"""Texts up to this length are split on the event loop, because handing them to a thread takes longer."""

RETRY_SHARE = 0.5
"""Share of the time until the deadline that a second decoding may take; the rest is for the following stages."""

_SENTENCES_A_CALL = 16
"""Sentences whose attention or confidence is computed in one call of the engine, which takes up to a few tenths of a
second."""


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
class _Text:
    """A text in progress.

    Args:
        index: Its index in the request.
        job: Its sentences and its model.
        result: Its result, once it has been streamed.
        next_sentence: Index of the sentence to be streamed next.
    """

    index: int
    job: TextJob
    result: TextResult | None = None
    next_sentence: int = 0


_Attended = tuple[TextJob, AttendedSentence]
"""A text, and an answer of it whose attention weights are needed."""

Deliver = Callable[[StreamedSentence | StreamedText], None]
"""Called with each sentence and each text of a stream when it is finished."""


class TextTranslation:
    """Translates texts with the models chosen for them. Belongs to the event loop.

    Args:
        bridge: The engine's interface.
        pool: Threads that split and join long texts.
        prepared: Prepares texts for one model.
        max_sentences: Maximum number of sentences in the queue.
        clock: A monotonic clock, in seconds.
    """

    def __init__(
        self,
        bridge: EngineBridge,
        pool: Executor,
        prepared: PreparedTexts,
        max_sentences: int,
        clock: Callable[[], float],
    ) -> None:
        self._bridge = bridge
        self._pool = pool
        self._prepared = prepared
        self._max_sentences = max_sentences
        self._clock = clock

    async def translate(
        self,
        request: TranslationRequest,
        choices: Sequence[ModelChoice[LoadedModel] | Unchanged | Remembered | Exception],
        timeout: asyncio.Timeout,
        deliver: Deliver | None = None,
    ) -> tuple[list[TextResult], Times]:
        """Translate texts; the failure of a text does not affect the others.

        Args:
            request: The request.
            choices: The choice for each text.
            timeout: The request's deadline.
            deliver: Called with sentences and texts as they finish; None if only the results are needed.

        Raises:
            LimitExceeded: The texts have more sentences than the capacity of the queue: retrying cannot help.
            QueueFull: Too many sentences are queued, and the request does not wait.
            DeadlineUnreachable: The texts cannot be translated in time, and the request does not wait.
            Dropped: The engine has stopped.
        """
        options = request.options
        with stage("prepare"):
            prepared = await self._off_loop(
                sum(map(len, request.texts)),
                lambda: [
                    self._prepare(text, choice, options) for text, choice in zip(request.texts, choices, strict=True)
                ],
            )
        texts = [_Text(index, job) for index, job in enumerate(prepared) if isinstance(job, TextJob)]
        num_sentences = sum(text.job.plan.num_sentences for text in texts)
        if num_sentences > self._max_sentences:
            raise LimitExceeded("text", num_sentences, self._max_sentences, "sentences in one request")
        if request.memory is not None:
            await self._remember(texts, request.memory, request.caller, timeout, deliver)
            num_sentences = sum(len(text.job.plan.pending) for text in texts)
        start_time = self._clock()
        admission = Admission.WAIT if request.waits else Admission.REFUSE
        queue_s = await self._decode(texts, request.caller, timeout, admission, deliver) if num_sentences else 0.0
        if unfinished := [text for text in texts if text.job.has_next_leg]:
            await self._continue(unfinished, request, timeout, deliver)
        times = Times(queue_s, max(0.0, self._clock() - start_time - queue_s))
        streamed = {text.index: text.result for text in texts if text.result is not None}
        remaining = [text for text in texts if text.result is None]
        completed = dict(zip([text.index for text in remaining], await self._complete(remaining, timeout), strict=True))
        results = []
        for index, (text, choice) in enumerate(zip(request.texts, prepared, strict=True)):
            if index in streamed:
                results.append(streamed[index])
                continue
            results.append(
                completed[index] if isinstance(choice, TextJob) else answer_without_model(text, choice, options)
            )
            if deliver is not None:
                deliver(StreamedText(index, results[index]))
        return results, times

    async def _remember(
        self,
        texts: Sequence[_Text],
        memory: Memory,
        caller: Caller,
        timeout: asyncio.Timeout,
        deliver: Deliver | None,
    ) -> None:
        """Look up the sentences of texts. Those of texts in two legs are not looked up, as each has another pair."""
        for text in texts:
            plan = text.job.plan
            if len(text.job.choice.legs) == 1 and not plan.options.steering:
                matches = await memory.best(plan.to_look_up, plan.source, plan.target)
                similar = {match.source for match in matches if match is not None and not match.is_exact}
                stored = await self._translated(similar, text.job, caller, timeout) if memory.steers else {}
                plan.remember(matches, stored)
                if deliver is not None and not plan.pending:
                    await self._deliver_finished(text, timeout, deliver)

    async def _translated(
        self, stored: Collection[str], job: TextJob, caller: Caller, timeout: asyncio.Timeout
    ) -> dict[str, str]:
        """The model's translations of stored sentences, as it would translate them in a text; without failures."""
        options = _plain(job.plan.options)
        prepared = [(text, self._prepare(text, job.choice, options)) for text in stored]
        texts = [_Text(index, own) for index, (_, own) in enumerate(prepared) if isinstance(own, TextJob)]
        if any(text.job.plan.pending for text in texts):
            await self._decode(texts, caller, timeout, Admission.ALWAYS, None)
        results = await self._complete(texts, timeout)
        return {
            prepared[text.index][0]: result.result.text
            for text, result in zip(texts, results, strict=True)
            if not isinstance(result.result, Exception)
        }

    async def _continue(
        self, texts: Sequence[_Text], request: TranslationRequest, timeout: asyncio.Timeout, deliver: Deliver | None
    ) -> None:
        """Decode the second legs of texts whose first legs are decoded. They are not refused: half the work is done."""
        jobs = [text.job for text in texts]
        await self._examine(jobs, timeout)
        with stage("prepare"):
            next_jobs = await self._off_loop(
                sum(len(job.plan.text) for job in jobs), lambda: [job.next_leg(request.options) for job in jobs]
            )
        for text, job in zip(texts, next_jobs, strict=True):
            text.job = job
        if any(text.job.plan.pending for text in texts):
            await self._decode(texts, request.caller, timeout, Admission.ALWAYS, deliver)

    async def _decode(
        self,
        texts: Sequence[_Text],
        caller: Caller,
        timeout: asyncio.Timeout,
        admission: Admission,
        deliver: Deliver | None,
    ) -> float:
        """Decode until no sentence is pending; returns the seconds until the first sentence joined a cohort."""
        queue_s = await self._decode_once(texts, caller, timeout, admission, deliver)
        while any(text.job.plan.pending for text in texts):
            try:
                async with asyncio.timeout_at(retry_until(timeout)) as retry_timeout:
                    await self._decode_once(texts, caller, retry_timeout, Admission.ALWAYS, deliver)
            except (TimeoutError, Dropped) as error:
                if isinstance(error, TimeoutError) and not retry_timeout.expired():
                    raise
                for text in texts:
                    text.job.plan.drop_retries()
                    if deliver is not None:
                        await self._deliver_finished(text, timeout, deliver)
        return queue_s

    async def _decode_once(
        self,
        texts: Sequence[_Text],
        caller: Caller,
        timeout: asyncio.Timeout,
        admission: Admission,
        deliver: Deliver | None,
    ) -> float:
        """Decode all pending sentences once. Without a stream, one wake-up of the loop serves all of them."""
        pending = [(text, request) for text in texts for request in text.job.plan.pending]
        requests = [(text.job.translator, request) for text, request in pending]
        if deliver is None:
            outcomes, queue_s = await self._bridge.decode(requests, timeout, caller, admission)
            for (text, request), outcome in zip(pending, outcomes, strict=True):
                text.job.plan.settle_one(request.key, outcome)
            return queue_s
        arriving = self._bridge.decode_each(requests, timeout, caller, admission)
        try:
            async for index, outcome in arriving:
                text, request = pending[index]
                text.job.plan.settle_one(request.key, outcome)
                await self._deliver_finished(text, timeout, deliver)
        finally:
            arriving.close(expired=timeout.expired())
        return arriving.waited_s

    async def _deliver_finished(self, text: _Text, timeout: asyncio.Timeout, deliver: Deliver) -> None:
        """Stream the finished part of a text: sentences up to the first unfinished one, and the text after its last."""
        job, plan = text.job, text.job.plan
        if job.has_next_leg:
            return
        while job.failure is None and text.next_sentence < plan.num_sentences:
            outcome = plan.outcome(text.next_sentence)
            if outcome is None or isinstance(outcome, Exception):
                break
            await self._attend([(job, answer) for answer in plan.attended_by(text.next_sentence)], timeout)
            sentence = job.sentence(text.next_sentence) if job.failure is None else None
            if sentence is not None:
                deliver(StreamedSentence(text.index, text.next_sentence, sentence))
            text.next_sentence += 1
        if text.result is None and not plan.pending:
            (text.result,) = await self._complete([text], timeout)
            deliver(StreamedText(text.index, text.result))

    async def _complete(self, texts: Sequence[_Text], timeout: asyncio.Timeout) -> list[TextResult]:
        """The results of texts whose sentences all have outcomes."""
        if not texts:
            return []
        jobs = [text.job for text in texts]
        await self._examine(jobs, timeout)
        with stage("join"):
            return await self._off_loop(
                sum(len(job.plan.text) for job in jobs),
                lambda: [job.complete() for job in jobs],
                # Writing the candidates of a wide search takes tenths of a second.
                always=any(job.plan.options.return_search for job in jobs),
            )

    async def _examine(self, jobs: Sequence[TextJob], timeout: asyncio.Timeout) -> None:
        """Compute attention and confidence of texts; if a model fails, the error is stored in the job."""
        decoded = [job for job in jobs if job.plan.failure is None and job.failure is None]
        await self._attend([(job, answer) for job in decoded for answer in job.plan.attended], timeout)
        for job in decoded:
            if job.plan.options.return_confidence and job.failure is None:
                await self._collect_evidence(job, timeout)

    async def _attend(self, answers: Iterable[_Attended], timeout: asyncio.Timeout) -> None:
        """Compute missing attention weights; if a model fails, the error is stored in the job."""
        missing = ((job, answer) for job, answer in answers if answer.key not in job.attention)
        for _, of_model in groupby(missing, key=lambda pair: id(pair[0].translator)):
            while batch := list(islice(of_model, _SENTENCES_A_CALL)):
                await self._attend_batch(batch, timeout)

    async def _attend_batch(self, batch: Sequence[_Attended], timeout: asyncio.Timeout) -> None:
        """Compute the attention of sentences of one model; if that fails, of each alone: a failure affects one."""
        align = partial(batch[0][0].translator.align, [answer for _, answer in batch])
        try:
            weights = await self._bridge.call(align, timeout)
        except (InferenceFailed, ModelError) as failure:
            if len(batch) == 1:
                batch[0][0].failure = failure
                return
            for pair in batch:
                await self._attend_batch([pair], timeout)
            return
        for (job, answer), rows in zip(batch, weights, strict=True):
            job.attention[answer.key] = rows

    async def _collect_evidence(self, job: TextJob, timeout: asyncio.Timeout) -> None:
        """Compute the evidence for a text's confidence; other requests decode between the calls."""
        evidence: list[Evidence] = []
        confidence = job.translator.confidence
        try:
            while (begin := len(evidence)) < job.plan.num_sentences:
                examine = partial(confidence, job.plan, begin, begin + _SENTENCES_A_CALL)
                evidence += await self._bridge.call(examine, timeout)
        except (InferenceFailed, ModelError) as failure:
            job.failure = failure
        else:
            job.evidence = evidence

    def _prepare(
        self,
        text: str,
        choice: ModelChoice[LoadedModel] | Unchanged | Remembered | Exception,
        options: TranslationOptions,
    ) -> TextJob | Unchanged | Remembered | Exception:
        """A text split into sentences, or why it is not translated. A text that cannot be prepared fails alone."""
        if not isinstance(choice, ModelChoice):
            return choice
        try:
            return TextJob.of(text, choice, options, self._prepared)
        except InputError as error:
            return error

    async def _off_loop(self, num_characters: int, run: Callable[[], _T], *, always: bool = False) -> _T:
        if num_characters <= _SMALL_CHARACTERS and not always:
            return run()
        return await asyncio.get_running_loop().run_in_executor(self._pool, run)


def retry_until(timeout: asyncio.Timeout) -> float | None:
    """The loop's time when second decodings are given up; None without a deadline.

    Args:
        timeout: The request's deadline.
    """
    when, now = timeout.when(), asyncio.get_running_loop().time()
    return None if when is None else now + RETRY_SHARE * (when - now)


def _plain(options: TranslationOptions) -> TranslationOptions:
    """The options for a stored sentence: it is plain text, of which only the translation is needed."""
    return replace(
        options,
        format="text",
        ignore_tags=(),
        splitting_tags=(),
        non_splitting_tags=(),
        num_hypotheses=1,
        return_scores=False,
        return_alignment=False,
        return_confidence=False,
    )
