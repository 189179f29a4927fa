"""Threads, locks and a clock that a seed controls.

Each simulated thread is a greenlet. One runs at a time, until it sleeps, waits, or is preempted at a lock; then the
generator of random numbers chooses the next one. If none can run, the clock jumps to the next one that wakes up.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import random
import sys
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import greenlet

if TYPE_CHECKING:
    from tests.simulation.loop import SimulatedLoop

BEGIN = 1_000.0
"""The clock time at which a simulation begins."""


DELAYED = 0.1
"""Share of the preemptions during which time passes."""

DELAYS_S = (0.0001, 0.003, 0.05)

MAX_SWITCHES = 60_000
"""Turns of threads after which a simulation counts as endless."""


class Stuck(AssertionError):
    """No thread can run, and none will wake up."""


class SimulatedThread:
    """A thread of a simulated process.

    Args:
        kernel: Runs it.
        run: What it does.
        name: Its name, for traces.
        process: The process that it belongs to, which may be killed; None for a thread of the world outside.
    """

    def __init__(self, kernel: Kernel, run: Callable[[], None], name: str, process: object = None) -> None:
        self.name = name
        self.process = process
        self.loop: asyncio.AbstractEventLoop | None = None
        self.hooks: tuple[Any, Any] = (None, None)  # of asynchronous generators: a loop sets them for its thread
        self.wakes_at: float | None = None
        self.is_ready = True
        self.error: BaseException | None = None
        self.has_ended = False
        self.waiting: list[SimulatedThread] = []  # those that join it
        self._kernel = kernel
        self.greenlet = greenlet.greenlet(lambda: self._run(run), kernel.hub)

    @property
    def is_blocked(self) -> bool:
        """Whether it waits for another thread, without a timeout."""
        return not self.is_ready and self.wakes_at is None

    def _run(self, run: Callable[[], None]) -> None:
        try:
            run()
        except greenlet.GreenletExit:
            pass
        except BaseException as error:  # noqa: BLE001  (the kernel raises it)
            self.error = error
        self.has_ended = True
        for thread in self.waiting:
            self._kernel.wake(thread)

    def join(self, timeout: float | None = None) -> None:
        """See :class:`threading.Thread`."""
        if not self.has_ended:
            self.waiting.append(self._kernel.running_thread)
            self._kernel.block(timeout)

    def is_alive(self) -> bool:
        """See :class:`threading.Thread`."""
        return not self.has_ended


class Kernel:
    """Runs simulated threads.

    Args:
        rng: Chooses the next thread.
        preempts: The probability that a thread is preempted when it acquires or releases a lock.
        after_step: Called after each turn of a thread.
    """

    def __init__(self, rng: random.Random, preempts: float, after_step: Callable[[], None] = lambda: None) -> None:
        self.now = BEGIN
        self.rng = rng
        self.preempts = preempts
        self.after_step = after_step
        self.hub = greenlet.getcurrent()
        self.current: SimulatedThread | None = None
        self.num_switches = 0
        self.delayed_s = 0.0
        """Seconds for which threads were preempted, together."""
        self.is_over = False
        """Whether what runs now has no effect, because its process is being killed."""
        self._ready: list[SimulatedThread] = []
        self._alive: dict[SimulatedThread, None] = {}
        self._sleeping: list[tuple[float, int, SimulatedThread]] = []
        self._numbers = itertools.count()
        self._actions: deque[Callable[[], None]] = deque()

    def between_turns(self, act: Callable[[], None]) -> None:
        """Do something before the next turn of a thread, outside of all threads."""
        self._actions.append(act)

    def clock(self) -> float:
        """The monotonic clock."""
        return self.now

    @property
    def running_thread(self) -> SimulatedThread:
        """The thread that runs."""
        assert self.current is not None, "called outside of the simulated threads"
        return self.current

    def start(self, run: Callable[[], None], name: str, process: object = None) -> SimulatedThread:
        """Start a thread."""
        thread = SimulatedThread(self, run, name, process)
        self._ready.append(thread)
        self._alive[thread] = None
        return thread

    def run(self, is_over: Callable[[], bool], until: float) -> None:
        """Run threads until a condition holds.

        Args:
            is_over: The condition.
            until: Clock time at which it must hold.

        Raises:
            Stuck: It never will.
        """
        while True:
            while self._actions:
                self._actions.popleft()()
            if is_over():
                return
            if self.now > until:
                raise Stuck(f"it has not ended after {self.now - BEGIN:.0f} s")
            if not self._ready:
                self._jump()
            index = self.rng.randrange(len(self._ready)) if len(self._ready) > 1 else 0
            self._turn(self._ready.pop(index))

    def sleep(self, seconds: float) -> None:
        """Let time pass in the thread that runs."""
        thread = self.running_thread
        end = self.now + seconds
        while self.now < end:
            self._sleep_until(thread, end)

    def block(self, timeout: float | None = None) -> None:
        """Wait until another thread calls :meth:`wake`, or until a timeout."""
        thread = self.running_thread
        if timeout is None:
            thread.is_ready = False
            self._switch()
        else:
            self._sleep_until(thread, self.now + max(0.0, timeout))

    def wake(self, thread: SimulatedThread) -> None:
        """End the wait of a thread."""
        if not thread.is_ready and not thread.has_ended and thread in self._alive:
            thread.is_ready, thread.wakes_at = True, None
            self._ready.append(thread)

    def pause(self) -> None:
        """Let other threads run that can."""
        self._ready.append(self.running_thread)
        self._switch()

    def preempt(self) -> None:
        """At a lock: perhaps let other threads run, and rarely for some time."""
        if not self.preempts or self.is_over or self.rng.random() >= self.preempts:
            return
        if self.rng.random() < DELAYED:
            delay_s = self.rng.choice(DELAYS_S)
            self.delayed_s += delay_s
            self.sleep(delay_s)
        elif self._ready:
            self.pause()

    def kill(self, process: object, loop: SimulatedLoop | None = None) -> None:
        """End the threads of a process and the tasks of its loop. What they do meanwhile has no effect."""
        threads = [thread for thread in self._alive if thread.process is process]
        self._ready = [thread for thread in self._ready if thread.process is not process]
        for thread in threads:
            self._alive.pop(thread, None)
            thread.is_ready, thread.wakes_at = True, None
        self.is_over = True
        try:
            for thread in threads:
                self._enter(thread)
                thread.greenlet.throw(greenlet.GreenletExit)
            self.current = None
            asyncio._set_running_loop(None)
            if loop is not None:
                loop.dispose()
        finally:
            self.is_over = False

    def close(self) -> None:
        """End all threads."""
        for process in list(dict.fromkeys(thread.process for thread in self._alive)):
            self.kill(process)
        self.is_over = True
        sys.set_asyncgen_hooks(None, None)

    @property
    def alive(self) -> list[str]:
        """The names of the threads that have not ended."""
        return [thread.name for thread in self._alive]

    def _turn(self, thread: SimulatedThread) -> None:
        self._enter(thread)
        thread.greenlet.switch()
        thread.loop = asyncio._get_running_loop()  # a loop that runs, or none that has ended
        firstiter, finalizer = sys.get_asyncgen_hooks()
        thread.hooks = firstiter, finalizer  # what the function returns is invisible to the garbage collector
        self.current = None
        asyncio._set_running_loop(None)
        self.num_switches += 1
        if self.num_switches > MAX_SWITCHES:
            raise Stuck(f"the threads {', '.join(self.alive)} do not come to rest")
        if thread.has_ended:
            self._alive.pop(thread, None)
            if thread.error is not None:
                raise thread.error
        self.after_step()

    def _enter(self, thread: SimulatedThread) -> None:
        self.current = thread
        asyncio._set_running_loop(thread.loop)
        sys.set_asyncgen_hooks(*thread.hooks)

    def _switch(self) -> None:
        if self.is_over:
            raise greenlet.GreenletExit
        self.hub.switch()

    def _sleep_until(self, thread: SimulatedThread, end: float) -> None:
        thread.is_ready, thread.wakes_at = False, end
        heapq.heappush(self._sleeping, (end, next(self._numbers), thread))
        self._switch()

    def _jump(self) -> None:
        """Let time pass until a thread wakes up."""
        while self._sleeping:
            end, _, thread = self._sleeping[0]
            if thread.wakes_at != end or thread.is_ready:
                heapq.heappop(self._sleeping)  # it was woken before
            elif self._ready and end > self.now:
                return
            else:
                heapq.heappop(self._sleeping)
                self.now = max(self.now, end)
                self.wake(thread)
        if not self._ready:
            raise Stuck(f"no thread can run: {', '.join(self.alive)}")
