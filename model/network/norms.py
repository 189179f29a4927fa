"""Layer normalisation (Ba et al. 2016, arXiv:1607.06450), with a gain for each column or one gain for all."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from model.network.config import ModelConfig


class ScalarLayerNorm(nn.Module):
    """Layer normalisation with a scalar gain and a scalar bias, the same for every column.

    Args:
        d_model: Number of columns, C.
        eps: Added to the variance.
    """

    def __init__(self, d_model: int, eps: float) -> None:
        super().__init__()
        self.d_model = d_model
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(1))
        self.bias = nn.Parameter(torch.zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        """(..., C) to (..., C)."""
        return F.layer_norm(x, [self.d_model], None, None, self.eps) * self.weight + self.bias


def layer_norm(config: ModelConfig) -> nn.Module:
    """The normalisation layer of an architecture.

    Args:
        config: Gives ``d_model``, ``layer_norm_gain`` and ``layer_norm_eps``.
    """
    if config.layer_norm_gain == "scalar":
        return ScalarLayerNorm(config.d_model, config.layer_norm_eps)
    return nn.LayerNorm(config.d_model, eps=config.layer_norm_eps)
