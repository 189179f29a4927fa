"""How fast this machine trains: a few updates on text of the run."""

from __future__ import annotations

import time
from collections.abc import Sequence

import torch

from model.network.transformer import Transformer
from model.text.tokenizer import VersoTokenizer
from model.training.batches import BatchMaker
from model.training.corpus import LoadedCorpus, Pair, spread
from model.training.settings import TrainingSettings
from model.training.update import Updater

_MAX_UPDATES = 20
_WARM_UP = 2


def measured_tokens_per_s(
    settings: TrainingSettings, tokenizer: VersoTokenizer, pairs: Sequence[Pair], device: str, seconds: float = 6.0
) -> float:
    """Target tokens a second of one process, from a few updates of a model with random weights.

    Args:
        settings: The settings of the run.
        tokenizer: Its vocabulary, or one like it.
        pairs: Its training text; some of it is used.
        device: ``cpu`` or ``cuda``.
        seconds: About how long it may take, after two updates to warm up.
    """
    maker = BatchMaker(
        [LoadedCorpus(spread(pairs, 2 * settings.batch_tokens))],
        settings.languages,
        settings.direction_pairs,
        tokenizer,
        batch_tokens=settings.batch_tokens,
        max_tokens=settings.max_tokens_per_sentence,
        seed=settings.seed,
    )
    transformer = Transformer(settings.model_config(tokenizer.vocab_size), tokenizer.pad_id).to(device).train()
    updater = Updater(transformer, settings)
    tokens, began = 0, time.monotonic()
    nll = torch.zeros(())
    for number, batch in enumerate(batch for epoch in range(_MAX_UPDATES) for batch in maker.epoch(epoch)):
        if number == _WARM_UP:
            float(nll)  # waits for the device
            tokens, began = 0, time.monotonic()
        nll = updater.update([batch], settings.learning_rate)
        tokens += batch.num_target_tokens
        if number > _WARM_UP and (number == _MAX_UPDATES or time.monotonic() - began > seconds):
            break
    float(nll)
    return tokens / (time.monotonic() - began)
