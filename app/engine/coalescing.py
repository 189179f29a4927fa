"""Caching and coalescing in front of the engine.

A cached sentence is not decoded. A sentence that equals one in the engine shares its outcome. All others are submitted
to the engine. An outcome is delivered to every request that waits for it; a sentence is withdrawn from the engine when
the last of these requests is cancelled.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field

from app.engine.caller import UNKNOWN_CALLER, Caller
from app.engine.engine import Engine
from app.engine.queued_sentence import ModelRequest, QueuedSentence
from app.engine.scheduler import Admission
from app.engine.translation_cache import SentenceKey, TranslationCache
from app.telemetry.metrics import Metrics
from app.threads import SYSTEM, Threads
from model.decoding.options import Hypothesis, Outcome


@dataclass(eq=False)
class PendingRequest:
    """The sentences a caller submitted together, and their outcomes so far.

    Args:
        num_sentences: Number of sentences.
        submitted_at: Clock time of the submission.
        all_done: Called when the last sentence in the engine has an outcome, on any thread.
        one_done: Called with a sentence's index and its outcome, on any thread.
        settled: Outcomes by index of the sentence.
        sentences: Its sentences in the engine, shared ones included.
    """

    num_sentences: int
    submitted_at: float
    all_done: Callable[[], None]
    one_done: Callable[[int, Outcome], None] | None = None
    settled: dict[int, Outcome] = field(default_factory=dict)
    sentences: list[QueuedSentence] = field(default_factory=list)

    @property
    def is_done(self) -> bool:
        """Whether every sentence has an outcome."""
        return len(self.settled) == self.num_sentences

    @property
    def outcomes(self) -> list[Outcome]:
        """The outcomes in order; requires :attr:`is_done`."""
        return [self.settled[index] for index in range(self.num_sentences)]

    @property
    def waited_s(self) -> float:
        """Seconds until its first sentence joined a cohort; 0 if a sentence was cached or had already joined."""
        if len(self.sentences) < self.num_sentences:
            return 0.0
        return max(0.0, min(sentence.started_at for sentence in self.sentences) - self.submitted_at)


@dataclass(eq=False)
class _Shared:
    """A sentence to decode, and the requests that wait for it, each with the index of its sentence.

    Once nobody waits for it, it refers to neither: the sentence refers to it, and only the garbage collector would find
    that both can go, while all requests wait.
    """

    key: SentenceKey | None
    request: ModelRequest
    waiting: list[tuple[PendingRequest, int]] = field(default_factory=list)
    sentence: QueuedSentence | None = None  # once it is in the engine


class SharedDecoding:
    """Submits sentences to the engine, equal sentences once. Its methods may be called from any thread.

    Args:
        engine: The engine.
        cache: The cache of hypotheses, which this object's lock protects.
        coalesce: Whether equal sentences share one decoding.
        metrics: The metrics to update.
        clock: A monotonic clock, in seconds.
        threads: Where its lock comes from.
    """

    def __init__(
        self,
        engine: Engine,
        cache: TranslationCache,
        coalesce: bool,
        metrics: Metrics,
        clock: Callable[[], float] = time.monotonic,
        threads: Threads = SYSTEM,
    ) -> None:
        self._engine = engine
        self._cache = cache
        self._coalesce = coalesce
        self._metrics = metrics
        self._clock = clock
        self._lock = threads.lock()  # must be acquired before the engine's lock, never after it
        self._in_engine: dict[Hashable, _Shared] = {}
        self._of_request: dict[PendingRequest, list[Hashable]] = {}

    def submit(
        self,
        requests: Sequence[ModelRequest],
        all_done: Callable[[], None],
        one_done: Callable[[int, Outcome], None] | None = None,
        caller: Caller = UNKNOWN_CALLER,
        within_s: float | None = None,
        admission: Admission = Admission.REFUSE,
    ) -> PendingRequest:
        """Submit sentences for a caller.

        Args:
            requests: The sentences and their models.
            all_done: Called when every sentence has an outcome, on the engine's thread; not if all are cached.
            one_done: Called with each sentence's index and outcome, on the engine's thread, before ``all_done``.
            caller: The caller.
            within_s: Seconds until the deadline; None if the sentences are not to be refused for it.
            admission: Whether the sentences may be refused.

        Returns:
            The object that collects the outcomes.

        Raises:
            Dropped: The engine has stopped.
            QueueFull: The sentences that must be decoded do not fit into the queue.
            DeadlineUnreachable: They would probably not be finished in time.
        """
        pending = PendingRequest(len(requests), self._clock(), all_done, one_done)
        with self._lock:
            names = self._look_up(requests, pending.settled)
            cached = list(pending.settled)
            by_name = dict(names.values())
            new = {name: shared for name, shared in by_name.items() if shared.sentence is None}
            in_engine = [shared.sentence for shared in by_name.values() if shared.sentence is not None]
            if new:
                self._submit_new(new, caller, within_s, admission)
            if in_engine:
                self._engine.hasten(in_engine, caller)  # the other request may be long, and far back in the queue
            for index, (_, shared) in names.items():
                shared.waiting.append((pending, index))
            pending.sentences = [shared.sentence for _, shared in names.values() if shared.sentence is not None]
            if by_name:
                self._of_request[pending] = list(by_name)
            if self._cache.is_on:
                self._metrics.cache_queried(len(cached), len(names))
            if len(names) > len(new):
                self._metrics.coalesced(len(names) - len(new))
        if one_done is not None:
            for index in cached:
                one_done(index, pending.settled[index])
        return pending

    def leave(self, pending: PendingRequest, expired: bool) -> None:
        """Cancel a request; sentences that no other request waits for are withdrawn.

        Args:
            pending: The result of :meth:`submit`.
            expired: Whether the deadline has passed; False if the caller was cancelled.
        """
        with self._lock:
            alone: set[int] = set()
            for name in self._of_request.pop(pending, []):
                shared = self._in_engine.get(name)
                if shared is None:
                    continue  # its outcome was delivered
                shared.waiting = [(request, index) for request, index in shared.waiting if request is not pending]
                if not shared.waiting and shared.sentence is not None:
                    alone.add(shared.sentence.key)
                    shared.sentence = None
                    del self._in_engine[name]
            if alone:
                self._engine.withdraw(alone, expired)

    def forget(self, sha256: str) -> None:
        """Drop the cache entries of a bundle.

        Args:
            sha256: The bundle's digest.
        """
        with self._lock:
            self._cache.forget(sha256)
            self._metrics.cache_changed(len(self._cache), self._cache.num_bytes)

    def _look_up(
        self, requests: Sequence[ModelRequest], settled: dict[int, Outcome]
    ) -> dict[int, tuple[Hashable, _Shared]]:
        """Put what is cached into ``settled``; returns the other sentences by index, equal ones with the same name."""
        names: dict[int, tuple[Hashable, _Shared]] = {}
        by_name: dict[Hashable, _Shared] = {}
        for index, (model, request) in enumerate(requests):
            key = SentenceKey.of(model, request) if self._cache.is_on or self._coalesce else None
            hypothesis = None if key is None else self._cache.get(key)
            if hypothesis is not None:
                settled[index] = hypothesis
                continue
            name: Hashable = key if self._coalesce else object()
            shared = by_name.get(name) or self._in_engine.get(name) or _Shared(key, (model, request))
            by_name[name] = shared
            names[index] = (name, shared)
        return names

    def _submit_new(
        self, new: Mapping[Hashable, _Shared], caller: Caller, within_s: float | None, admission: Admission
    ) -> None:
        """Submit sentences to the engine, all or none. Outcomes are delivered after the lock is released."""
        items = list(new.items())

        def deliver(index: int, outcome: Outcome) -> None:  # on the engine's thread
            self._deliver(*items[index], outcome)

        sentences = self._engine.submit([shared.request for _, shared in items], deliver, caller, within_s, admission)
        for (name, shared), sentence in zip(items, sentences, strict=True):
            shared.sentence = sentence
            self._in_engine[name] = shared

    def _deliver(self, name: Hashable, shared: _Shared, outcome: Outcome) -> None:
        done: list[PendingRequest] = []
        with self._lock:
            if self._in_engine.get(name) is shared:
                del self._in_engine[name]
            if isinstance(outcome, Hypothesis) and shared.key is not None and self._cache.is_on:
                self._cache.put(shared.key, outcome)
                self._metrics.cache_changed(len(self._cache), self._cache.num_bytes)
            waiting, shared.waiting, shared.sentence = shared.waiting, [], None
            for pending, index in waiting:
                pending.settled[index] = outcome
                if pending.is_done:
                    self._of_request.pop(pending, None)
                    done.append(pending)
        for pending, index in waiting:
            if pending.one_done is not None:
                pending.one_done(index, outcome)
        for pending in done:
            pending.all_done()
