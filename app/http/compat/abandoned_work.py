"""Work that goes on for a while after its client has left, and that a repeated request joins.

Some clients wait for 5 or 10 seconds, disconnect, and send the same request again at once. If the work were stopped, as
it is elsewhere (:class:`app.http.middleware.DisconnectWatcher`), a request that takes longer could never be answered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

ABANDONED_S = 10.0
"""Seconds for which work goes on without a client, and for which its result is kept."""

_Result = TypeVar("_Result")


@dataclass(eq=False)
class _Work(Generic[_Result]):
    """Work, the number of requests that wait for it, and when it ends if there are none."""

    task: asyncio.Task[_Result]
    num_waiting: int = 0
    expiry: asyncio.TimerHandle | None = None


class AbandonedWork(Generic[_Result]):
    """Runs work in tasks of their own. Belongs to the event loop.

    Equal requests that arrive at the same time share a task, too: a client may repeat a request before its disconnect
    is noticed.

    Args:
        abandoned_s: Seconds for which work goes on without a client.
    """

    def __init__(self, abandoned_s: float = ABANDONED_S) -> None:
        self._abandoned_s = abandoned_s
        self._works: dict[Hashable, _Work[_Result]] = {}

    def __len__(self) -> int:
        """Number of tasks, with those whose result is kept."""
        return len(self._works)

    async def run(self, key: Hashable, start: Callable[[], Coroutine[Any, Any, _Result]]) -> _Result:
        """Await work; if the current task is cancelled, the work goes on for a while.

        Args:
            key: What is equal for a request and its repetition.
            start: Starts the work, unless the same is running or has just been abandoned.
        """
        work = self._works.get(key)
        if work is None or _failed(work.task):
            work = self._works[key] = _Work(asyncio.create_task(start()))
        if work.expiry is not None:
            work.expiry.cancel()
        work.num_waiting += 1
        answered = False
        try:
            result = await asyncio.shield(work.task)
            answered = True
            return result
        finally:
            work.num_waiting -= 1
            if answered or _failed(work.task):
                self._end(key, work)
            elif not work.num_waiting:
                work.expiry = asyncio.get_running_loop().call_later(self._abandoned_s, self._end, key, work)

    def _end(self, key: Hashable, work: _Work[_Result]) -> None:
        """Forget work, and stop it if it still runs."""
        if self._works.get(key) is work:
            del self._works[key]
        work.task.cancel()


def _failed(task: asyncio.Task[Any]) -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)
