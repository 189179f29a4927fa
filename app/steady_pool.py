"""A pool of threads that does not depend on starting more of them."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor

from app.errors import NotReady

logger = logging.getLogger("app.threads")


class SteadyPool(ThreadPoolExecutor):
    """Does with the threads it has what it was given, when the system starts no more.

    The base class raises an error then, and yet does the work later. Here work waits for a thread of the pool, and is
    refused, for good, if there is none.
    """

    def _adjust_thread_count(self) -> None:  # of the base class; called by submit(), which has just queued something
        try:
            super()._adjust_thread_count()
        except RuntimeError as error:
            logger.error("no thread can be started: %s", error)
            if not self._threads:
                self._work_queue.get_nowait()
                raise NotReady(5.0, "no_thread") from None
