"""The common parts of the searches of several back-ends: the best continuations and the trace of a search."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

import torch
from torch import Tensor

from model.decoding.options import Candidate, SearchTrace

NO_TOKEN = "The model gave no usable next token: its output was NaN or infinite, or every token was forbidden."


def best_continuations(logits: Tensor, offsets: Tensor, number: int) -> tuple[Tensor, Tensor, Tensor]:
    """The best continuations of each sentence. No shape depends on a value, so a CUDA graph can contain this.

    Args:
        logits: (N, rows, V).
        offsets: Added to the logits of a row, they give log-probabilities of hypotheses, (N, rows).
        number: Number of continuations, 2K.

    Returns:
        Their log-probabilities, best first, their tokens, and the rows they continue; (N, 2K) each.
    """
    # Two small searches instead of one over rows * V: no row can give more than 2K of the best 2K.
    values, tokens = logits.topk(min(number, logits.size(-1)), dim=-1)  # (N, rows, <= 2K)
    candidates = offsets.unsqueeze(-1) + values
    # A forbidden candidate and a dead row stay at -inf; -inf - inf gives NaN, which would rank first.
    candidates = candidates.nan_to_num(nan=-math.inf, posinf=-math.inf, neginf=-math.inf).flatten(1)
    best, indices = candidates.topk(min(number, candidates.size(1)), dim=-1)  # (N, <= 2K)
    best_tokens = tokens.flatten(1).gather(1, indices)
    parents = indices // tokens.size(-1)
    missing = number - best.size(1)
    if missing:  # a vocabulary smaller than the beam
        best = torch.nn.functional.pad(best, (0, missing), value=-math.inf)
        best_tokens = torch.nn.functional.pad(best_tokens, (0, missing))
        parents = torch.nn.functional.pad(parents, (0, missing))
    return best, best_tokens, parents


class Considered(NamedTuple):
    """A candidate of a step, before it is numbered.

    Args:
        token_id: As in :class:`model.decoding.options.Candidate`.
        log_prob: Likewise.
        row: The row that it continues; 0 in the first step.
        kept: Likewise.
        finished: Likewise.
    """

    token_id: int
    log_prob: float
    row: int
    kept: bool
    finished: bool


class TraceRecorder:
    """Records the candidates of a sentence's search, and numbers them over all its steps."""

    def __init__(self) -> None:
        self._steps: list[tuple[Candidate, ...]] = []
        self._num_candidates = 0
        self._rows = [0]  # the number of each row's newest candidate

    def add(self, considered: Iterable[Considered]) -> None:
        """Record a step; a step without candidates, in which a given token was fed, is left out.

        Args:
            considered: Best first. Those that the search continues with become rows 0, 1, ... of the next step.
        """
        step = tuple(
            Candidate(number, self._rows[item.row], item.token_id, item.log_prob, item.kept, item.finished)
            for number, item in enumerate(considered, start=self._num_candidates + 1)
        )
        if step:
            self._steps.append(step)
            self._num_candidates += len(step)
            self._rows = [candidate.id for candidate in step if candidate.kept and not candidate.finished]

    @property
    def search(self) -> SearchTrace:
        """All steps so far."""
        return tuple(self._steps)
