"""The memory, files and threads of a process, over time."""

from __future__ import annotations

import asyncio
import os
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

SAMPLE_S = 5.0
"""Interval of the samples, in seconds."""


@dataclass(frozen=True)
class Sample:
    """Memory at a time.

    Args:
        at_s: Seconds since the load began.
        resident: Bytes in memory.
        private: Bytes that belong to this process alone.
        dirty: Those of them that have been written to.
    """

    at_s: float
    resident: int
    private: int
    dirty: int


@dataclass
class Watch:
    """Samples of a process.

    Args:
        pid: Its id.
        began: When the load began, in seconds of ``time.monotonic``.
        samples: The samples, in order.
    """

    pid: int
    began: float = field(default_factory=time.monotonic)
    samples: list[Sample] = field(default_factory=list)

    async def run(self) -> None:
        """Take samples until cancelled."""
        while True:
            # The kernel counts pages under a lock of the process's memory: rarely, and not on the event loop.
            self.samples.append(await asyncio.to_thread(self._sample))
            await asyncio.sleep(SAMPLE_S)

    def _sample(self) -> Sample:
        sizes: dict[str, int] = {}
        for line in Path(f"/proc/{self.pid}/smaps_rollup").read_text(encoding="ascii").splitlines()[1:]:
            name, _, value = line.partition(":")
            sizes[name] = 1024 * int(value.split()[0])
        dirty = sizes["Private_Dirty"]
        return Sample(time.monotonic() - self.began, sizes["Rss"], dirty + sizes["Private_Clean"], dirty)

    def resources(self) -> dict[str, int]:
        """The numbers of open file descriptors and of threads."""
        process = f"/proc/{self.pid}"
        return {"open_files": len(os.listdir(f"{process}/fd")), "threads": len(os.listdir(f"{process}/task"))}


def drift(times_s: Sequence[float], values: Sequence[float]) -> float:
    """Growth along the line of least squares, from the first time to the last, as a share of the line's beginning.

    Args:
        times_s: At least two times.
        values: The value at each.
    """
    slope, intercept = statistics.linear_regression(times_s, values)
    return slope * (times_s[-1] - times_s[0]) / (intercept + slope * times_s[0])
