"""Decides whether a request is retried, and how long the client waits before.

Nothing here sends or sleeps; the clients do.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from verso_client.errors import ConnectionFailed, ProblemError, StreamBroken, TimedOut, VersoError

RETRIED_STATUSES = frozenset({429, 503})
"""Statuses of requests that the service refuses before it processes them."""


class Repeatable(Enum):
    """The failures after which a request may be sent again."""

    ALWAYS = "always"
    """The request changes nothing: GET."""

    UNLESS_TIMED_OUT = "unless timed out"
    """The request changes nothing but is work: after a timeout the service may still be processing it, and a second
    request would add to its load."""

    IF_REFUSED = "if refused"
    """The request must not be processed twice: it is repeated only if it was not sent, or if the service refused it."""


@dataclass(frozen=True)
class RetryPolicy:
    """Bounds of retries.

    Without a ``Retry-After`` header the wait doubles with each attempt and has jitter; with one it is at least as long
    as the header says.

    Args:
        attempts: Maximum number of attempts; 1 for no retries.
        total_s: Seconds after the first attempt in which the last one must begin. If ``Retry-After`` exceeds them, the
            request is not repeated.
        first_wait_s: Longest wait before the second attempt.
        max_wait_s: Longest wait without ``Retry-After``.
    """

    attempts: int = 4
    total_s: float = 60.0
    first_wait_s: float = 0.5
    max_wait_s: float = 10.0

    def __post_init__(self) -> None:
        if self.attempts < 1:
            raise ValueError(f"attempts is {self.attempts}; it must be 1 or more.")
        for name in ("total_s", "first_wait_s", "max_wait_s"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be 0 or more.")


NO_RETRIES = RetryPolicy(attempts=1)
"""Every request is sent once."""


class Attempts:
    """The attempts of one call.

    Args:
        policy: Their number and waits.
        repeatable: The failures after which the call may be repeated.
        clock: A monotonic clock, in seconds.
        rng: Random numbers for the jitter.
    """

    def __init__(
        self, policy: RetryPolicy, repeatable: Repeatable, clock: Callable[[], float], rng: random.Random
    ) -> None:
        self._policy = policy
        self._repeatable = repeatable
        self._clock = clock
        self._rng = rng
        self._started_s = clock()
        self._num_failed = 0

    def wait_after(self, error: VersoError) -> float | None:
        """Seconds to wait before the next attempt.

        Args:
            error: The error of the last attempt.

        Returns:
            The seconds, or None if there is no further attempt.
        """
        self._num_failed += 1
        if self._num_failed >= self._policy.attempts or not may_repeat(error, self._repeatable):
            return None
        longest_s = min(self._policy.max_wait_s, self._policy.first_wait_s * 2.0 ** (self._num_failed - 1))
        retry_after_s = error.retry_after_s if isinstance(error, ProblemError) else None
        # Jitter: clients that were refused together do not return together.
        if retry_after_s is None:
            wait_s = self._rng.uniform(longest_s / 2, longest_s)
        else:
            wait_s = retry_after_s + self._rng.uniform(0.0, longest_s)
        elapsed_s = self._clock() - self._started_s
        return wait_s if elapsed_s + wait_s <= self._policy.total_s else None


def may_repeat(error: VersoError, repeatable: Repeatable) -> bool:
    """Whether a request that ended in an error may be sent again.

    Args:
        error: The error.
        repeatable: The failures after which the request may be repeated.
    """
    if isinstance(error, StreamBroken):
        return False
    if isinstance(error, ConnectionFailed):
        if not error.sent or repeatable is Repeatable.ALWAYS:
            return True
        return repeatable is Repeatable.UNLESS_TIMED_OUT and not isinstance(error, TimedOut)
    if isinstance(error, ProblemError) and error.status in RETRIED_STATUSES:
        # A proxy answers 503 also if it lost a service that was processing the request.
        return error.from_service or repeatable is not Repeatable.IF_REFUSED
    return False
