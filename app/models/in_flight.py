"""Requests that are being answered: waited for before something ends, and cancelled when that takes too long."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator


class RunningRequests:
    """Tasks that use something which may end: the service, or one of its models. Belongs to the event loop."""

    def __init__(self) -> None:
        """No tasks yet."""
        self._tasks: set[asyncio.Task[object]] = set()
        self._given_up: dict[asyncio.Task[object], Exception] = {}
        self._idle = asyncio.Event()
        self._idle.set()

    def __len__(self) -> int:
        """How many there are."""
        return len(self._tasks)

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """Count the current task in, until the block ends.

        Raises:
            Exception: The reason it was cancelled for.
        """
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._idle.clear()
        try:
            yield
        except asyncio.CancelledError:
            reason = self._given_up.pop(task, None)
            if reason is None:
                raise
            # The client did not cancel: it gets an answer.
            task.uncancel()
            raise reason from None
        finally:
            self._tasks.discard(task)
            self._given_up.pop(task, None)
            if not self._tasks:
                self._idle.set()

    async def ended(self) -> None:
        """Wait until there are none."""
        await self._idle.wait()

    async def finish(self, timeout_s: float, reason: Exception) -> bool:
        """Wait until all are done.

        Args:
            timeout_s: How long they may take; those left are cancelled.
            reason: What they fail with then.

        Returns:
            Whether all finished by themselves.
        """
        try:
            async with asyncio.timeout(timeout_s):
                await self._idle.wait()
        except TimeoutError:
            for task in list(self._tasks):
                self._given_up[task] = reason
                task.cancel()
            return False
        return True
