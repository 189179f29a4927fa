"""Attention masks. In every mask, True means "may attend"."""

from __future__ import annotations

import torch
from torch import Tensor


def padding_mask(token_ids: Tensor, pad_id: int) -> Tensor:
    """A mask that hides padding from all positions.

    Args:
        token_ids: Token ids, (B, S), padded on the right with ``pad_id``.
        pad_id: The padding token, or -1 (:data:`model.network.padding.NO_PAD_ID`).

    Returns:
        Booleans that broadcast over heads and queries, (B, 1, 1, S).
    """
    return (token_ids != pad_id).unsqueeze(1).unsqueeze(2)


def causal_mask(length: int, device: torch.device) -> Tensor:
    """A mask that lets each target position attend to itself and to earlier positions.

    Args:
        length: Number of target positions, T.
        device: The device of the mask.

    Returns:
        Booleans, (T, T): row t may attend to columns 0 to t.
    """
    return torch.ones(length, length, dtype=torch.bool, device=device).tril()
