"""The configuration of the service on Ray Serve: the arguments of its application, validated before it starts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from app.errors import SettingsError
from app.settings import Settings, load_settings

EngineName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_-]{0,62}$")]

_WITHOUT_EFFECT = frozenset({"VERSO_ADMIN_TOKEN", "VERSO_PORT"})
"""Settings without effect: ports are options, and models change with the configuration."""

_SINGLE_INGRESS_ONLY = {
    "VERSO_DATA_DIR": "only one process may use a folder",
    "VERSO_MAX_DOCUMENTS": "only the ingress that accepted a document knows it, and requests go to any ingress",
}
"""Settings for a single ingress, and why."""

_EveryValue = str | int | float


class EngineOptions(BaseModel):
    """The replicas that run a model or a group of models."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    settings: dict[str, _EveryValue] = Field(default_factory=dict)
    """Settings of the replicas, VERSO_*; they replace those of the application and of the environment."""

    min_replicas: int = Field(default=1, ge=1, le=10_000)
    """Minimum number of replicas."""

    max_replicas: int = Field(default=1, ge=1, le=10_000)
    """Maximum number of replicas."""

    sentences_per_replica: float = Field(default=64, gt=0)
    """Queued and decoding sentences per replica."""

    num_cpus: float = Field(default=1, ge=0)
    """CPUs that Ray reserves for a replica; the default of VERSO_THREADS."""

    num_gpus: float = Field(default=0, ge=0)
    """GPUs that Ray reserves for a replica."""

    upscale_delay_s: float = Field(default=10, ge=0)
    """Seconds for which more replicas must be needed before they are started."""

    downscale_delay_s: float = Field(default=300, ge=0)
    """Seconds for which fewer replicas must be needed before some are stopped."""

    look_back_s: float = Field(default=15, gt=0)
    """Seconds over which the number of sentences is averaged."""

    @model_validator(mode="after")
    def _bounds_are_ordered(self) -> Self:
        if self.max_replicas < self.min_replicas:
            raise ValueError(
                f"max_replicas is {self.max_replicas}; it must be at least min_replicas, {self.min_replicas}"
            )
        return self


class ClusterOptions(EngineOptions):
    """The application's arguments. Those of engines are the defaults of every engine."""

    max_replicas: int = Field(default=1, ge=1, le=10_000)
    """Maximum number of replicas of an engine."""

    engines: dict[EngineName, dict[str, Any]] = Field(default={"engine": {}}, min_length=1)
    """The engines by name, each with the options that differ; requests go to the first with their language pair."""

    ingress_replicas: int = Field(default=1, ge=1, le=1_000)
    """Number of replicas that answer HTTP."""

    ingress_cpus: float = Field(default=0.5, ge=0)
    """CPUs that Ray reserves for an ingress replica."""

    port: int | None = Field(default=None, ge=1, le=65535)
    """The port at which ingresses answer HTTP themselves, beside Ray Serve's proxy; those of a machine share it."""

    def engine(self, name: str) -> EngineOptions:
        """The options of an engine.

        Args:
            name: Its name.

        Raises:
            ValidationError: The options contradict each other.
        """
        shared = self.model_dump(include=set(EngineOptions.model_fields), exclude_unset=True)
        own = self.engines[name]
        settings = {**shared.get("settings", {}), **own.get("settings", {})}
        return EngineOptions.model_validate({**shared, **own, "settings": settings})

    @model_validator(mode="after")
    def _engines_are_valid(self) -> Self:
        for name in self.engines:
            self.engine(name)
        return self


def read_settings(options: EngineOptions, environ: Mapping[str, str]) -> dict[str, str]:
    """The settings of replicas, as variables of their environment.

    Args:
        options: The configuration.
        environ: The environment in which the application is built.

    Raises:
        SettingsError: They are invalid.
    """
    chosen = {
        name: value for name, value in environ.items() if name.startswith("VERSO_") and name not in _WITHOUT_EFFECT
    }
    chosen |= {name: str(value) for name, value in options.settings.items()}
    load_settings(chosen)
    return chosen


def ingress_settings(options: ClusterOptions, environ: Mapping[str, str]) -> dict[str, str]:
    """The settings of ingresses: see :func:`read_settings`. Several ingresses accept no documents.

    Raises:
        SettingsError: They are invalid, or for a single process and there are several.
    """
    chosen = read_settings(options, environ)
    if options.ingress_replicas == 1:
        return chosen
    for name, reason in _SINGLE_INGRESS_ONLY.items():
        if chosen.get(name, "0") != "0":
            raise SettingsError(
                f"{name} is set and ingress_replicas is {options.ingress_replicas}: {reason}. "
                "Unset it, or set ingress_replicas to 1."
            )
    return {**chosen, "VERSO_MAX_DOCUMENTS": "0"}


def settings_of_engine(variables: Mapping[str, str], num_cpus: float) -> Settings:
    """The settings of an engine replica.

    Args:
        variables: Its settings.
        num_cpus: Its CPUs; at least one is used.
    """
    return load_settings({"VERSO_THREADS": str(max(1, int(num_cpus))), **variables})
