"""What a process uses in place of the threads, pools and locks of the operating system."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any, TypeVar

import greenlet

from app.threads import Threads
from tests.simulation.kernel import Kernel, SimulatedThread

_T = TypeVar("_T")


class SimulatedCondition(threading.Condition):
    """A condition whose lock the kernel knows. It may be acquired again by the thread that has it."""

    def __init__(self, kernel: Kernel) -> None:
        super().__init__()
        self._kernel = kernel
        self._owner: SimulatedThread | None = None
        self._depth = 0
        self._blocked: deque[SimulatedThread] = deque()
        self._notified: list[SimulatedThread] = []

    @property
    def is_free(self) -> bool:
        """Whether no thread has the lock."""
        return self._owner is None

    def __enter__(self) -> bool:
        kernel = self._kernel
        if kernel.current is None or kernel.is_over:
            return True
        if self._owner is not kernel.current:
            kernel.preempt()
            self._acquire()
        self._depth += 1
        return True

    def __exit__(self, *error: object) -> None:
        kernel = self._kernel
        if kernel.current is None or kernel.is_over or self._owner is not kernel.current:
            return
        self._depth -= 1
        if not self._depth:
            self._release()
            kernel.preempt()

    def wait(self, timeout: float | None = None) -> bool:
        """See :class:`threading.Condition`."""
        kernel = self._kernel
        depth, self._depth = self._depth, 0
        self._notified.append(kernel.running_thread)
        self._release()
        kernel.block(timeout)
        self._acquire()
        self._depth = depth
        return True

    def notify_all(self) -> None:
        """See :class:`threading.Condition`."""
        for thread in self._notified:
            self._kernel.wake(thread)
        self._notified.clear()

    def _acquire(self) -> None:
        thread = self._kernel.running_thread
        while self._owner is not None:
            self._blocked.append(thread)
            self._kernel.block()
        self._owner = thread

    def _release(self) -> None:
        self._owner = None
        if self._blocked:
            self._kernel.wake(self._blocked.popleft())


class SimulatedPool(Executor):
    """A pool of simulated threads.

    Args:
        kernel: Runs them.
        max_workers: Most threads.
        name: Their name.
        process: The process that they belong to.
    """

    def __init__(self, kernel: Kernel, max_workers: int, name: str, process: object) -> None:
        self._kernel = kernel
        self._max_workers = max_workers
        self._name = name
        self._process = process
        self._num_workers = 0
        self._work: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self._is_shut_down = False

    def submit(self, function: Callable[..., _T], /, *args: Any, **kwargs: Any) -> Future[_T]:
        """See :class:`concurrent.futures.Executor`."""
        if self._is_shut_down:
            raise RuntimeError("cannot schedule new futures after shutdown")
        future: Future[_T] = Future()
        if self._kernel.is_over:
            return future
        self._work.append((future, lambda: function(*args, **kwargs)))
        if self._num_workers < self._max_workers:
            self._num_workers += 1
            self._kernel.start(self._run, self._name, self._process)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """See :class:`concurrent.futures.Executor`."""
        self._is_shut_down = True
        if cancel_futures:
            while self._work:
                self._work.popleft()[0].cancel()
        while wait and self._num_workers and self._kernel.current is not None and not self._kernel.is_over:
            self._kernel.sleep(0.001)

    def _run(self) -> None:
        while self._work:
            future, call = self._work.popleft()
            self._kernel.sleep(self._kernel.rng.choice((0.0, 0.0001, 0.001, 0.02)))
            if not future.set_running_or_notify_cancel():
                continue
            try:
                result = call()
            except greenlet.GreenletExit:
                raise
            except BaseException as error:  # noqa: BLE001  (the caller gets it)
                future.set_exception(error)
            else:
                future.set_result(result)
        self._num_workers -= 1


class SimulatedThreads(Threads):
    """The threads and locks of one process.

    Args:
        kernel: Runs them.
        process: The process.
    """

    def __init__(self, kernel: Kernel, process: object) -> None:
        self._kernel = kernel
        self._process = process

    def start(self, run: Callable[[], None], name: str) -> SimulatedThread:
        """See :class:`app.threads.Threads`."""
        return self._kernel.start(run, name, self._process)

    def pool(self, max_workers: int, name: str) -> SimulatedPool:
        """See :class:`app.threads.Threads`."""
        return SimulatedPool(self._kernel, max_workers, name, self._process)

    def lock(self) -> SimulatedCondition:
        """See :class:`app.threads.Threads`."""
        return SimulatedCondition(self._kernel)

    def condition(self) -> SimulatedCondition:
        """See :class:`app.threads.Threads`."""
        return SimulatedCondition(self._kernel)
