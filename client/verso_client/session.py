"""The parts that both clients share: address, headers, timeouts and retry policy."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping

import httpx

from verso_client.calls import Call, T
from verso_client.retries import Attempts, RetryPolicy

DEFAULT_URL = "http://localhost:8000"

DEFAULT_TIMEOUT = httpx.Timeout(60.0, connect=5.0)
"""Longer than the service's own deadline (``VERSO_DEADLINE_S``, 30 s), so that the service's error arrives."""


class Session:
    """The connection settings of a client.

    Args:
        base_url: The address of the service, with its root path, if any.
        timeout: Seconds, or httpx's timeouts; None for those of the httpx client.
        retries: Bounds of retries.
        headers: Headers of every request.
        clock: A monotonic clock, in seconds.
        rng: Random numbers for the jitter of waits.

    Raises:
        ValueError: The address is not an HTTP URL.
    """

    def __init__(
        self,
        base_url: str,
        timeout: float | httpx.Timeout | None,
        retries: RetryPolicy,
        headers: Mapping[str, str] | None,
        clock: Callable[[], float],
        rng: random.Random | None,
    ) -> None:
        try:
            url = httpx.URL(base_url)
        except httpx.InvalidURL as error:
            raise ValueError(f"The address of the service is {base_url!r}: {error}.") from error
        if url.scheme not in ("http", "https") or not url.host or url.query or url.fragment:
            raise ValueError(f"The address of the service is {base_url!r}; it must be like {DEFAULT_URL}.")
        self.base_url = base_url.rstrip("/")
        self.clock = clock
        self._timeout = timeout if timeout is None or isinstance(timeout, httpx.Timeout) else httpx.Timeout(timeout)
        self._retries = retries
        self._headers = dict(headers or {})
        self._rng = rng or random.Random()

    def request(self, call: Call[T], http: httpx.Client | httpx.AsyncClient) -> httpx.Request:
        """The request of a call.

        Args:
            call: The call.
            http: The httpx client that will send it.
        """
        return call.request(http, self.base_url, self._headers, self._timeout)

    def attempts(self, call: Call[T]) -> Attempts:
        """A counter of the attempts of a call.

        Args:
            call: The call.
        """
        return Attempts(self._retries, call.repeatable, self.clock, self._rng)
