"""A grace for work whose client has disconnected.

Some clients wait for 5 or 10 seconds, disconnect, and send the same request again at once. If the work were stopped, as
it is elsewhere (:class:`app.http.middleware.DisconnectWatcher`), a request that takes longer could never be answered.
The retry joins the sentences that are still being translated, and gets the others from the cache.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

GRACE_S = 10.0
"""Seconds for which work continues without a client."""

_T = TypeVar("_T")


async def with_grace(work: Coroutine[Any, Any, _T]) -> _T:
    """Await work; if the current task is cancelled, the work continues for ``GRACE_S`` seconds."""
    task = asyncio.create_task(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        asyncio.get_running_loop().call_later(GRACE_S, task.cancel)
        raise
