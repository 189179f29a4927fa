"""The application that ``serve run app.cluster.application:build`` and a configuration of Ray Serve start."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import ray
from fastapi import FastAPI
from ray import serve
from ray.serve.config import AutoscalingConfig, AutoscalingPolicy
from ray.serve.schema import LoggingConfig

from app.cluster.engine import EngineReplica
from app.cluster.options import ClusterOptions, EngineOptions, read_settings
from app.cluster.ray_engine import RayEngine
from app.cluster.scaling import ScaleOnSentences
from app.cluster.service import RemoteTranslations
from app.main import create_app
from app.settings import load_settings
from app.telemetry.logs import configure_logging

if TYPE_CHECKING:
    from ray.serve import Application
    from ray.serve.handle import DeploymentHandle

_MANY_REQUESTS = 100_000
"""Requests that Ray may give to a replica at a time: the engine's queue is the one that is bounded, and fair."""

_SURGE_PERCENT = 25
"""Share of replicas, one at least, that an update starts before it stops old ones."""

_LOGGING = LoggingConfig(enable_access_log=False)
"""The service writes a line for each request itself."""


@serve.deployment(
    name="engine",
    max_ongoing_requests=_MANY_REQUESTS,
    max_surge_percent=_SURGE_PERCENT,
    health_check_period_s=2,
    logging_config=_LOGGING,
)
class EngineDeployment(EngineReplica):
    """An engine replica, as Ray Serve starts and ends it."""

    async def __init__(self, variables: Mapping[str, str], num_cpus: float) -> None:  # type: ignore[misc]
        super().__init__(variables, num_cpus)
        await self.start()

    async def __del__(self) -> None:
        """Called by Ray when the requests are finished."""
        await self.stop()

    def render_metrics(self) -> Any:
        """The name of this replica and its metrics."""
        return serve.get_replica_context().replica_id.to_full_id_str(), super().render_metrics()


@serve.deployment(
    name="ingress",
    max_ongoing_requests=_MANY_REQUESTS,
    max_surge_percent=_SURGE_PERCENT,
    health_check_period_s=2,
    logging_config=_LOGGING,
)
@serve.ingress()
class IngressDeployment:
    """The application of :mod:`app.main`, whose models are in engine replicas.

    Args:
        variables: Its settings.
        engines: The engines by name.
    """

    def __init__(self, variables: Mapping[str, str], engines: Mapping[str, DeploymentHandle[Any]]) -> None:
        self._settings = load_settings(variables)
        self._engines = {name: RayEngine(handle) for name, handle in engines.items()}

    def __serve_build_asgi_app__(self) -> FastAPI:
        """Called by Ray Serve."""
        configure_logging(self._settings.log_level)
        settings, engines = self._settings, self._engines
        return create_app(settings, connect=lambda metrics: RemoteTranslations(settings, metrics, engines))


def build(options: ClusterOptions) -> Application:
    """The application.

    Args:
        options: Its arguments: ``args`` of a configuration, or ``name=value`` of ``serve run``. What is set in the
            environment, VERSO_*, holds unless they say something else.

    Raises:
        SettingsError: A setting is wrong.
    """
    _start_ray()
    engines = {name: _engine(name, options.engine(name)) for name in options.engines}
    variables = read_settings(options, os.environ)
    ingress = IngressDeployment.options(
        num_replicas=options.ingress_replicas,
        ray_actor_options={"num_cpus": options.ingress_cpus},
        graceful_shutdown_timeout_s=load_settings(variables).drain_timeout_s,
    )
    return ingress.bind(variables, engines)


def _engine(name: str, options: EngineOptions) -> Application:
    """The deployment of one engine."""
    variables = read_settings(options, os.environ)
    return EngineDeployment.options(
        name=name,
        ray_actor_options={"num_cpus": options.num_cpus, "num_gpus": options.num_gpus},
        graceful_shutdown_timeout_s=load_settings(variables).drain_timeout_s,
        autoscaling_config=AutoscalingConfig(
            min_replicas=options.min_replicas,
            max_replicas=options.max_replicas,
            upscale_delay_s=options.upscale_delay_s,
            downscale_delay_s=options.downscale_delay_s,
            look_back_period_s=options.look_back_s,
            policy=AutoscalingPolicy(
                policy_function=ScaleOnSentences,
                policy_kwargs={"sentences_per_replica": options.sentences_per_replica},
            ),
        ),
    ).bind(variables, options.num_cpus)


def _start_ray() -> None:
    """Start Ray in this process, without dashboard and reports of usage, unless there is a cluster to join."""
    if not ray.is_initialized() and not os.environ.get("RAY_ADDRESS"):
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        ray.init(include_dashboard=False, namespace="serve")
