"""The HTTP server: uvicorn, with an orderly end.

On SIGTERM or SIGINT readiness turns false and new requests are refused while the socket still listens, so that a load
balancer reads the refusal instead of running into a closed port. Running requests finish, within
``VERSO_DRAIN_TIMEOUT_S``. Then the process ends with exit code 0. A second signal ends it at once.

When the engine has given up, the server ends once requests have their refusals, so that a supervisor starts another.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
from collections.abc import Callable, Iterator
from types import FrameType
from typing import TYPE_CHECKING

import uvicorn

from app.steady_pool import SteadyPool
from model.process.memory import skip_in_collections

if TYPE_CHECKING:
    from app.serving.service import TranslationService

logger = logging.getLogger("app")

SIGNALS = (signal.SIGTERM, signal.SIGINT)
"""Those that end the service."""


class DrainingServer(uvicorn.Server):
    """uvicorn that drains before it closes its port, and whose process then ends with exit code 0.

    Args:
        config: How to serve.
        service: Drained on the first signal; the server ends if its models fail to load or its engine gives up.
        drain_timeout_s: Seconds running requests have to finish.
        prepare: Called on another thread once the server listens: what no request should wait for.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        service: TranslationService,
        drain_timeout_s: float,
        prepare: Callable[[], object],
    ) -> None:
        super().__init__(config)
        self.service = service
        self.drain_timeout_s = drain_timeout_s
        self._prepare = prepare
        self._tasks: list[asyncio.Task[object]] = []
        self._draining = False

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle the signals while serving; unlike uvicorn's handler, this one does not raise them again at the end."""
        loop = asyncio.get_running_loop()

        def on_signal(number: int, _: FrameType | None) -> None:
            loop.call_soon_threadsafe(self._stop, signal.Signals(number).name)

        before = {number: signal.signal(number, on_signal) for number in SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start listening, and watch the service."""
        await super().startup(sockets)
        asyncio.get_running_loop().set_default_executor(SteadyPool(thread_name_prefix="verso-work"))
        self._tasks.append(asyncio.create_task(self._watch()))
        self._tasks.append(asyncio.create_task(asyncio.to_thread(self._prepare)))

    def _stop(self, signal_name: str) -> None:
        if self._draining:
            logger.warning("ending at once", extra={"fields": {"signal": signal_name}})
            # Whatever still runs would have to be interrupted; stored data outlives the end of a process at any time.
            logging.shutdown()
            os._exit(0)
        self._draining = True
        self._tasks.append(asyncio.create_task(self._drain(signal_name)))

    async def _drain(self, signal_name: str) -> None:
        fields = {"signal": signal_name, "timeout_s": self.drain_timeout_s}
        logger.info("draining: new requests are refused", extra={"fields": fields})
        if await self.service.drain(self.drain_timeout_s):
            logger.info("drained: every request was answered")
        else:
            requests = list(self.server_state.tasks)
            logger.warning(
                "running requests are given up: the time to drain is over",
                extra={"fields": {"requests": len(requests)}},
            )
            for request in requests:
                request.cancel()
        self.should_exit = True

    async def _watch(self) -> None:
        await self.service.wait_loaded()
        skip_in_collections()
        if self.service.state == "failed":
            self.should_exit = True
        elif self.service.state == "ready":
            logger.info("ready", extra={"fields": {"models": [model.name for model in self.service.models]}})
        await self.service.engine_given_up()
        self.should_exit = True
