"""SIGINT and SIGTERM as requests, which a long computation fulfils at its next good moment."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType


class StopRequest:
    """Whether the process was asked to stop."""

    def __init__(self) -> None:
        self.is_made = False

    def _make(self, number: int, frame: FrameType | None) -> None:
        self.is_made = True


@contextlib.contextmanager
def stop_request() -> Iterator[StopRequest]:
    """Collect SIGINT (Ctrl-C) and SIGTERM instead of being ended by them.

    Other threads than the main thread cannot receive signals; there the request is never made.
    """
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield request
        return
    handlers = {number: signal.signal(number, request._make) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield request
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
