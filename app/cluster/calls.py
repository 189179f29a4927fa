"""What an ingress and an engine replica say to each other."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from app.serving.text_job import TranslateResult
from app.serving.text_translation import StreamedSentence, StreamedText
from model.artifacts.manifest import Manifest

Streamed = StreamedSentence | StreamedText | TranslateResult


@dataclass(frozen=True)
class RemoteModel:
    """A model that engine replicas have loaded.

    Args:
        manifest: The metadata of its bundle.
        device: The device it is on.
        engine: The name of the engine that has it; set by the ingress.
    """

    manifest: Manifest
    device: str
    engine: str = ""

    @property
    def name(self) -> str:
        """Its name; no two models have the same."""
        return self.manifest.name


@dataclass(frozen=True)
class Refusal:
    """Instead of a result: the error of a request. It is no exception, which Ray would log with its trace.

    Args:
        error: One of those that are answered with a problem.
    """

    error: Exception


class ReplicaLost(Exception):
    """The replica that a request was given to has ended before the answer."""


class Engine(Protocol):
    """The replicas of one engine: each call goes to one of them."""

    async def call(self, method: str, *arguments: Any) -> Any:
        """Call a method of a replica; the call is withdrawn if the awaiting task is cancelled.

        Raises:
            ReplicaLost: The replica has ended.
        """
        ...

    def stream(self, method: str, *arguments: Any) -> AsyncGenerator[Streamed | Refusal, None]:
        """As :meth:`call`, for a method that yields; close the generator in any case.

        Raises:
            ReplicaLost: The replica has ended.
        """
        ...

    async def metrics(self) -> Mapping[str, bytes]:
        """The metrics of all replicas, by their names."""
        ...
