"""The names of attention heads. Imports no torch, as request bodies name heads, too."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from model.errors import UnknownHead

if TYPE_CHECKING:
    from model.network.config import ModelConfig

AttentionKind = Literal["encoder", "decoder", "cross"]
"""Source to source, target to target, or target to source."""


@dataclass(frozen=True)
class AttentionHead:
    """One head.

    Args:
        kind: The kind of attention.
        layer: The layer, counted from 0.
        head: The head, counted from 0.
    """

    kind: AttentionKind
    layer: int
    head: int

    def check(self, config: ModelConfig) -> None:
        """Refuse a head that an architecture does not have.

        Args:
            config: The architecture.

        Raises:
            UnknownHead: There is no such layer, or no such head in it.
        """
        in_encoder = self.kind == "encoder"
        num_layers = config.encoder_layers if in_encoder else config.decoder_layers
        num_heads = config.num_heads if in_encoder else config.decoder_stack.num_heads
        if self.kind == "decoder" and config.decoder == "ssru":
            raise UnknownHead(self.kind, "layer", self.layer, 0)
        for part, number, count in (("layer", self.layer, num_layers), ("head", self.head, num_heads)):
            if not 0 <= number < count:
                raise UnknownHead(self.kind, part, number, count)
