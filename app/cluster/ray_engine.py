"""The replicas of an engine, reached through Ray Serve."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Mapping
from typing import TYPE_CHECKING, Any

from ray.exceptions import RayActorError, RayError, RaySystemError, WorkerCrashedError
from ray.serve.exceptions import DeploymentUnavailableError, RayServeException

from app.cluster.calls import Refusal, ReplicaLost, Streamed
from app.errors import NotReady

if TYPE_CHECKING:
    from ray.serve.handle import DeploymentHandle

logger = logging.getLogger("app.cluster")

_LOST = (RayActorError, WorkerCrashedError, RaySystemError)
"""Ray's errors of a call whose replica has ended."""

_METRICS_S = 5.0


class RayEngine:
    """An engine, whose replicas are those of a deployment.

    Args:
        handle: The deployment.
    """

    def __init__(self, handle: DeploymentHandle[Any]) -> None:
        self._handle = handle
        self._streaming = handle.options(stream=True)

    async def call(self, method: str, *arguments: Any) -> Any:
        """See :meth:`app.cluster.calls.Engine.call`."""
        try:
            return await getattr(self._handle, method).remote(*arguments)
        except _LOST as error:
            raise ReplicaLost from error
        except DeploymentUnavailableError as error:
            raise NotReady(5.0, "failed") from error

    async def stream(self, method: str, *arguments: Any) -> AsyncGenerator[Streamed | Refusal, None]:
        """See :meth:`app.cluster.calls.Engine.stream`."""
        arriving = getattr(self._streaming, method).remote(*arguments)
        is_running = True
        try:
            async for element in arriving:
                yield element
            is_running = False
        except _LOST as error:
            is_running = False
            raise ReplicaLost from error
        except DeploymentUnavailableError as error:
            is_running = False
            raise NotReady(5.0, "failed") from error
        finally:
            if is_running:
                # This may wait for Ray, which answers on another thread.
                await asyncio.to_thread(arriving.cancel)

    async def metrics(self) -> Mapping[str, bytes]:
        """See :meth:`app.cluster.calls.Engine.metrics`."""
        try:
            pages = await self._handle.broadcast("render_metrics").results_async(
                timeout_s=_METRICS_S, return_exceptions=True
            )
        except (TimeoutError, RayError, RayServeException):
            logger.warning("the metrics of the engine's replicas are missing", exc_info=True)
            return {}
        return dict(page for page in pages if isinstance(page, tuple))
