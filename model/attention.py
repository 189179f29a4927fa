"""All attention weights between one sentence and its translation."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.jit._fuser import optimized_execution

from model.artifacts.bundle import Bundle
from model.network.config import ModelConfig
from model.network.heads import AttentionHead
from model.network.steps import attention_steps
from model.translation.search_trace import WrittenSearch


@dataclass(frozen=True)
class Attention:
    """All attention weights between one sentence and its translation, on the CPU in float32.

    Row t of ``decoder`` and ``cross`` shows what the model attended to when it chose ``target_tokens[t]``.

    Args:
        source_tokens: Labels of the S source positions, language marker and end token included.
        target_tokens: Labels of the T rows: the tokens chosen, the closing one included.
        decoder_input_tokens: Labels of the T columns of ``decoder``: the start token, then all but the last choice. It
            is empty text for a model whose first input is zero.
        translation: The translation as text.
        encoder: (L, H, S, S).
        decoder: (L, H, T, T); (L, 0, T, T) if the decoder is recurrent and has no self-attention.
        cross: (L, H, T, S).
        steps: The computation of one head, as :func:`model.network.steps.attention_steps` returns it; None unless
            requested. Rows of kind ``encoder`` are ``source_tokens``, of the others ``decoder_input_tokens``.
        search: The candidates of the search for the translation; None unless requested.
    """

    source_tokens: list[str]
    target_tokens: list[str]
    decoder_input_tokens: list[str]
    translation: str
    encoder: Tensor
    decoder: Tensor
    cross: Tensor
    steps: dict[str, Tensor] | None = None
    search: WrittenSearch | None = None

    def labels(self, kind: str) -> tuple[list[str], list[str]]:
        """The tokens of the rows and of the columns of ``encoder``, ``decoder`` or ``cross``."""
        rows = self.source_tokens if kind == "encoder" else self.target_tokens
        columns = self.decoder_input_tokens if kind == "decoder" else self.source_tokens
        return rows, columns


def measure_attention(
    bundle: Bundle,
    source_ids: list[int],
    target_ids: list[int],
    translation: str,
    head: AttentionHead | None = None,
    search: WrittenSearch | None = None,
) -> Attention:
    """Run the network on a sentence and its translation, and label its attention weights.

    Args:
        bundle: The model. Its torch network is rebuilt if it is not in memory.
        source_ids: The sentence, language marker and end token included.
        target_ids: The translation, forced tokens and end token included.
        translation: The translation as text.
        head: A head whose computation is returned step by step.
        search: The candidates of the search, which are passed on.
    """
    tokenizer = bundle.tokenizer
    input_ids = [tokenizer.start_id, *target_ids[:-1]]
    config = ModelConfig.from_dict(bundle.manifest.architecture)
    start = [""] if config.start == "zero" else tokenizer.target_pieces(input_ids[:1])
    source = torch.tensor([source_ids], device=bundle.device)
    inputs = torch.tensor([input_ids], device=bundle.device)
    # Without TorchScript's optimiser, which takes longer than it saves.
    with torch.inference_mode(), optimized_execution(False):
        encoder, decoder, cross = (weights[0].float().cpu() for weights in bundle.module.attend(source, inputs))
        steps = None
        if head is not None:
            steps = attention_steps(bundle.module, config, source, inputs, head)
    return Attention(
        source_tokens=tokenizer.pieces(source_ids),
        target_tokens=tokenizer.target_pieces(target_ids),
        decoder_input_tokens=[*start, *tokenizer.target_pieces(input_ids[1:])],
        translation=translation,
        encoder=encoder,
        decoder=decoder,
        cross=cross,
        steps=steps,
        search=search,
    )
