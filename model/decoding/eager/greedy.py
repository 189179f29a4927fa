"""Greedy search: the most probable token at every step."""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor

from model.decoding.eager.filters import TokenFilter
from model.decoding.eager.step import Choice, Past
from model.decoding.options import Hypothesis
from model.decoding.policy import DecodingPolicy
from model.decoding.search import NO_TOKEN, Considered, TraceRecorder
from model.decoding.sentence import Finished, Sentence
from model.errors import DecodingError


@dataclass
class _Running:
    """The state of a sentence's hypothesis besides its tokens.

    Args:
        total: Its log-probability so far, if scores or the search are requested.
        trace: The tokens chosen, if the search is requested.
    """

    total: float = 0.0
    trace: TraceRecorder | None = None

    @classmethod
    def of(cls, sentence: Sentence) -> _Running:
        return cls(trace=TraceRecorder() if sentence.options.return_search else None)


class GreedySearch:
    """Chooses for sentences of one row each.

    Args:
        token_filter: Forbids tokens.
        end_id: The closing token.
        policy: The model's decoding policy.
    """

    width = 1

    def __init__(self, token_filter: TokenFilter, end_id: int, policy: DecodingPolicy) -> None:
        self._filter = token_filter
        self._end_id = end_id
        self._policy = policy
        self._running: list[_Running] = []

    def first(self, logits: Tensor, past: Past) -> Choice:
        """Add sentences by their first logits, (n, 1, V), and choose for them alone."""
        running = [_Running.of(sentence) for sentence in past.sentences]
        self._running += running
        return self._choose(logits, past, running)

    def next(self, logits: Tensor, past: Past) -> Choice:
        """Choose for all sentences, from (N, 1, V)."""
        return self._choose(logits, past, self._running)

    def keep(self, indices: list[int]) -> None:
        """Forget all sentences but these."""
        self._running = [self._running[index] for index in indices]

    def _choose(self, logits: Tensor, past: Past, running: list[_Running]) -> Choice:
        # No softmax unless probabilities are requested: the largest logit is the most probable token.
        scored = any(sentence.options.return_scores or sentence.options.return_search for sentence in past.sentences)
        totals = logits.logsumexp(-1).flatten().tolist() if scored and not self._policy.renormalise else None
        # NaN wins every comparison: one reduction finds it, before the filter can cover it.
        poisoned = logits.amax(-1).isnan().flatten().tolist()
        self._filter.forbid(logits, past)
        if scored and self._policy.renormalise:
            totals = logits.logsumexp(-1).flatten().tolist()
        best, tokens = logits.max(-1)  # (N, 1)
        finished: dict[int, Finished] = {}
        for index, (value, token) in enumerate(zip(best.flatten().tolist(), tokens.flatten().tolist(), strict=True)):
            sentence, hypothesis = past.sentences[index], running[index]
            if poisoned[index] or math.isinf(value):
                finished[index] = Finished(sentence.key, None, DecodingError(NO_TOKEN))
                continue
            forced = past.is_last(index) and sentence.rule.force_end
            if totals is not None and not forced:
                hypothesis.total += value - totals[index]
            ends = past.is_last(index) or token == self._end_id
            if hypothesis.trace is not None:
                chosen = self._end_id if forced else token
                hypothesis.trace.add([Considered(chosen, hypothesis.total, 0, kept=True, finished=ends)])
            if ends:
                answer = self._hypothesis(past, index, token, hypothesis, forced=forced)
                finished[index] = Finished(sentence.key, answer)
        return Choice(tokens, None, finished)

    def _hypothesis(self, past: Past, index: int, token: int, running: _Running, *, forced: bool) -> Hypothesis:
        """The answer that ends with ``token``, or with a closing token that is forced instead."""
        sentence, tokens = past.sentences[index], past.tokens(index, 0)
        cut = token != self._end_id
        if cut and not forced:
            tokens.append(token)
        score = None
        if sentence.options.return_scores:
            num_tokens = len(tokens) + int(forced or not cut) + sentence.num_forced
            score = sentence.rule.score(running.total, num_tokens)
        search = () if running.trace is None else running.trace.search
        return Hypothesis(tokens, score, "length" if cut else "stop", search=search)
