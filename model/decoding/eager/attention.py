"""Cross-attention weights of sentences and their answers, computed by torch."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from model.decoding.search import StepModel
from model.network.padding import pad

_SENTENCES_AT_ONCE = 16


def attention_by_torch(
    module: StepModel,
    sources: Sequence[Sequence[int]],
    targets: Sequence[Sequence[int]],
    pad_id: int,
    device: torch.device,
) -> list[Tensor]:
    """See :meth:`model.decoding.backend.Backend.attention`.

    Args:
        module: The network, scripted or not.
        sources: Token ids of each sentence, markers included.
        targets: Token ids of each answer, the start token first.
        pad_id: The padding token.
        device: Where the network is.
    """
    # Sentences of similar lengths share a batch, so that little is padded.
    order = sorted(range(len(sources)), key=lambda index: (len(sources[index]), len(targets[index])))
    found: dict[int, Tensor] = {}
    for begin in range(0, len(order), _SENTENCES_AT_ONCE):
        some = order[begin : begin + _SENTENCES_AT_ONCE]
        with torch.inference_mode():
            _, _, cross = module.attend(
                pad([sources[index] for index in some], pad_id).to(device),
                pad([targets[index] for index in some], pad_id).to(device),
            )
            last_layer = cross[:, -1].float().mean(dim=1).cpu()  # (B, T, S)
        for index, rows in zip(some, last_layer, strict=True):
            found[index] = rows[: len(targets[index]), : len(sources[index])]
    return [found[index] for index in range(len(sources))]
