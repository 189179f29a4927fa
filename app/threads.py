"""Where the service gets its threads and locks from: the operating system, or a simulation of it.

A simulation runs one thread at a time and chooses the next one whenever a lock is acquired, so that a seed repeats the
interleaving of threads (``tests/simulation``).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Executor
from types import TracebackType
from typing import Protocol

from app.steady_pool import SteadyPool


class RunningThread(Protocol):
    """A thread that was started."""

    def join(self, timeout: float | None = None) -> None:
        """Wait until it has ended, at most for ``timeout`` seconds."""
        ...

    def is_alive(self) -> bool:
        """Whether it has not ended."""
        ...


class Lock(Protocol):
    """A lock that one thread at a time has, inside a ``with`` statement."""

    def __enter__(self) -> object: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None, /
    ) -> bool | None: ...


class Threads:
    """The threads and locks of the operating system."""

    def start(self, run: Callable[[], None], name: str) -> RunningThread:
        """Start a daemon thread, which does not keep the process from ending.

        Args:
            run: What it does.
            name: Its name.

        Raises:
            RuntimeError: The system starts no thread.
        """
        thread = threading.Thread(target=run, name=name, daemon=True)
        thread.start()
        return thread

    def pool(self, max_workers: int, name: str) -> Executor:
        """A pool of threads; none is started before it has work.

        Args:
            max_workers: Most threads.
            name: Their names begin with it.
        """
        return SteadyPool(max_workers, name)

    def lock(self) -> Lock:
        """A lock."""
        return threading.Lock()

    def condition(self) -> threading.Condition:
        """A condition with a lock of its own."""
        return threading.Condition()


SYSTEM = Threads()
"""Those of the operating system."""
