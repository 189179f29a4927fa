"""Who may look at whom. In every mask True means "may attend"."""

from __future__ import annotations

import torch
from torch import Tensor


def padding_mask(token_ids: Tensor, pad_id: int) -> Tensor:
    """Hide padding from everyone.

    Args:
        token_ids: Token ids, (B, S), padded on the right with ``pad_id``.
        pad_id: The padding token.

    Returns:
        Booleans that broadcast over heads and queries, (B, 1, 1, S).
    """
    return (token_ids != pad_id).unsqueeze(1).unsqueeze(2)


def causal_mask(length: int, device: torch.device) -> Tensor:
    """Let each target position see itself and what came before it.

    Args:
        length: Target positions, T.
        device: Where the mask is needed.

    Returns:
        Booleans, (T, T): row t may attend to columns 0 to t.
    """
    return torch.ones(length, length, dtype=torch.bool, device=device).tril()
