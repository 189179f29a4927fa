"""Translation of a request's texts by the models chosen for them: split, decode, align, join."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import groupby, islice
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from app.engine.bridge import EngineBridge
from app.engine.caller import Caller
from app.engine.engine import Dropped
from app.engine.scheduler import Admission
from app.errors import InferenceFailed, LimitExceeded
from app.models.registry import LoadedModel
from app.serving.model_choice import ModelChoice, Unchanged
from app.serving.text_job import TextJob, TextResult, answer_without_model
from app.telemetry.tracing import stage
from model.errors import InputError, ModelError
from model.translation.options import TranslationOptions
from model.translation.plan import settle_all
from model.translation.results import AttendedSentence

if TYPE_CHECKING:
    from model.translation.confidence import Evidence

_T = TypeVar("_T")

_SMALL_CHARACTERS = 500
"""Texts up to this length are split on the event loop, because handing them to a thread takes longer."""

RETRY_SHARE = 0.5
"""Share of the time left until the deadline that a second decoding may take. The rest is for what follows it."""

_SENTENCES_A_CALL = 16
"""Sentences whose attention or confidence is computed in one call of the engine, which takes up to some tenths of a
second."""


class Times(NamedTuple):
    """How long a request's texts took.

    Args:
        queue_s: Seconds until the first sentence joined a cohort.
        decode_s: Seconds from then until the last sentence finished.
    """

    queue_s: float
    decode_s: float


class TextTranslation:
    """Translates texts with the models chosen for them. Belongs to the event loop.

    Args:
        bridge: The engine's interface.
        pool: Threads that split and join long texts.
        max_sentences: Maximum number of sentences in the queue.
        clock: A monotonic clock, in seconds.
    """

    def __init__(
        self, bridge: EngineBridge, pool: ThreadPoolExecutor, max_sentences: int, clock: Callable[[], float]
    ) -> None:
        self._bridge = bridge
        self._pool = pool
        self._max_sentences = max_sentences
        self._clock = clock

    async def translate(
        self,
        texts: Sequence[str],
        choices: Sequence[ModelChoice[LoadedModel] | Unchanged | Exception],
        options: TranslationOptions,
        timeout: asyncio.Timeout,
        caller: Caller,
        *,
        waits: bool = False,
    ) -> tuple[list[TextResult], Times]:
        """Translate texts; the failure of a text does not affect the others.

        Args:
            texts: The texts.
            choices: The choice for each text.
            options: How to decode.
            timeout: The request's deadline.
            caller: Whose texts they are.
            waits: Whether to wait until the deadline for room in the queue, and however long it will take.

        Raises:
            LimitExceeded: The texts have more sentences than the queue can hold.
            QueueFull: Too many sentences wait, and ``waits`` is false.
            DeadlineUnreachable: The texts would not be translated in time, and ``waits`` is false.
            Dropped: The engine has stopped.
        """
        num_characters = sum(map(len, texts))
        prepared = await self.prepare(texts, choices, options)
        jobs = [one for one in prepared if isinstance(one, TextJob)]
        submitted = self._clock()
        queue_s = await self._decode(jobs, timeout, caller, waits)
        decode_s = max(0.0, self._clock() - submitted - queue_s)
        await self._examine(jobs, timeout)
        with stage("join"):
            completed = iter(
                await self._off_loop(
                    num_characters, lambda: [job.complete() for job in jobs], always=options.return_search
                )
            )
        results = [
            next(completed) if isinstance(one, TextJob) else answer_without_model(text, one, options)
            for text, one in zip(texts, prepared, strict=True)
        ]
        return results, Times(queue_s, decode_s)

    async def prepare(
        self,
        texts: Sequence[str],
        choices: Sequence[ModelChoice[LoadedModel] | Unchanged | Exception],
        options: TranslationOptions,
    ) -> list[TextJob | Unchanged | Exception]:
        """Split texts into sentences; a text that is not translated, or cannot be prepared, is its reason.

        Args:
            texts: The texts.
            choices: The choice for each text.
            options: How to decode.
        """
        with stage("prepare"):
            return await self._off_loop(
                sum(map(len, texts)),
                lambda: [_prepared(text, one, options) for text, one in zip(texts, choices, strict=True)],
            )

    def check_number(self, jobs: Iterable[TextJob]) -> int:
        """The number of sentences of some texts.

        Raises:
            LimitExceeded: They are more than the queue can hold: retrying cannot help, so this is not a QueueFull.
        """
        num_sentences = sum(job.plan.num_sentences for job in jobs)
        if num_sentences > self._max_sentences:
            raise LimitExceeded("text", num_sentences, self._max_sentences, "sentences in one request")
        return num_sentences

    async def complete_one(self, job: TextJob, timeout: asyncio.Timeout) -> TextResult:
        """The result of a text whose sentences all have outcomes.

        Args:
            job: The text.
            timeout: The request's deadline.
        """
        await self._examine([job], timeout)
        with stage("join"):
            return await self._off_loop(len(job.plan.text), job.complete, always=job.plan.options.return_search)

    async def _decode(self, jobs: Sequence[TextJob], timeout: asyncio.Timeout, caller: Caller, waits: bool) -> float:
        """Decode until no sentence is pending; returns the seconds until the first sentence joined a cohort."""
        if not self.check_number(jobs):
            return 0.0
        admission = Admission.WAIT if waits else Admission.REFUSE
        queue_s = await self._decode_once(jobs, timeout, caller, admission)
        while any(job.plan.pending for job in jobs):
            try:
                async with asyncio.timeout_at(retry_until(timeout)) as retry_timeout:
                    await self._decode_once(jobs, retry_timeout, caller, Admission.ALWAYS)
            except (TimeoutError, Dropped) as error:
                if isinstance(error, TimeoutError) and not retry_timeout.expired():
                    raise
                for job in jobs:
                    job.plan.drop_retries()
        return queue_s

    async def _decode_once(
        self, jobs: Sequence[TextJob], timeout: asyncio.Timeout, caller: Caller, admission: Admission
    ) -> float:
        requests = [(job.translator, request) for job in jobs for request in job.plan.pending]
        outcomes, queue_s = await self._bridge.decode(requests, timeout, caller, admission)
        settle_all([job.plan for job in jobs], outcomes)
        return queue_s

    async def _examine(self, jobs: Sequence[TextJob], timeout: asyncio.Timeout) -> None:
        """Compute what completing the texts needs; if a model fails, its error is stored in the job."""
        decoded = [job for job in jobs if job.plan.failure is None]
        await self.attend([(job, one) for job in decoded for one in job.plan.attended], timeout)
        for job in decoded:
            if job.plan.options.return_confidence and job.failure is None:
                await self._collect_evidence(job, timeout)

    async def attend(self, answers: Iterable[tuple[TextJob, AttendedSentence]], timeout: asyncio.Timeout) -> None:
        """Compute attention that is not known yet; if a model fails, its error is stored in the job.

        Args:
            answers: Answers that are attended, with their texts.
            timeout: The request's deadline.
        """
        unknown = ((job, one) for job, one in answers if one.key not in job.attention)
        for _, of_model in groupby(unknown, key=lambda pair: id(pair[0].translator)):
            for some in _batches(of_model, _SENTENCES_A_CALL):
                await self._attend(some, timeout)

    async def _attend(self, some: Sequence[tuple[TextJob, AttendedSentence]], timeout: asyncio.Timeout) -> None:
        """Compute the attention of sentences of one model; if that fails, of each alone: the others do not fail."""
        align = partial(some[0][0].translator.align, [one for _, one in some])
        try:
            weights = await self._bridge.call(align, timeout)
        except (InferenceFailed, ModelError) as failure:
            if len(some) == 1:
                some[0][0].failure = failure
                return
            for pair in some:
                await self._attend([pair], timeout)
            return
        for (job, one), rows in zip(some, weights, strict=True):
            job.attention[one.key] = rows

    async def _collect_evidence(self, job: TextJob, timeout: asyncio.Timeout) -> None:
        """Compute what a text's confidence is made of; other requests decode between the calls."""
        found: list[Evidence] = []
        confidence = job.translator.confidence
        try:
            while (begin := len(found)) < job.plan.num_sentences:
                examine = partial(confidence, job.plan, begin, begin + _SENTENCES_A_CALL)
                found += await self._bridge.call(examine, timeout)
        except (InferenceFailed, ModelError) as failure:
            job.failure = failure
        else:
            job.evidence = found

    async def _off_loop(self, num_characters: int, run: Callable[[], _T], *, always: bool = False) -> _T:
        # The candidates of a wide search take tenths of a second to be written.
        if num_characters <= _SMALL_CHARACTERS and not always:
            return run()
        return await asyncio.get_running_loop().run_in_executor(self._pool, run)


def retry_until(timeout: asyncio.Timeout) -> float | None:
    """The time of the loop until which second decodings are waited for; None without a deadline.

    Args:
        timeout: The request's deadline.
    """
    when, now = timeout.when(), asyncio.get_running_loop().time()
    return None if when is None else now + RETRY_SHARE * (when - now)


def _prepared(
    text: str, choice: ModelChoice[LoadedModel] | Unchanged | Exception, options: TranslationOptions
) -> TextJob | Unchanged | Exception:
    """A text split into sentences, or why it is not translated. A text that cannot be prepared fails alone."""
    if not isinstance(choice, ModelChoice):
        return choice
    try:
        return TextJob.of(text, choice, options)
    except InputError as error:
        return error


def _batches(items: Iterable[_T], size: int) -> Iterator[list[_T]]:
    """Items in lists of at most ``size``."""
    remaining = iter(items)
    while some := list(islice(remaining, size)):
        yield some
