"""Limits of one process, kept in memory: requests a minute, sentences at a time."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from cachetools import LRUCache

from app.errors import ConcurrencyExceeded, LimitExceeded

WINDOW_S = 60.0
"""Seconds to which a limit of requests applies."""

MAX_CALLERS = 100_000
"""Most callers that are remembered; the least recent one is dropped."""


@dataclass(frozen=True)
class Rate:
    """A caller's remaining requests.

    Args:
        limit: Requests a minute.
        remaining: Requests that may follow at once.
        reset_s: Seconds until the full limit is available again.
        retry_after_s: Seconds until this request may be repeated; None if it was within the limit.
    """

    limit: int
    remaining: int
    reset_s: float
    retry_after_s: float | None = None


class RequestRates:
    """Counts the requests of callers, by the generic cell rate algorithm (ITU-T I.371): one number for each caller.

    A caller may send the requests of a minute at once, and then one request per interval.

    Args:
        clock: A monotonic clock, in seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._full_at: LRUCache[str, float] = LRUCache(MAX_CALLERS)  # when a caller has its full limit again

    def take(self, caller: str, limit: int, *, counts: bool = True) -> Rate:
        """Count a request; one that is refused does not count.

        Args:
            caller: Identifies the caller.
            limit: Requests a minute.
            counts: Whether it counts if it is within the limit.
        """
        now, interval_s = self._clock(), WINDOW_S / limit
        used_s = max(self._full_at.get(caller, now) - now, 0.0)
        # Allow for rounding: sums of intervals are not exact.
        wait_s = used_s + interval_s - WINDOW_S
        if wait_s > interval_s * 1e-6:
            return Rate(limit, 0, used_s, wait_s)
        used_s += interval_s
        if counts:
            self._full_at[caller] = now + used_s
        return Rate(limit, int((WINDOW_S - used_s) / interval_s + 1e-6), used_s)


class RunningSentences:
    """Counts the sentences of each key that are being translated."""

    def __init__(self) -> None:
        self._running: Counter[str] = Counter()

    @contextlib.contextmanager
    def hold(self, key: str, num_sentences: int, bound: int) -> Iterator[None]:
        """Count sentences while the block runs.

        Args:
            key: The id of the key.
            num_sentences: Sentences of the request.
            bound: Most sentences at a time.

        Raises:
            LimitExceeded: The request alone has more.
            ConcurrencyExceeded: It has more together with those that are running.
        """
        if num_sentences > bound:
            raise LimitExceeded("text", num_sentences, bound, "sentences of this key at a time")
        running = self._running[key]
        if running + num_sentences > bound:
            raise ConcurrencyExceeded(num_sentences, running, bound)
        self._running[key] += num_sentences
        try:
            yield
        finally:
            self._running[key] -= num_sentences
            if not self._running[key]:
                del self._running[key]
