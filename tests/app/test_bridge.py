"""The engine's interface for the event loop: how waiting tasks are woken."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise

import pytest

from app.engine.bridge import Wakes

pytestmark = pytest.mark.anyio


def on_a_thread(run: Callable[[], None]) -> None:
    """Call a function on another thread, and do not let the event loop run meanwhile."""
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()


def wake_all(wakes: Wakes, futures: Sequence[asyncio.Future[None]]) -> None:
    for done in futures:
        wakes.wake(done)


async def test_tasks_whose_outcomes_come_together_are_woken_together(monkeypatch: pytest.MonkeyPatch) -> None:
    loop, wakes = asyncio.get_running_loop(), Wakes()
    wake_ups: list[object] = []
    wake_up = loop.call_soon_threadsafe

    def counted(run: Callable[..., object], *arguments: object) -> asyncio.Handle:
        if threading.current_thread() is not threading.main_thread():
            wake_ups.append(run)
        return wake_up(run, *arguments)

    monkeypatch.setattr(loop, "call_soon_threadsafe", counted)
    for number in (1, 2):  # also after the first wake-up has been processed
        futures: list[asyncio.Future[None]] = [loop.create_future() for _ in range(10)]
        on_a_thread(partial(wake_all, wakes, futures))
        await asyncio.gather(*futures)
        assert len(wake_ups) == number


async def test_the_event_loop_gets_to_other_work_while_many_tasks_are_woken() -> None:
    loop, wakes = asyncio.get_running_loop(), Wakes()
    futures: list[asyncio.Future[None]] = [loop.create_future() for _ in range(20)]
    on_a_thread(partial(wake_all, wakes, futures))
    num_woken = [0]
    while num_woken[-1] < len(futures):
        await asyncio.sleep(0)
        num_woken.append(sum(done.done() for done in futures))
    assert max(after - before for before, after in pairwise(num_woken)) <= 2


async def test_tasks_do_not_pile_up_if_more_come_in_each_turn_of_the_event_loop() -> None:
    loop, wakes = asyncio.get_running_loop(), Wakes()
    futures: list[asyncio.Future[None]] = []
    for _ in range(200):
        arrived: list[asyncio.Future[None]] = [loop.create_future() for _ in range(10)]
        wake_all(wakes, arrived)
        futures += arrived
        await asyncio.sleep(0)
        assert sum(not done.done() for done in futures) <= 200


async def test_cancelled_task_does_not_keep_others_from_waking() -> None:
    loop, wakes = asyncio.get_running_loop(), Wakes()
    cancelled: asyncio.Future[None] = loop.create_future()
    waiting: asyncio.Future[None] = loop.create_future()

    cancelled.cancel()
    on_a_thread(partial(wake_all, wakes, [cancelled, waiting]))
    await waiting


async def test_future_of_a_closed_loop_does_not_block_later_ones() -> None:
    closed = asyncio.new_event_loop()
    wakes, lost = Wakes(), closed.create_future()
    closed.close()
    on_a_thread(lambda: wakes.wake(lost))
    waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    on_a_thread(lambda: wakes.wake(waiting))
    await waiting


async def test_two_threads_that_wake_at_once_lose_no_task() -> None:
    loop, wakes = asyncio.get_running_loop(), Wakes()
    futures: list[asyncio.Future[None]] = [loop.create_future() for _ in range(2_000)]
    threads = [threading.Thread(target=wake_all, args=(wakes, futures[half::2])) for half in (0, 1)]
    for thread in threads:
        thread.start()
    await asyncio.wait_for(asyncio.gather(*futures), 60.0)
    for thread in threads:
        thread.join()
