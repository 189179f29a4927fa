"""Tokens that may not come next."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from model.decoding.eager.step import Past


class TokenFilter:
    """Forbids tokens by setting their logits to minus infinity.

    Args:
        never_generated: Tokens that are no part of any translation.
        end_id: The closing token, held back until ``min_new_tokens`` are there.
        device: Where logits live.
    """

    def __init__(self, never_generated: Sequence[int], end_id: int, device: torch.device) -> None:
        self._never = torch.tensor(list(never_generated), dtype=torch.long, device=device)
        self._end_id = end_id

    def forbid(self, logits: Tensor, past: Past) -> None:
        """Change ``logits`` in place.

        Args:
            logits: (N, rows, V).
            past: What was generated before.
        """
        logits.index_fill_(-1, self._never, float("-inf"))
        for index, sentence in enumerate(past.sentences):
            options = sentence.options
            if past.num_generated(index) < options.min_new_tokens:
                logits[index, :, self._end_id] = float("-inf")
            if options.no_repeat_ngram_size:
                for row in range(logits.size(1)):
                    repeated = tokens_that_repeat(past.tokens(index, row), options.no_repeat_ngram_size)
                    if repeated:
                        logits[index, row, repeated] = float("-inf")


def tokens_that_repeat(tokens: Sequence[int], ngram_size: int) -> list[int]:
    """Tokens that would complete a sequence of ``ngram_size`` tokens which occurred already (Paulus et al. 2017).

    Args:
        tokens: What was generated.
        ngram_size: Length of the sequences, at least 1.
    """
    prefix = list(tokens[len(tokens) - ngram_size + 1 :])
    return [
        tokens[start + ngram_size - 1]
        for start in range(len(tokens) - ngram_size + 1)
        if list(tokens[start : start + ngram_size - 1]) == prefix
    ]
