"""What an ingress and an engine replica say to each other, apart from how it is sent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from model.artifacts.manifest import Manifest


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
class Address:
    """Where a replica takes calls.

    Args:
        host: The address of its machine.
        port: Its port.
        secret: What a connection begins with; only who may call the replica through Ray knows it.
    """

    host: str
    port: int
    secret: bytes = field(repr=False)


@dataclass(frozen=True)
class Description:
    """A replica that takes calls.

    Args:
        address: Where.
        models: Its models.
    """

    address: Address
    models: Sequence[RemoteModel]


class ReplicaLost(Exception):
    """The replica of a request has ended before the answer."""
