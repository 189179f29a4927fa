"""Running requests, which finish or are cancelled before a model is unloaded or the service ends."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator


class RunningRequests:
    """The tasks of requests that use the service or one of its models. Belongs to the event loop."""

    def __init__(self) -> None:
        """No tasks yet."""
        self._tasks: dict[asyncio.Task[object], None] = {}  # in their order, in which they are cancelled
        self._reasons: dict[asyncio.Task[object], Exception] = {}  # of cancelled tasks
        self._idle = asyncio.Event()
        self._idle.set()

    def __len__(self) -> int:
        """Number of tasks."""
        return len(self._tasks)

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """Count the current task until the block ends.

        Raises:
            Exception: The ``reason`` of :meth:`finish` if it cancelled the task.
        """
        task = asyncio.current_task()
        assert task is not None
        self._tasks[task] = None
        self._idle.clear()
        try:
            yield
        except asyncio.CancelledError:
            reason = self._reasons.pop(task, None)
            if reason is None:
                raise
            # The client did not cancel, so it gets an error response.
            task.uncancel()
            raise reason from None
        finally:
            self._tasks.pop(task, None)
            self._reasons.pop(task, None)
            if not self._tasks:
                self._idle.set()

    async def wait_idle(self) -> None:
        """Wait until there are no tasks."""
        await self._idle.wait()

    async def finish(self, timeout_s: float, reason: Exception) -> bool:
        """Wait until all tasks are done, and cancel the remaining tasks after a timeout.

        Args:
            timeout_s: The timeout.
            reason: The error of cancelled tasks.

        Returns:
            Whether all tasks finished in time.
        """
        try:
            async with asyncio.timeout(timeout_s):
                await self._idle.wait()
        except TimeoutError:
            for task in list(self._tasks):
                self._reasons[task] = reason
                task.cancel()
            return False
        return True
