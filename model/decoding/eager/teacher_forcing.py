"""Teacher forcing in torch: cross-attention weights and logits of given targets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from model.network.padding import pad
from model.network.transformer import Transformer

_SENTENCES_AT_ONCE = 16

_LOGITS_AT_ONCE = 2**25
"""Maximum number of logits in memory at once: 128 MiB in float32."""


def attention_by_torch(
    module: Transformer,
    sources: Sequence[Sequence[int]],
    targets: Sequence[Sequence[int]],
    pad_id: int,
    device: torch.device,
    head: int | None = None,
) -> list[Tensor]:
    """See :meth:`model.decoding.backend.Backend.attention`.

    Args:
        module: The network, scripted or not.
        sources: Token ids of each sentence, markers included.
        targets: Token ids of each translation, the start token first.
        pad_id: The padding token.
        device: The device of the network.
        head: The head whose weights are returned; None for the mean of all heads.
    """
    # Sentences of similar length share a batch, so that little of it is padding.
    order = sorted(range(len(sources)), key=lambda index: (len(sources[index]), len(targets[index])))
    weights: dict[int, Tensor] = {}
    for begin in range(0, len(order), _SENTENCES_AT_ONCE):
        batch = order[begin : begin + _SENTENCES_AT_ONCE]
        with torch.inference_mode():
            _, _, cross = module.attend(
                pad([sources[index] for index in batch], pad_id).to(device),
                pad([targets[index] for index in batch], pad_id).to(device),
            )
            heads = cross[:, -1].float()  # (B, H, T, S)
            last_layer = (heads.mean(dim=1) if head is None else heads[:, head]).cpu()  # (B, T, S)
        for index, rows in zip(batch, last_layer, strict=True):
            weights[index] = rows[: len(targets[index]), : len(sources[index])]
    return [weights[index] for index in range(len(sources))]


def logits_by_torch(
    module: Transformer,
    sources: Sequence[Sequence[int]],
    targets: Sequence[Sequence[int]],
    pad_id: int,
    device: torch.device,
    vocab_size: int,
    sentences_at_once: int = _SENTENCES_AT_ONCE,
) -> Iterator[Tensor]:
    """See :meth:`model.decoding.backend.Backend.logits`.

    Args:
        module: The network, scripted or not.
        sources: Token ids of each sentence, markers included.
        targets: Token ids of each target, the start token first.
        pad_id: The padding token.
        device: The device of the network.
        vocab_size: The size of the target vocabulary.
        sentences_at_once: Maximum number of sentences in a batch; reduced if their logits would take too much memory.
    """
    num_logits = vocab_size * max(map(len, targets), default=0)  # of the longest target
    batch_size = min(sentences_at_once, max(1, _LOGITS_AT_ONCE // max(1, num_logits)))
    for begin in range(0, len(sources), batch_size):
        batch = targets[begin : begin + batch_size]
        with torch.inference_mode():
            logits = module.forward(
                pad(sources[begin : begin + batch_size], pad_id).to(device), pad(batch, pad_id).to(device)
            ).float()
        for rows, target in zip(logits, batch, strict=True):
            yield rows[: len(target)]
