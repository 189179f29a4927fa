"""Tokens and places as vectors."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from model.network.config import ModelConfig, PositionTable
from model.network.norms import layer_norm


def position_table(layout: PositionTable, num_positions: int, d_model: int, offset: int = 0) -> Tensor:
    """The vectors of the places 0 to ``num_positions - 1``.

    - ``interleaved``: Vaswani et al. 2017, section 3.5. Even columns hold ``sin(p / 10000^(2i / C))``, the odd column
      beside each the cosine of the same angle.
    - ``halves``: the same angles, all sines in the left half and all cosines in the right one (Marian as Hugging Face
      and CTranslate2 run it).
    - ``tensor2tensor``: halves with the angle ``p / 10000^(i / (C / 2 - 1))`` (tensor2tensor, fairseq, M2M100).
    - ``learned``: zeros, for weights to be put in.

    Args:
        layout: Which of these.
        num_positions: Rows to make.
        d_model: Width, C; even.
        offset: Place that the first row stands for.

    Returns:
        The table, (num_positions, C), float32.
    """
    if layout == "learned":
        return torch.zeros(num_positions, d_model)
    if layout == "tensor2tensor":
        # In float32 throughout, as those who trained with it computed it: later rows would differ in the 5th digit.
        half = d_model // 2
        frequency = torch.exp(torch.arange(half).float() * -(math.log(10000) / (half - 1)))
        angle = torch.arange(offset, offset + num_positions).float().unsqueeze(1) * frequency.unsqueeze(0)
        return torch.cat([torch.sin(angle), torch.cos(angle)], dim=1)
    # float64 until the end: at position 200 the angle of a float32 product is off by 1e-5 already.
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
        vocab_size: Tokens, V.
    """

    def __init__(self, config: ModelConfig, vocab_size: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocab_size, config.d_model)
        self.scale = math.sqrt(config.d_model) if config.scale_embedding else 1.0
        # Scaled on the way in, rows of this deviation arrive with variance 1.
        nn.init.normal_(self.tokens.weight, std=1.0 / self.scale)
        table = position_table(config.positions, config.max_positions, config.d_model, config.position_offset)
        self.positions: Tensor
        if config.positions == "learned":
            self.positions = nn.Parameter(nn.init.normal_(table, std=config.d_model**-0.5))
        else:
            # Not persistent: computed from the configuration, so a checkpoint need not carry it.
            self.register_buffer("positions", table, persistent=False)
        self.norm = layer_norm(config) if config.embedding_norm else nn.Identity()

    def forward(self, token_ids: Tensor, positions: Tensor) -> Tensor:
        """Embed tokens at their places.

        Args:
            token_ids: (B, T).
            positions: Place of each token counted from 0; broadcasts to (B, T).

        Returns:
            Vectors, (B, T, C).
        """
        return self.norm(self.tokens(token_ids) * self.scale + self.positions[positions])
