"""The engine for the event loop: submits work, awaits its outcome, and withdraws it if the caller is cancelled."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from typing import TypeVar

from app.engine.caller import UNKNOWN_CALLER, Caller
from app.engine.coalescing import SharedDecoding
from app.engine.engine import Dropped, Engine
from app.engine.joining import Budget
from app.engine.queued_sentence import ModelRequest
from app.engine.scheduler import Admission
from app.engine.sentence_spans import trace_sentences
from app.errors import NotReady
from app.telemetry.tracing import stage
from app.threads import SYSTEM, Threads
from model.decoding.options import Outcome

logger = logging.getLogger("app.bridge")

_NO_MEMORY_S = 0.01
"""Seconds until the event loop is woken again if there was no memory for it."""

_WAITING_PER_WOKEN = 16
"""One in so many tasks that wait is woken in a turn of the event loop: whatever else is due waits until their answers
are written. It is a share, so that they never wait for more turns than a few, however many requests arrive in each."""

_T = TypeVar("_T")


class EngineBridge:
    """Awaitable access to an engine.

    Args:
        engine: The engine; the bridge neither starts nor stops it.
        shared: The cache and the coalescing of equal sentences in front of the engine.
    """

    def __init__(self, engine: Engine, shared: SharedDecoding) -> None:
        self._engine = engine
        self._shared = shared
        self._wakes = Wakes()

    async def decode(
        self,
        requests: Sequence[ModelRequest],
        timeout: asyncio.Timeout,
        caller: Caller = UNKNOWN_CALLER,
        admission: Admission = Admission.REFUSE,
    ) -> tuple[list[Outcome], float]:
        """Decode sentences, or take their outcomes from the cache.

        Args:
            requests: The sentences and their models; at least one.
            timeout: The caller's deadline.
            caller: The caller.
            admission: Whether to refuse sentences that do not fit into the queue or would probably miss the deadline.

        Returns:
            The outcome of each, and the seconds until the first one joined its model.

        Raises:
            Dropped: The engine has stopped.
            QueueFull: The sentences do not fit into the queue.
            DeadlineUnreachable: They would probably miss the deadline.
        """
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        pending = self._shared.submit(
            requests,
            lambda: self._wakes.wake(done),
            caller=caller,
            within_s=_seconds_left(timeout),
            admission=admission,
        )
        try:
            if not pending.is_done:
                await done
        except asyncio.CancelledError:
            self._shared.leave(pending, expired=timeout.expired())
            raise
        finally:
            trace_sentences(pending)
        outcomes = pending.outcomes
        for outcome in outcomes:
            if isinstance(outcome, Dropped):
                raise outcome
        return outcomes, pending.waited_s

    def decode_each(
        self,
        requests: Sequence[ModelRequest],
        timeout: asyncio.Timeout,
        caller: Caller = UNKNOWN_CALLER,
        admission: Admission = Admission.REFUSE,
    ) -> Arriving:
        """As :meth:`decode`, with each outcome as soon as it arrives.

        Args:
            requests: The sentences and their models.
            timeout: The caller's deadline.
            caller: The caller.
            admission: As for :meth:`decode`.

        Raises:
            Dropped: The engine has stopped.
            QueueFull: The sentences do not fit into the queue.
            DeadlineUnreachable: They would probably miss the deadline.
        """
        return Arriving(self._shared, requests, caller, _seconds_left(timeout), admission)

    async def call(
        self,
        run: Callable[[], _T],
        timeout: asyncio.Timeout | None = None,
        admission: Admission = Admission.ALWAYS,
    ) -> _T:
        """Call a function on the engine's thread, between two steps.

        Args:
            run: The function.
            timeout: The caller's deadline, if there is one.
            admission: Whether it may be refused; a call that completes decoded sentences may not.

        Raises:
            Dropped: The engine has stopped.
            QueueFull: Too many calls are queued.
            ModelError: ``run`` raised it.
            InferenceFailed: ``run`` raised any other exception.
        """
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        results: list[_T | Exception] = []

        def deliver(result: _T | Exception) -> None:  # on the engine's thread
            results.append(result)
            self._wakes.wake(done)

        key = self._engine.call(run, deliver, admission)
        try:
            with stage("call"):
                await done
        except asyncio.CancelledError:
            self._engine.withdraw({key}, expired=timeout is not None and timeout.expired())
            raise
        (result,) = results
        if isinstance(result, Exception):
            raise result
        return result

    def forget(self, sha256: str) -> None:
        """Drop the cache entries of a bundle that is no longer loaded.

        Args:
            sha256: The bundle's digest.
        """
        self._shared.forget(sha256)

    @property
    def budget(self) -> Budget:
        """How much may decode at once."""
        return self._engine.budget

    @budget.setter
    def budget(self, budget: Budget) -> None:
        self._engine.budget = budget


class Arriving:
    """The outcomes of sentences in the order in which they arrive: iterate once, and close it in any case.

    Args:
        shared: Decodes the sentences.
        requests: The sentences and their models.
        caller: The caller.
        within_s: Seconds until the deadline; None if the sentences may not be refused for it.
        admission: Whether the sentences may be refused.
    """

    def __init__(
        self,
        shared: SharedDecoding,
        requests: Sequence[ModelRequest],
        caller: Caller,
        within_s: float | None,
        admission: Admission,
    ) -> None:
        loop = asyncio.get_running_loop()
        arrived: asyncio.Queue[tuple[int, Outcome]] = asyncio.Queue()

        def deliver(index: int, outcome: Outcome) -> None:  # on any thread
            _call_on_loop(loop, arrived.put_nowait, (index, outcome))

        self._shared = shared
        self._arrived = arrived
        self._pending = shared.submit(requests, lambda: None, deliver, caller, within_s, admission)

    async def __aiter__(self) -> AsyncIterator[tuple[int, Outcome]]:
        """The index of each sentence and its outcome.

        Raises:
            Dropped: The engine has stopped.
        """
        for _ in range(self._pending.num_sentences):
            index, outcome = await self._arrived.get()
            if isinstance(outcome, Dropped):
                raise outcome
            yield index, outcome

    @property
    def waited_s(self) -> float:
        """Seconds until the first sentence joined its model, once there is an outcome."""
        return self._pending.waited_s

    def close(self, *, expired: bool) -> None:
        """Withdraw the sentences that have no outcome.

        Args:
            expired: Whether the deadline has passed; False if the caller was cancelled.
        """
        self._shared.leave(self._pending, expired=expired)
        trace_sentences(self._pending)


async def on_own_thread(run: Callable[[], _T], name: str, threads: Threads = SYSTEM) -> _T:
    """Run a slow function on a new daemon thread, which does not keep the process from ending.

    Args:
        run: The function.
        name: The thread's name.
        threads: Where it comes from.

    Raises:
        NotReady: No thread can be started.
    """
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    wakes = Wakes()
    result: list[_T] = []
    failure: list[BaseException] = []

    def work() -> None:
        try:
            result.append(run())
        except BaseException as error:
            logger.debug("a function failed on its own thread", exc_info=True)
            failure.append(error)
        wakes.wake(done)

    try:
        threads.start(work, name)
    except RuntimeError as error:
        logger.error("no thread can be started", extra={"fields": {"thread": name, "reason": str(error)}})
        raise NotReady(5.0, "no_thread") from None
    await done
    if failure:
        raise failure.pop()  # the exception's frames refer to the list: a cycle would keep memory alive
    return result.pop()


def _seconds_left(timeout: asyncio.Timeout) -> float | None:
    """Seconds until a deadline; None if there is none."""
    when = timeout.when()
    return None if when is None else when - asyncio.get_running_loop().time()


class Wakes:
    """Wakes the tasks of an event loop from other threads; those whose sentences end in one step are woken together.

    Each wake-up of the loop is a system call, for which a thread gives up the interpreter. Only some tasks are woken in
    each turn of the loop.
    """

    def __init__(self) -> None:
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._is_scheduled = False  # whether the loop is going to wake some of those that wait now

    def wake(self, done: asyncio.Future[None]) -> None:
        """Wake the task that awaits a future, unless it was cancelled or the loop is closed.

        Args:
            done: The future.
        """
        self._waiting.append(done)  # before the test, so that it is woken in any case
        if not self._is_scheduled:
            self._schedule(done.get_loop())

    def _schedule(self, loop: asyncio.AbstractEventLoop) -> None:
        self._is_scheduled = True
        if not _call_on_loop(loop, self._wake_some, loop):
            self._is_scheduled = False
            self._waiting.clear()

    def _wake_some(self, loop: asyncio.AbstractEventLoop) -> None:
        self._is_scheduled = False  # first: what is added from now on is woken below, or in another turn
        for _ in range(math.ceil(len(self._waiting) / _WAITING_PER_WOKEN)):
            done = self._waiting.popleft()
            if not done.done():
                done.set_result(None)
        if self._waiting and not self._is_scheduled:
            self._schedule(loop)


def _call_on_loop(loop: asyncio.AbstractEventLoop, function: Callable[..., object], *arguments: object) -> bool:
    """Call a function on the event loop. Returns False if the loop is closed.

    Without memory for the call it is tried again: the task that waits for it would wait until its deadline.
    """
    while True:
        try:
            loop.call_soon_threadsafe(function, *arguments)
        except MemoryError:
            time.sleep(_NO_MEMORY_S)
        except RuntimeError:
            return False
        else:
            return True
