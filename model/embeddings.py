"""Tokens and places as vectors."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn


def sinusoidal_positions(num_positions: int, d_model: int) -> Tensor:
    """The position table of Vaswani et al. 2017, section 3.5.

    Even columns hold ``sin(p / 10000^(2i / C))``, the odd column beside each the cosine of the same angle.

    Args:
        num_positions: Rows to make.
        d_model: Width, C; even.

    Returns:
        The table, (num_positions, C), float32.
    """
    # float64 until the end: at position 200 the angle of a float32 product is off by 1e-5 already.
    position = torch.arange(num_positions, dtype=torch.float64).unsqueeze(1)
    frequency = torch.exp(torch.arange(0, d_model, 2, dtype=torch.float64) * (-math.log(10000.0) / d_model))
    table = torch.empty(num_positions, d_model, dtype=torch.float64)
    table[:, 0::2] = torch.sin(position * frequency)
    table[:, 1::2] = torch.cos(position * frequency)
    return table.to(torch.float32)


class Embedding(nn.Module):
    """Token embedding times ``sqrt(d_model)`` plus the sinusoid of the position (Vaswani et al. 2017, 3.4, 3.5).

    Args:
        vocab_size: Tokens, V.
        d_model: Width, C.
        max_positions: Rows of the position table.
    """

    def __init__(self, vocab_size: int, d_model: int, max_positions: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocab_size, d_model)
        # Scaled by sqrt(d_model) on the way in, rows of this deviation arrive with variance 1.
        nn.init.normal_(self.tokens.weight, std=d_model**-0.5)
        self.scale = math.sqrt(d_model)
        # Not persistent: computed from the configuration, so a checkpoint need not carry it.
        self.register_buffer("positions", sinusoidal_positions(max_positions, d_model), persistent=False)
        self.positions: Tensor

    def forward(self, token_ids: Tensor, positions: Tensor) -> Tensor:
        """Embed tokens at their places.

        Args:
            token_ids: (B, T).
            positions: Place of each token counted from 0; broadcasts to (B, T).

        Returns:
            Vectors, (B, T, C).
        """
        return self.tokens(token_ids) * self.scale + self.positions[positions]
