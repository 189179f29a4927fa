"""An engine whose replicas are found through Ray Serve."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ray.exceptions import RayError
from ray.serve.exceptions import RayServeException

from app.cluster.calls import Description
from app.cluster.replicas import Engine
from app.errors import NotReady

if TYPE_CHECKING:
    from ray.serve.handle import DeploymentHandle

logger = logging.getLogger("app.cluster")

_ANSWER_S = 5.0
"""Seconds within which all replicas answer."""


class RayEngine(Engine):
    """An engine, whose replicas are those of a deployment.

    Args:
        handle: The deployment.
    """

    def __init__(self, handle: DeploymentHandle[Any]) -> None:
        super().__init__()
        self._handle = handle

    async def discover(self) -> Sequence[Description]:
        """See :meth:`app.cluster.replicas.Engine.discover`."""
        try:
            answers = await self._answers("describe")
        except (TimeoutError, RayError, RayServeException) as error:
            raise NotReady(5.0, "failed") from error
        return [answer for answer in answers if isinstance(answer, Description)]

    async def metrics(self) -> Mapping[str, bytes]:
        """See :meth:`app.cluster.replicas.Engine.metrics`."""
        try:
            pages = await self._answers("render_metrics")
        except (TimeoutError, RayError, RayServeException):
            logger.warning("the metrics of the engine's replicas are missing", exc_info=True)
            return {}
        return dict(page for page in pages if isinstance(page, tuple))

    async def _answers(self, method: str) -> Sequence[Any]:
        """The answers of all replicas, or their exceptions."""
        answers: Sequence[Any] = await self._handle.broadcast(method).results_async(
            timeout_s=_ANSWER_S, return_exceptions=True
        )
        return answers
