"""Pictures, and the process that draws them."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import pytest

from app.errors import NotReady
from app.http.pictures import Pictures
from model.plots import attention_heat_map

WEIGHTS = np.random.default_rng(0).random((3, 2, 4), dtype=np.float32)
ROWS, COLUMNS = ["a", "b"], ["c", "d", "e", "f"]

pytestmark = pytest.mark.anyio


@pytest.fixture
async def pictures() -> AsyncIterator[Pictures]:
    pictures = Pictures()
    yield pictures
    await pictures.close()


async def test_a_picture_is_the_one_that_the_library_draws(pictures: Pictures) -> None:
    for weights in (WEIGHTS, WEIGHTS[1], WEIGHTS.transpose(0, 2, 1).copy().transpose(0, 2, 1)):
        drawn = await pictures.attention_heat_map(weights, ROWS, COLUMNS, "heads")
        assert drawn == attention_heat_map(weights, ROWS, COLUMNS, "heads")


async def test_an_error_has_its_traceback_and_the_process_goes_on(pictures: Pictures) -> None:
    with pytest.raises(RuntimeError, match="labels 1 rows"):
        await pictures.attention_heat_map(WEIGHTS, ["a"], COLUMNS, "heads")
    assert await pictures.attention_heat_map(WEIGHTS, ROWS, COLUMNS, "heads")


async def test_after_its_process_was_killed_the_next_picture_is_drawn(pictures: Pictures) -> None:
    drawn = await pictures.attention_heat_map(WEIGHTS, ROWS, COLUMNS, "heads")
    process = pictures._worker._process
    assert process is not None

    os.kill(process.pid, signal.SIGSTOP)
    second = asyncio.create_task(pictures.attention_heat_map(WEIGHTS, ROWS, COLUMNS, "heads"))
    await asyncio.sleep(0.05)
    os.kill(process.pid, signal.SIGKILL)

    with pytest.raises(NotReady, match="process"):
        await second
    assert await pictures.attention_heat_map(WEIGHTS, ROWS, COLUMNS, "heads") == drawn


async def test_nothing_is_drawn_for_a_client_that_left(pictures: Pictures) -> None:
    drawn = await pictures.attention_heat_map(WEIGHTS, ROWS, COLUMNS, "heads")
    process = pictures._worker._process
    assert process is not None

    os.kill(process.pid, signal.SIGSTOP)
    second = asyncio.create_task(pictures.attention_heat_map(WEIGHTS, ROWS, COLUMNS, "heads"))
    await asyncio.sleep(0.05)
    second.cancel()

    with pytest.raises(asyncio.CancelledError):
        await second
    assert await pictures.attention_heat_map(WEIGHTS, ROWS, COLUMNS, "heads") == drawn
    assert process.returncode == -signal.SIGKILL


def test_the_process_does_without_torch() -> None:
    code = "import sys, app.http.picture_worker; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).resolve().parents[2])
