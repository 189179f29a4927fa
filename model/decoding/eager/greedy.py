"""Greedy search: the most probable token at every step."""

from __future__ import annotations

import math

from torch import Tensor

from model.decoding.eager.filters import TokenFilter
from model.decoding.eager.step import Choice, Past
from model.decoding.options import Hypothesis
from model.decoding.policy import DecodingPolicy
from model.decoding.search import NO_TOKEN
from model.decoding.sentence import Finished
from model.errors import DecodingError


class GreedySearch:
    """Chooses for sentences of one row each.

    Args:
        token_filter: Tokens that may not come.
        end_id: The closing token.
        policy: The model's way of decoding.
    """

    width = 1

    def __init__(self, token_filter: TokenFilter, end_id: int, policy: DecodingPolicy) -> None:
        self._filter = token_filter
        self._end_id = end_id
        self._policy = policy
        self._sums: list[float] = []  # log-probabilities so far, of sentences that return scores

    def first(self, logits: Tensor, past: Past) -> Choice:
        """Take in sentences by their first logits, (n, 1, V), and choose for them alone."""
        sums = [0.0] * len(past.sentences)
        choice = self._choose(logits, past, sums)
        self._sums += sums
        return choice

    def next(self, logits: Tensor, past: Past) -> Choice:
        """Choose for all sentences taken in, from (N, 1, V)."""
        return self._choose(logits, past, self._sums)

    def keep(self, indices: list[int]) -> None:
        """Forget all sentences but these."""
        self._sums = [self._sums[index] for index in indices]

    def _choose(self, logits: Tensor, past: Past, sums: list[float]) -> Choice:
        # No softmax unless a score is asked for: the largest logit is the most probable token.
        scored = any(sentence.options.return_scores for sentence in past.sentences)
        totals = logits.logsumexp(-1).flatten().tolist() if scored and not self._policy.renormalise else None
        # NaN wins every comparison: one reduction finds it, before the filter can cover it.
        poisoned = logits.amax(-1).isnan().flatten().tolist()
        self._filter.forbid(logits, past)
        if scored and self._policy.renormalise:
            totals = logits.logsumexp(-1).flatten().tolist()
        best, tokens = logits.max(-1)  # (N, 1)
        finished: dict[int, Finished] = {}
        for index, (value, token) in enumerate(zip(best.flatten().tolist(), tokens.flatten().tolist(), strict=True)):
            sentence = past.sentences[index]
            if poisoned[index] or math.isinf(value):
                finished[index] = Finished(sentence.key, None, DecodingError(NO_TOKEN))
                continue
            forced = past.is_last(index) and sentence.rule.force_end
            if totals is not None and not forced:
                sums[index] += value - totals[index]
            if past.is_last(index) or token == self._end_id:
                hypothesis = self._hypothesis(past, index, token, sums[index], forced=forced)
                finished[index] = Finished(sentence.key, hypothesis)
        return Choice(tokens, None, finished)

    def _hypothesis(self, past: Past, index: int, token: int, total: float, *, forced: bool) -> Hypothesis:
        """The answer whose last token is ``token``, or a closing token that is forced instead of it."""
        sentence, tokens = past.sentences[index], past.tokens(index, 0)
        cut = token != self._end_id
        if cut and not forced:
            tokens.append(token)
        score = None
        if sentence.options.return_scores:
            num_tokens = len(tokens) + int(forced or not cut) + sentence.num_forced
            score = sentence.rule.score(total, num_tokens)
        return Hypothesis(tokens, score, "length" if cut else "stop")
