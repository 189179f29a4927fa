"""From sentences to the engine and back: the rounds of decoding that a request's texts take, and their alignments."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from app.engine.bridge import EngineBridge
from app.errors import InferenceFailed, LimitExceeded
from app.serving.text_job import TextJob
from model.errors import ModelError
from model.text_pipeline import settle_all

if TYPE_CHECKING:
    from torch import Tensor


class TextDecoder:
    """Has the sentences of texts decoded and aligned. Belongs to the event loop.

    Args:
        bridge: To the engine.
        max_sentences: Sentences that may wait at all.
    """

    def __init__(self, bridge: EngineBridge, max_sentences: int) -> None:
        self._bridge = bridge
        self._max_sentences = max_sentences

    async def decode(self, jobs: Sequence[TextJob], timeout: asyncio.Timeout) -> float:
        """Decode what texts have pending, until nothing is. A sentence that fails leaves its error in its plan.

        Args:
            jobs: The texts.
            timeout: The request's deadline.

        Returns:
            Seconds until the first sentence joined its model.

        Raises:
            LimitExceeded: They have more sentences than may wait at all.
            QueueFull: Too many sentences wait.
            Dropped: The engine has stopped.
        """
        plans = [job.plan for job in jobs]
        num_sentences = sum(len(plan.pending) for plan in plans)
        if not num_sentences:
            return 0.0
        if num_sentences > self._max_sentences:
            # Trying again would never help, so this is no full queue.
            raise LimitExceeded("text", num_sentences, self._max_sentences, "sentences in one request")
        queue_s = await self._decode_once(jobs, timeout)
        while any(plan.pending for plan in plans):
            await self._decode_once(jobs, timeout)
        return queue_s

    async def align(self, jobs: Sequence[TextJob], timeout: asyncio.Timeout) -> None:
        """Ask each text's model where it looked; a model that fails leaves its error in the job.

        Args:
            jobs: The texts, decoded.
            timeout: The request's deadline.
        """
        for job in jobs:
            if job.plan.failure is not None:
                continue
            try:
                job.attention = await self._align(job, timeout) if job.plan.sentences else []
            except (InferenceFailed, ModelError) as failure:
                job.failure = failure

    async def _decode_once(self, jobs: Sequence[TextJob], timeout: asyncio.Timeout) -> float:
        requests = [(job.translator, request) for job in jobs for request in job.plan.pending]
        outcomes, queue_s = await self._bridge.decode(requests, timeout)
        settle_all([job.plan for job in jobs], outcomes)
        return queue_s

    async def _align(self, job: TextJob, timeout: asyncio.Timeout) -> list[Tensor]:
        return await self._bridge.call(lambda: job.translator.align(job.plan), timeout)
