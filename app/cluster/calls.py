"""The calls between an ingress and an engine replica."""

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
        engine: The name of its engine; set by the ingress.
        num_bytes: Memory that it takes when it is loaded, estimated.
    """

    manifest: Manifest
    device: str
    engine: str = ""
    num_bytes: int = 0

    @property
    def name(self) -> str:
        """Its name; no two models have the same."""
        return self.manifest.name

    @property
    def in_memory(self) -> None:
        """Not known: each replica decides for itself."""
        return None


@dataclass(frozen=True)
class Refusal:
    """The error of a request, returned instead of a result. Ray would log an exception with its traceback.

    Args:
        error: A ServiceError or ModelError.
    """

    error: Exception


class ReplicaLost(Exception):
    """The replica of a request has ended before the answer."""


class Engine(Protocol):
    """The replicas of one engine: each call goes to one of them."""

    async def call(self, method: str, *arguments: Any) -> Any:
        """Call a method of a replica; the call is cancelled with the awaiting task.

        Raises:
            ReplicaLost: The replica has ended.
        """
        ...

    def stream(self, method: str, *arguments: Any) -> AsyncGenerator[Streamed | Refusal, None]:
        """As :meth:`call`, for a method that yields; always close the generator.

        Raises:
            ReplicaLost: The replica has ended.
        """
        ...

    async def metrics(self) -> Mapping[str, bytes]:
        """The metrics of all replicas, by their names."""
        ...
