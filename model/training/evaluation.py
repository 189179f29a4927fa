"""How good a model is: loss on held-out text."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from model.tokenizer import PAD_ID, Tokenizer
from model.training.batches import BatchMaker
from model.training.corpus import Pair
from model.training.loss import label_smoothed_loss
from model.transformer import Transformer


@torch.inference_mode()
def dev_scores(
    transformer: Transformer,
    tokenizer: Tokenizer,
    pairs: Sequence[Pair],
    languages: tuple[str, str],
    directions: Sequence[tuple[str, str]],
) -> dict[str, float]:
    device = transformer.output.weight.device
    maker = BatchMaker(pairs, languages, directions, tokenizer, batch_tokens=4000, max_tokens=250, seed=0)
    total, tokens = 0.0, 0
    for batch in maker.epoch(0):
        target = batch.target.to(device)
        hidden = transformer.hidden(batch.source.to(device), target[:, :-1])
        counts = target[:, 1:] != PAD_ID
        _, nll = label_smoothed_loss(
            hidden[counts], transformer.output.weight, transformer.output.bias, target[:, 1:][counts], 0.0
        )
        total += float(nll)
        tokens += int(counts.sum())
    return {"dev_loss": total / tokens}
