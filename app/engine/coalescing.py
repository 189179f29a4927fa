"""Between requests and the engine: sentences that are known are answered, equal ones on their way are shared.

What is left goes to the engine. An answer is handed to everybody who waits for it; a sentence is withdrawn from the
engine when the last of them has left.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field

from app.engine.engine import Engine
from app.engine.scheduler import SourceSentence, WaitingSentence
from app.engine.translation_cache import SentenceKey, TranslationCache
from app.telemetry.metrics import Metrics
from model.decoding.options import DecodingOptions, Hypothesis


@dataclass(eq=False)
class Waiting:
    """A request's sentences and what became of them.

    Args:
        outcomes: For each its hypothesis or exception, once there is one.
        asked_at: Clock time of the request.
        num_left: Sentences without an outcome.
        all_done: Told when every sentence has an outcome, on any thread.
        sentences: Those the engine has for it, shared ones included.
    """

    outcomes: list[Hypothesis | Exception | None]
    asked_at: float
    num_left: int
    all_done: Callable[[], None]
    sentences: list[WaitingSentence] = field(default_factory=list)

    @property
    def waited_s(self) -> float:
        """Seconds until the first of its sentences joined its model; 0 where none had to or one was there already."""
        if len(self.sentences) < len(self.outcomes):
            return 0.0
        return max(0.0, min(sentence.started_at for sentence in self.sentences) - self.asked_at)


@dataclass(eq=False)
class _Shared:
    """A sentence in the engine, and everybody who waits for it: requests, each with the place of its answer."""

    key: SentenceKey | None
    waiting: list[tuple[Waiting, int]]
    sentence: WaitingSentence | None = None


class SharedDecoding:
    """Hands sentences to the engine, each but once. Its methods may be called from any thread.

    Args:
        engine: Decodes.
        cache: Knows what was decoded before; guarded by this object's lock from here on.
        coalesce: Whether equal sentences are shared.
        metrics: Told what happens.
        clock: Seconds that only go forward.
    """

    def __init__(
        self,
        engine: Engine,
        cache: TranslationCache,
        coalesce: bool,
        metrics: Metrics,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._engine = engine
        self._cache = cache
        self._coalesce = coalesce
        self._metrics = metrics
        self._clock = clock
        self._lock = threading.Lock()  # the engine's is taken inside it, never the other way round
        self._on_their_way: dict[Hashable, _Shared] = {}
        self._of_request: dict[Waiting, list[Hashable]] = {}

    def submit(
        self, sources: Sequence[SourceSentence], options: DecodingOptions, all_done: Callable[[], None]
    ) -> Waiting:
        """Have a request's sentences decoded.

        Args:
            sources: The sentences.
            options: How to decode them.
            all_done: Told when every sentence has an outcome; on the engine's thread, or on this one.

        Returns:
            What takes the outcomes.

        Raises:
            Dropped: The engine has stopped.
            QueueFull: Those that are new do not fit into the line.
        """
        waiting = Waiting([None] * len(sources), self._clock(), len(sources), all_done)
        with self._lock:
            new: list[tuple[Hashable, _Shared, SourceSentence]] = []
            mine: dict[Hashable, _Shared] = {}
            joined: list[tuple[_Shared, int]] = []
            num_hits = 0
            for place, source in enumerate(sources):
                key = SentenceKey.of(source, options) if self._cache.is_on or self._coalesce else None
                known = self._cache.get(key) if key is not None else None
                if known is not None:
                    waiting.outcomes[place] = known
                    num_hits += 1
                    continue
                name: Hashable = key if self._coalesce else object()
                shared = mine.get(name) or self._on_their_way.get(name)
                if shared is None:
                    shared = mine[name] = _Shared(key, [])
                    new.append((name, shared, source))
                else:
                    mine[name] = shared
                joined.append((shared, place))
            on_their_way = [one.sentence for one in mine.values() if one.sentence is not None]
            if new:
                self._hand_in(new, options)
            if on_their_way:
                self._engine.hasten(on_their_way)  # the other request may be a document with a long way to go
            for shared, place in joined:
                shared.waiting.append((waiting, place))
            waiting.num_left = len(joined)
            waiting.sentences = [shared.sentence for shared, _ in joined if shared.sentence is not None]
            if mine:
                self._of_request[waiting] = list(mine)
            if self._cache.is_on:
                self._metrics.cache_asked(num_hits, len(joined))
            self._metrics.coalesced(len(joined) - len(new))
        if not joined:
            all_done()
        return waiting

    def leave(self, waiting: Waiting, expired: bool) -> None:
        """Stop waiting; sentences that nobody else waits for are given up.

        Args:
            waiting: What :meth:`submit` gave.
            expired: Whether the request's time was up, rather than its caller gone.
        """
        with self._lock:
            alone: set[int] = set()
            for name in self._of_request.pop(waiting, []):
                shared = self._on_their_way.get(name)
                if shared is None:
                    continue  # it is done
                shared.waiting = [one for one in shared.waiting if one[0] is not waiting]
                if not shared.waiting and shared.sentence is not None:
                    alone.add(shared.sentence.key)
                    del self._on_their_way[name]
            if alone:
                self._engine.withdraw(alone, expired)

    def forget(self, sha256: str) -> None:
        """Drop what is known of one bundle.

        Args:
            sha256: Its digest.
        """
        with self._lock:
            self._cache.forget(sha256)
            self._metrics.cache_changed(len(self._cache), self._cache.num_bytes)

    def _hand_in(self, new: Sequence[tuple[Hashable, _Shared, SourceSentence]], options: DecodingOptions) -> None:
        """Give the engine sentences; it waits with its answers for the lock. All or none are on their way then."""

        def deliver(place: int, outcome: object) -> None:  # on the engine's thread
            name, shared, _ = new[place]
            self._deliver(name, shared, outcome)

        sentences = self._engine.submit([source for _, _, source in new], options, deliver)
        for (name, shared, _), sentence in zip(new, sentences, strict=True):
            shared.sentence = sentence
            self._on_their_way[name] = shared

    def _deliver(self, name: Hashable, shared: _Shared, outcome: object) -> None:
        done: list[Waiting] = []
        with self._lock:
            if self._on_their_way.get(name) is shared:
                del self._on_their_way[name]
            if isinstance(outcome, Hypothesis) and shared.key is not None and self._cache.is_on:
                self._cache.put(shared.key, outcome)
                self._metrics.cache_changed(len(self._cache), self._cache.num_bytes)
            for waiting, place in shared.waiting:
                waiting.outcomes[place] = outcome if isinstance(outcome, (Hypothesis, Exception)) else None
                waiting.num_left -= 1
                if waiting.num_left == 0:
                    self._of_request.pop(waiting, None)
                    done.append(waiting)
        for waiting in done:
            waiting.all_done()
