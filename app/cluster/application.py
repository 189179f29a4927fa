"""The application that ``serve run app.cluster.application:build`` and a configuration of Ray Serve start."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import ray
from ray import serve
from ray.serve.config import AutoscalingConfig, AutoscalingPolicy
from ray.serve.schema import LoggingConfig
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Lifespan, Message, Receive, Scope, Send

from app.cluster.engine import EngineReplica
from app.cluster.listener import listening
from app.cluster.options import ClusterOptions, EngineOptions, ingress_settings, read_settings, settings_of_engine
from app.cluster.ray_engine import RayEngine
from app.cluster.scaling import ScaleOnSentences
from app.cluster.service import RemoteTranslations
from app.main import create_app
from app.settings import Settings, load_settings
from app.telemetry.logs import configure_logging
from model.process.allocator import share_freed_memory
from model.process.memory import skip_in_collections

if TYPE_CHECKING:
    from ray.serve import Application
    from ray.serve.handle import DeploymentHandle

_MANY_REQUESTS = 100_000
"""Requests that Ray may give to a replica at once; the engine's queue is bounded and fair."""

_SURGE_PERCENT = 25
"""Percentage of replicas, at least one, that an update starts before it stops old ones."""

_HEALTH_CHECK_S = 2
"""Interval of health checks of a replica, in seconds."""

_DRAIN_POLL_S = 0.2
"""Interval at which a stopping replica checks whether its requests are finished, in seconds."""


class EngineDeployment(EngineReplica):
    """An engine replica, as Ray Serve starts and ends it."""

    async def __init__(self, variables: Mapping[str, str], num_cpus: float) -> None:  # type: ignore[misc]
        super().__init__(settings_of_engine(variables, num_cpus))
        configure_logging(self.settings.log_level)
        share_freed_memory()
        await self.start(ray.util.get_node_ip_address())
        skip_in_collections()

    async def __del__(self) -> None:
        """Called by Ray after it has taken the replica out of service; it waits for the end of the calls."""
        await self.stop()

    def render_metrics(self) -> Any:
        """The name of this replica and its metrics."""
        return serve.get_replica_context().replica_id.to_full_id_str(), super().render_metrics()


class IngressDeployment:
    """The application of :mod:`app.main`, with models in engine replicas.

    Args:
        variables: Its settings.
        engines: The engines by name.
        port: Where it answers HTTP itself as well; None for nowhere.
    """

    def __init__(
        self, variables: Mapping[str, str], engines: Mapping[str, DeploymentHandle[Any]], port: int | None
    ) -> None:
        self._settings = load_settings(variables)
        self._engines = {name: RayEngine(handle) for name, handle in engines.items()}
        self._port = port

    def __serve_build_asgi_app__(self) -> ASGIApp:
        """Called by Ray Serve."""
        configure_logging(self._settings.log_level)
        settings, engines = self._settings, self._engines
        app = create_app(settings, connect=lambda metrics: RemoteTranslations(settings, metrics, engines))
        if self._port is not None:
            app.router.lifespan_context = _with_listener(app.router.lifespan_context, settings, self._port)
        skip_in_collections()
        return _WithoutRequestId(app)


def _with_listener(lifespan: Lifespan[Any], settings: Settings, port: int) -> Lifespan[Any]:
    """The lifespan of an application that listens at a port, too."""

    @asynccontextmanager
    async def with_listener(app: ASGIApp) -> AsyncIterator[None]:
        async with lifespan(app), listening(app, settings, port):
            yield

    return with_listener


class _WithoutRequestId:
    """Removes the request id from answers: Ray Serve adds the same header.

    Args:
        app: The application inside.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one connection."""

        async def send_without_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                del MutableHeaders(scope=message)["X-Request-ID"]
            await send(message)

        await self.app(scope, receive, send_without_id)


def build(arguments: dict[str, Any]) -> Application:
    """The application.

    Args:
        arguments: ``args`` of a configuration, or ``name=value`` of ``serve run``: those of
            :class:`app.cluster.options.ClusterOptions`. Settings in the environment, VERSO_*,
            apply unless an argument replaces them.

    Raises:
        ValidationError: An argument is invalid.
        SettingsError: A setting is invalid.
    """
    options = ClusterOptions.model_validate(arguments)
    _start_ray()
    engines = {name: _engine(name, options.engine(name)) for name in options.engines}
    variables = ingress_settings(options, os.environ)
    keeps_files = load_settings(variables).data_dir is not None
    ingress = serve.deployment(
        name="ingress",
        num_replicas=options.ingress_replicas,
        ray_actor_options={"num_cpus": options.ingress_cpus},
        # Only one process may use the folder: an update stops the old one first, and requests wait for the new one.
        max_surge_percent=0 if keeps_files else _SURGE_PERCENT,
        **_common(variables),
    )(serve.ingress()(IngressDeployment))
    application: Application = ingress.bind(variables, engines, options.port)
    return application


def _engine(name: str, options: EngineOptions) -> Application:
    """The deployment of one engine."""
    variables = read_settings(options, os.environ)
    policy = AutoscalingPolicy(
        policy_function=ScaleOnSentences, policy_kwargs={"sentences_per_replica": options.sentences_per_replica}
    )
    engine = serve.deployment(
        name=name,
        ray_actor_options={"num_cpus": options.num_cpus, "num_gpus": options.num_gpus},
        max_surge_percent=_SURGE_PERCENT,
        autoscaling_config=AutoscalingConfig(
            min_replicas=options.min_replicas,
            max_replicas=options.max_replicas,
            upscale_delay_s=options.upscale_delay_s,
            downscale_delay_s=options.downscale_delay_s,
            look_back_period_s=options.look_back_s,
            policy=policy,
        ),
        **_common(variables),
    )(EngineDeployment)
    application: Application = engine.bind(variables, options.num_cpus)
    return application


def _common(variables: Mapping[str, str]) -> dict[str, Any]:
    """The common options of ingress and engines."""
    return {
        "max_ongoing_requests": _MANY_REQUESTS,
        "health_check_period_s": _HEALTH_CHECK_S,
        "graceful_shutdown_timeout_s": load_settings(variables).drain_timeout_s,
        "graceful_shutdown_wait_loop_s": _DRAIN_POLL_S,
        "logging_config": LoggingConfig(enable_access_log=False),  # the service itself logs each request
    }


def _start_ray() -> None:
    """Start Ray in this process, without dashboard and usage reports, unless a cluster is configured."""
    if not ray.is_initialized() and not os.environ.get("RAY_ADDRESS"):
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        ray.init(include_dashboard=False, namespace="serve")
