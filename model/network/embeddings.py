"""Embeddings of tokens and positions."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from model.network.config import ModelConfig, PositionTable


def position_table(layout: PositionTable, num_positions: int, d_model: int, offset: int = 0) -> Tensor:
    """The vectors of the positions ``offset`` to ``offset + num_positions - 1``.

    - ``interleaved``: Vaswani et al. 2017, section 3.5. Even columns are ``sin(p / 10000^(2i / C))``; the odd column
      after each is the cosine of the same angle.
    - ``halves``: the same angles, with all sines in the left half and all cosines in the right half (Marian, as Hugging
      Face and CTranslate2 run it).
    - ``tensor2tensor``: like ``halves``, with the angle ``p / 10000^(i / (C / 2 - 1))`` (tensor2tensor, fairseq,
      M2M100).
    - ``learned``: zeros, to be replaced by weights.

    Args:
        layout: One of the layouts above.
        num_positions: Number of rows.
        d_model: Width, C; even.
        offset: Position of the first row.

    Returns:
        The table, (num_positions, C), float32; on the device ``meta`` without values.
    """
    if torch.get_default_device().type == "meta":
        # Only the shape is needed. For a sine on this device torch would import its compiler, which takes a second.
        return torch.empty(num_positions, d_model)
    if layout == "learned":
        return torch.zeros(num_positions, d_model)
    if layout == "tensor2tensor":
        # Computed in float32 throughout, as in training; float64 would change the 5th digit of later rows.
        half = d_model // 2
        frequency = torch.exp(torch.arange(half).float() * -(math.log(10000) / (half - 1)))
        angle = torch.arange(offset, offset + num_positions).float().unsqueeze(1) * frequency.unsqueeze(0)
        return torch.cat([torch.sin(angle), torch.cos(angle)], dim=1)
    # Computed in float64: in float32 the angle at position 200 is already off by 1e-5.
    position = torch.arange(offset, offset + num_positions, dtype=torch.float64).unsqueeze(1)
    frequency = torch.exp(torch.arange(0, d_model, 2, dtype=torch.float64) * (-math.log(10000.0) / d_model))
    sines, cosines = torch.sin(position * frequency), torch.cos(position * frequency)
    if layout == "halves":
        return torch.cat([sines, cosines], dim=1).to(torch.float32)
    return torch.stack([sines, cosines], dim=2).flatten(1).to(torch.float32)


class Embedding(nn.Module):
    """Token embedding times ``sqrt(d_model)`` plus the vector of the position (Vaswani et al. 2017, 3.4, 3.5).

    Args:
        config: Gives the width, the layout and length of the position table, scaling and normalisation.
        vocab_size: Number of tokens, V.
        zero_start: Whether the token at position 0 has a vector of zeros, whichever it is.
    """

    def __init__(self, config: ModelConfig, vocab_size: int, zero_start: bool = False) -> None:
        super().__init__()
        self.zero_start = zero_start
        self.tokens = nn.Embedding(vocab_size, config.d_model)
        self.scale = math.sqrt(config.d_model) if config.scale_embedding else 1.0
        # Rows of this standard deviation have variance 1 after scaling.
        nn.init.normal_(self.tokens.weight, std=1.0 / self.scale)
        table = position_table(config.positions, config.max_positions, config.d_model, config.position_offset)
        self.positions: Tensor
        if config.positions == "learned":
            self.positions = nn.Parameter(nn.init.normal_(table, std=config.d_model**-0.5))
        else:
            # Not persistent: the table is computed from the configuration, so checkpoints do not need it.
            self.register_buffer("positions", table, persistent=False)

    def forward(self, token_ids: Tensor, positions: Tensor) -> Tensor:
        """Embed tokens at their positions.

        Args:
            token_ids: (B, T).
            positions: Position of each token, counted from 0; broadcasts to (B, T).

        Returns:
            Vectors, (B, T, C).
        """
        vectors = self.tokens(token_ids) * self.scale
        if self.zero_start:
            vectors = vectors.masked_fill((positions == 0).unsqueeze(-1), 0.0)
        return vectors + self.positions[positions]
