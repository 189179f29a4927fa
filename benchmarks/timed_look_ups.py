"""The service, whose look-ups in translation memories are timed between two signals: SIGUSR1 begins, SIGUSR2 ends.

    python benchmarks/timed_look_ups.py FILE

It has the settings of ``python -m app``. The file has a list for each look-up, in milliseconds: until a request has the
result, on the thread of look-ups, and of CPU time.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from types import FrameType
from typing import TypeVar

from app.commands.serve import serve
from app.memories.lookup import Lookup
from app.memories.service import MemoryService

_T = TypeVar("_T")


def main() -> int:
    """Serve."""
    times: list[tuple[float, float, float]] = []
    look_up = MemoryService.look_up

    async def timed(self: MemoryService, search: Callable[[Lookup], _T]) -> _T:
        inside: list[float] = []

        def on_thread(lookup: Lookup) -> _T:
            began, cpu_began = time.perf_counter(), time.thread_time()
            try:
                return search(lookup)
            finally:
                inside.extend((time.perf_counter() - began, time.thread_time() - cpu_began))

        began = time.perf_counter()
        result = await look_up(self, on_thread)
        elapsed, cpu = inside
        times.append((1000 * (time.perf_counter() - began), 1000 * elapsed, 1000 * cpu))
        return result

    def end(number: int, _: FrameType | None) -> None:
        with open(f"{sys.argv[1]}.part", "w", encoding="utf-8") as file:
            json.dump(times, file)
        os.replace(f"{sys.argv[1]}.part", sys.argv[1])

    signal.signal(signal.SIGUSR1, lambda number, frame: times.clear())
    signal.signal(signal.SIGUSR2, end)
    MemoryService.look_up = timed  # type: ignore[method-assign]
    return serve(os.environ)


if __name__ == "__main__":
    sys.exit(main())
