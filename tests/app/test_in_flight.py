from __future__ import annotations

import asyncio

import pytest

from app.errors import NotReady
from app.models.in_flight import RunningRequests

pytestmark = pytest.mark.anyio


async def waits(running: RunningRequests, gate: asyncio.Event) -> str:
    with running.entered():
        await gate.wait()
    return "done"


async def test_running_requests_are_waited_for() -> None:
    running, gate = RunningRequests(), asyncio.Event()
    task = asyncio.create_task(waits(running, gate))
    await asyncio.sleep(0)
    assert len(running) == 1
    finishing = asyncio.create_task(running.finish(10.0, NotReady(1.0, "unloaded")))
    await asyncio.sleep(0)
    assert not finishing.done()
    gate.set()
    assert await finishing
    assert await task == "done"
    await running.wait_idle()
    assert len(running) == 0


async def test_requests_that_exceed_the_timeout_are_cancelled_with_the_reason() -> None:
    running, gate = RunningRequests(), asyncio.Event()
    task = asyncio.create_task(waits(running, gate))
    await asyncio.sleep(0)
    reason = NotReady(1.0, "unloaded")
    assert not await running.finish(0.0, reason)
    with pytest.raises(NotReady) as refused:
        await task
    assert refused.value is reason
    assert task.cancelling() == 0
    await running.wait_idle()


async def test_a_task_cancelled_from_outside_stays_cancelled() -> None:
    running = RunningRequests()
    task = asyncio.create_task(waits(running, asyncio.Event()))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(running) == 0


async def test_without_requests_finish_returns_at_once() -> None:
    assert await RunningRequests().finish(0.0, NotReady(1.0, "unloaded"))
