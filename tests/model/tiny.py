"""Tiny untrained Transformers whose outputs can be computed in other ways."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, cast

import torch

from model.decoding.batch import decode_all
from model.decoding.eager.state import TorchState
from model.decoding.eager.torch_cohort import TorchCohort
from model.decoding.options import DecodingOptions
from model.decoding.sentence import DecodingRequest, Finished
from model.network.config import ModelConfig
from model.network.transformer import Transformer
from model.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class TinyVocabulary:
    """Pad 0, start 1, end 2; everything else may be generated."""

    pad_id: int = 0
    start_id: int = 1
    end_id: int = 2
    never_generated: tuple[int, ...] = (0, 1)


VOCABULARY = cast(Tokenizer, TinyVocabulary())


DECODERS: tuple[dict[str, Any], ...] = ({}, {"decoder": "ssru", "start": "zero", "norm": "post"})
"""Fields of architectures: self-attention in the decoder, and a recurrent unit."""


def tiny_transformer(
    vocab_size: int = 12, seed: int = 0, sharpness: float = 3.0, *, pad_id: int = VOCABULARY.pad_id, **changes: Any
) -> Transformer:
    """Random weights; ``sharpness`` scales the output so that tokens differ clearly in probability."""
    torch.manual_seed(seed)
    config = ModelConfig(
        source_vocab_size=vocab_size,
        target_vocab_size=vocab_size,
        d_model=16,
        num_heads=2,
        d_ff=32,
        encoder_layers=2,
        decoder_layers=2,
        dropout=0.0,
        share_embeddings=False,
        tie_output=False,
        max_positions=64,
        **changes,
    )
    transformer = Transformer(config, pad_id).eval()
    with torch.no_grad():
        transformer.output.weight *= sharpness
    return transformer


def random_sources(number: int, vocab_size: int = 12, seed: int = 0, longest: int = 9) -> list[list[int]]:
    """Sources of 1 to ``longest`` tokens, end token last."""
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, longest + 1, (number,), generator=generator).tolist()
    return [[*torch.randint(3, vocab_size, (length,), generator=generator).tolist(), 2] for length in lengths]


def cohort(transformer: Transformer, width: int, longest_target: int = 60) -> TorchCohort:
    device = torch.device("cpu")
    return TorchCohort(
        TorchState(transformer, width, VOCABULARY.pad_id, device), VOCABULARY, width, longest_target, device
    )


def decode(
    transformer: Transformer, sources: list[list[int]], options: DecodingOptions, **bounds: int
) -> dict[int, Finished]:
    """Outcomes by the source's index."""
    requests = [DecodingRequest(number, source, options) for number, source in enumerate(sources)]
    return {
        outcome.key: outcome for outcome in decode_all(lambda width: cohort(transformer, width), requests, **bounds)
    }


def log_probs(transformer: Transformer, source: list[int], prefix: list[int]) -> torch.Tensor:
    """Log-probabilities of the token after ``prefix``, from the full, uncached pass: (V,)."""
    with torch.inference_mode():
        logits: torch.Tensor = transformer(torch.tensor([source]), torch.tensor([[VOCABULARY.start_id, *prefix]]))
    return logits[0, -1].log_softmax(-1)


class Poisoned:
    """A model whose logits are NaN for sources that begin with a certain token."""

    def __init__(self, transformer: Transformer, bad: int) -> None:
        self._transformer = transformer
        self._bad = bad

    def encode(self, source: torch.Tensor) -> torch.Tensor:
        memory = self._transformer.encode(source)
        memory[source[:, 0] == self._bad] = math.nan
        return memory

    def __getattr__(self, name: str) -> object:
        return getattr(self._transformer, name)
