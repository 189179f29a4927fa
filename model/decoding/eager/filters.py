"""Tokens that are forbidden next.

Some are never generated; the closing token is forbidden before ``min_new_tokens``; a guard forbids sequences that
occurred already. A sentence may also require tokens (``required_ids``). Every hypothesis contains each of them once:

- A missing one is allowed, although it is never generated otherwise; a present one is forbidden.
- The closing token is forbidden while one is missing.
- If the hypothesis has only room for the missing ones, all other tokens are forbidden. If ``max_new_tokens`` is smaller
  than the number of required tokens, this never happens, and the hypothesis is cut without some of them.

A missing token completes no sequence that occurred already, so no other filter forbids it, and a sentence that requires
tokens always has an allowed next token.

A prefix is part of the hypothesis for the guard and for required tokens. ``min_new_tokens`` does not count it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from model.decoding.eager.step import Past


class TokenFilter:
    """Forbids tokens by setting their logits to minus infinity.

    Args:
        never_generated: Tokens that occur in no translation.
        end_id: The closing token.
        device: The device of the logits.
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
        # Indexing by a list copies: these are the logits before tokens are forbidden.
        required = {
            index: logits[index][:, list(sentence.request.required_ids)]
            for index, sentence in enumerate(past.sentences)
            if sentence.request.required_ids
        }
        logits.index_fill_(-1, self._never, -math.inf)
        for index, sentence in enumerate(past.sentences):
            options = sentence.options
            if past.num_generated(index) < options.min_new_tokens:
                logits[index, :, self._end_id] = -math.inf
            if options.no_repeat_ngram_size:
                for row in range(logits.size(1)):
                    repeated = tokens_that_repeat(past.tokens(index, row), options.no_repeat_ngram_size)
                    if repeated:
                        logits[index, row, repeated] = -math.inf
        for index, allowed in required.items():
            self._require(logits[index], allowed, past, index)

    def _require(self, logits: Tensor, allowed: Tensor, past: Past, index: int) -> None:
        """Apply the rules of required tokens.

        Args:
            logits: The logits of the sentence, (rows, V); changed in place.
            allowed: The original logits of its required tokens, (rows, number of them).
            past: What was generated before.
            index: The index of the sentence.
        """
        required_ids = past.sentences[index].request.required_ids
        logits[:, list(required_ids)] = -math.inf
        for row in range(logits.size(0)):
            present = set(past.tokens(index, row))
            missing = [number for number, token in enumerate(required_ids) if token not in present]
            if not missing:
                continue
            if len(missing) == past.num_left(index):
                logits[row] = -math.inf
            logits[row, self._end_id] = -math.inf
            logits[row, [required_ids[number] for number in missing]] = allowed[row, missing]


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
