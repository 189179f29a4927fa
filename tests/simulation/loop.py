"""An event loop on the simulated clock."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any, TypeVar

import greenlet

from tests.simulation.kernel import Kernel, SimulatedThread
from tests.simulation.locks import SimulatedThreads
from tests.simulation.network import Factory, Network

_T = TypeVar("_T")

_TURNS_TO_END = 100  # at most, of a loop whose process was killed


class SimulatedLoop(asyncio.BaseEventLoop):
    """An event loop on the kernel's clock, in the thread that runs it.

    Args:
        kernel: The clock.
        threads: The threads of its process.
    """

    def __init__(self, kernel: Kernel, threads: SimulatedThreads) -> None:
        super().__init__()
        self._kernel = kernel
        self._selector = self
        self._clock_resolution = 1e-9
        self._default = threads.pool(4, "default")
        self._thread: SimulatedThread | None = None
        self._is_disposed = False
        self.network: Network | None = None
        """Where its connections go; none for a process without connections."""
        self.failures: list[dict[str, Any]] = []
        """What tasks and callbacks raised that nothing awaits."""
        self.set_exception_handler(lambda _, context: self.failures.append(context))

    def time(self) -> float:
        """The kernel's clock."""
        return self._kernel.now

    def select(self, timeout: float | None) -> list[Any]:
        """Wait for callbacks of other threads, or until a timeout: the selector of the base class."""
        if self._is_disposed:
            return []
        if self._kernel.is_over:
            raise greenlet.GreenletExit  # a task may have caught the first one
        self._thread = self._kernel.running_thread
        if timeout is None or timeout > 0:
            self._kernel.block(timeout)
        else:
            self._kernel.pause()
        return []

    def dispose(self) -> None:
        """Cancel all tasks, and let them end as far as they do not wait; then close."""
        if self.is_closed():
            return
        self._is_disposed = True
        for _ in range(_TURNS_TO_END):
            tasks = asyncio.all_tasks(self)
            if not tasks:
                break
            for task in tasks:
                task.cancel()  # again: the end of a task may wait for something, too
            self.stop()
            self.run_forever()
        self.close()

    def _check_closed(self) -> None:
        """What is left of a killed process may call the loop when it is collected; that has no effect."""

    def _process_events(self, event_list: list[Any]) -> None:
        """There are no files."""

    def _write_to_self(self) -> None:
        if self._thread is not None:
            self._kernel.wake(self._thread)

    def run_in_executor(self, executor: Executor | None, func: Callable[..., _T], *args: Any) -> asyncio.Future[_T]:  # type: ignore[override]
        """See :class:`asyncio.AbstractEventLoop`."""
        future: asyncio.Future[_T] = asyncio.wrap_future((executor or self._default).submit(func, *args), loop=self)
        return future

    async def create_server(self, protocol_factory: Factory, host: Any = None, port: Any = None, **_: Any) -> Any:  # type: ignore[override]
        """See :class:`asyncio.AbstractEventLoop`; any free port."""
        assert self.network is not None
        return self.network.listen(self, protocol_factory)

    async def create_connection(self, protocol_factory: Factory, host: Any = None, port: Any = None, **_: Any) -> Any:  # type: ignore[override]
        """See :class:`asyncio.AbstractEventLoop`."""
        assert self.network is not None
        return await self.network.connect(self, protocol_factory, port)
