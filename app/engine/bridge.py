"""The event loop's side of the engine: hand in work, wait for it, and take it back when nobody waits any more."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from app.engine.coalescing import SharedDecoding
from app.engine.engine import Dropped, Engine
from app.engine.scheduler import Budget, SourceSentence
from model.decoding.options import DecodingOptions, Hypothesis

logger = logging.getLogger("app.bridge")

_T = TypeVar("_T")


class EngineBridge:
    """Awaits what an engine does.

    Args:
        engine: The engine; started and stopped by others.
        shared: Stands before it where sentences are concerned.
    """

    def __init__(self, engine: Engine, shared: SharedDecoding) -> None:
        self._engine = engine
        self._shared = shared

    async def decode(
        self, sources: Sequence[SourceSentence], options: DecodingOptions, timeout: asyncio.Timeout
    ) -> tuple[list[Hypothesis | Exception], float]:
        """Decode sentences, or remember what they were decoded to.

        Args:
            sources: The sentences; at least one.
            options: How.
            timeout: The request's deadline.

        Returns:
            The outcome of each, and the seconds until the first one joined its model.

        Raises:
            Dropped: The engine has stopped.
            QueueFull: They do not fit into the line.
        """
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        waiting = self._shared.submit(sources, options, lambda: _tell(loop, done))
        try:
            await done
        except asyncio.CancelledError:
            self._shared.leave(waiting, expired=timeout.expired())
            raise
        outcomes: list[Any] = waiting.outcomes
        for outcome in outcomes:
            if isinstance(outcome, Dropped):
                raise outcome
        return outcomes, waiting.waited_s

    async def call(self, run: Callable[[], _T], timeout: asyncio.Timeout | None = None) -> _T:
        """Have something done on the engine's thread, between two steps.

        Args:
            run: What to do.
            timeout: The request's deadline, where there is one.

        Raises:
            Dropped: The engine has stopped.
            QueueFull: Too many calls wait.
            ModelError: What ``run`` raised.
            InferenceFailed: It raised anything else.
        """
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        result: list[Any] = []

        def deliver(outcome: object) -> None:  # on the engine's thread
            result.append(outcome)
            _tell(loop, done)

        key = self._engine.call(run, deliver)
        try:
            await done
        except asyncio.CancelledError:
            self._engine.withdraw({key}, expired=timeout is not None and timeout.expired())
            raise
        if isinstance(result[0], Exception):
            raise result[0]
        found: _T = result[0]
        return found

    def forget(self, sha256: str) -> None:
        """Drop what is known of one bundle, which is no longer loaded.

        Args:
            sha256: Its digest.
        """
        self._shared.forget(sha256)

    @property
    def budget(self) -> Budget:
        """How much may decode at once."""
        return self._engine.budget

    @budget.setter
    def budget(self, budget: Budget) -> None:
        self._engine.budget = budget


async def on_own_thread(run: Callable[[], _T], name: str) -> _T:
    """Run something that takes long on a thread that lives for it alone, and does not hold the process at its end.

    Args:
        run: What to do.
        name: Of the thread.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()
    result: list[_T] = []
    failure: list[BaseException] = []

    def work() -> None:
        try:
            result.append(run())
        except BaseException as error:
            logger.debug("a thread's work failed", exc_info=True)
            failure.append(error)
        _tell(loop, done)

    threading.Thread(target=work, name=name, daemon=True).start()
    await done
    if failure:
        raise failure.pop()  # taken out: its frames hold this list, and would keep alive what they had loaded
    return result.pop()


def _tell(loop: asyncio.AbstractEventLoop, done: asyncio.Future[None]) -> None:
    """Wake the waiting task; it may have left, and at the very end the loop may have, too."""

    def finish() -> None:
        if not done.done():
            done.set_result(None)

    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(finish)
