"""Rows of different lengths as one padded tensor."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

NO_PAD_ID = -1
"""Stands for padding where the vocabulary has no padding token: all its tokens may occur in a sentence."""


def pad(rows: Sequence[Sequence[int]], pad_id: int) -> Tensor:
    """Pad token ids on the right.

    Args:
        rows: At least one row of ids.
        pad_id: The padding token, or :data:`NO_PAD_ID`.

    Returns:
        (B, longest), int64.
    """
    out = torch.full((len(rows), max(map(len, rows))), pad_id, dtype=torch.long)
    for row, ids in zip(out, rows, strict=True):
        row[: len(ids)] = torch.tensor(ids, dtype=torch.long)
    return out
