"""A thread pool that works if the system starts no further thread."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor

from app.errors import NotReady

logger = logging.getLogger("app.threads")


class SteadyPool(ThreadPoolExecutor):
    """A thread pool that continues with its threads if the system starts no further one.

    The base class raises an error then, but still does the work later. Here the work waits for an existing thread, and
    is refused and removed if there is none.
    """

    def _adjust_thread_count(self) -> None:  # of the base class; called by submit(), which has just queued something
        try:
            super()._adjust_thread_count()
        except RuntimeError as error:
            logger.error("no thread can be started: %s", error)
            if not self._threads:
                self._work_queue.get_nowait()
                raise NotReady(5.0, "no_thread") from None
