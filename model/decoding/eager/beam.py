"""Beam search: the K most probable beginnings of every sentence, side by side.

Common to all rules: a step considers 2K candidates, so that K are left if all K rows end, and a candidate that ends
counts only among the first K. How hypotheses are scored and when a sentence is done is decided by its rule
(:mod:`model.decoding.scoring`).
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor

from model.decoding.eager.filters import TokenFilter
from model.decoding.eager.step import Choice, Past
from model.decoding.options import Hypothesis
from model.decoding.policy import DecodingPolicy
from model.decoding.search import NO_TOKEN, Considered, TraceRecorder, best_continuations
from model.decoding.sentence import Finished, Sentence
from model.errors import DecodingError


@dataclass
class _Pool:
    """The hypotheses of a sentence that ended.

    Args:
        size: The number of hypotheses that are kept, K.
        ended: The best hypotheses with their scores, best first.
        leader_ended: Whether the best candidate of any step ended.
        trace: The candidates of each step, if the search is requested.
    """

    size: int
    ended: list[tuple[float, Hypothesis]] = field(default_factory=list)
    leader_ended: bool = False
    trace: TraceRecorder | None = None

    @classmethod
    def of(cls, sentence: Sentence, size: int) -> _Pool:
        return cls(size, trace=TraceRecorder() if sentence.options.return_search else None)

    def add(self, score: float, hypothesis: Hypothesis) -> bool:
        """Keep a hypothesis if it is among the best, and return whether it is; the first of equal ones is."""
        rank = bisect.bisect_right(self.ended, -score, key=lambda entry: -entry[0])
        self.ended.insert(rank, (score, hypothesis))
        del self.ended[self.size :]
        return rank < self.size


class BeamSearch:
    """Chooses for sentences of ``width`` rows each.

    Args:
        token_filter: Forbids tokens.
        end_id: The closing token.
        width: Beam size, K.
        policy: The model's decoding policy.
    """

    def __init__(self, token_filter: TokenFilter, end_id: int, width: int, policy: DecodingPolicy) -> None:
        self.width = width
        self._policy = policy
        self._filter = token_filter
        self._end_id = end_id
        self._sums: Tensor | None = None  # (N, K): log-probability of each running hypothesis; -inf is a dead row
        self._pools: list[_Pool] = []

    def first(self, logits: Tensor, past: Past) -> Choice:
        """Add sentences by their first logits, (n, 1, V): one live row each, which all K rows continue."""
        sums = torch.zeros(logits.shape[:2], device=logits.device)
        pools = [_Pool.of(sentence, self.width) for sentence in past.sentences]
        choice, sums = self._choose(logits, past, sums, pools)
        self._sums = sums if self._sums is None else torch.cat([self._sums, sums])
        self._pools += pools
        return choice

    def next(self, logits: Tensor, past: Past) -> Choice:
        """Choose for all sentences, from (N, K, V)."""
        assert self._sums is not None
        choice, self._sums = self._choose(logits, past, self._sums, self._pools)
        return choice

    def keep(self, indices: list[int]) -> None:
        """Forget all sentences but these."""
        self._pools = [self._pools[index] for index in indices]
        if self._sums is not None:
            self._sums = self._sums[indices] if indices else None

    def _choose(self, logits: Tensor, past: Past, sums: Tensor, pools: list[_Pool]) -> tuple[Choice, Tensor]:
        totals = logits.logsumexp(-1)  # (N, rows), before the filter: forbidden tokens keep their probability
        broken = (~torch.isfinite(totals) & torch.isfinite(sums)).any(-1).tolist()
        self._filter.forbid(logits, past)
        if self._policy.renormalise:
            totals = logits.logsumexp(-1)
        self._force_end(logits, totals, past)
        best, best_tokens, parents = best_continuations(logits, sums - totals, 2 * self.width)

        ends = best_tokens == self._end_id
        leaving = ends
        if any(sentence.rule.narrows for sentence in past.sentences):
            best = best.masked_fill(self._beyond_the_beam(best, past, pools), -math.inf)
            leaving = ends | best.isneginf()
        # Each parent ends at most once, so at least K of the 2K candidates continue: the first K of those.
        continuing = torch.argsort(leaving, dim=-1, stable=True)[:, : self.width]
        new_sums = best.gather(1, continuing).masked_fill(ends.gather(1, continuing), -math.inf)

        pooled = self._add_to_pools(past, pools, best, best_tokens, parents)
        finished: dict[int, Finished] = {}
        leaders = new_sums[:, 0].tolist()
        for index, sentence in enumerate(past.sentences):
            pool = pools[index]
            if broken[index]:
                finished[index] = Finished(sentence.key, None, DecodingError(NO_TOKEN))
                continue
            last = past.is_last(index)
            is_done = last or self._is_done(past, index, pool, leaders[index])
            if pool.trace is not None:
                candidates = torch.stack([best[index].double(), best_tokens[index], parents[index]], dim=1)  # (2K, 3)
                ranks = {rank for sentence_index, rank in pooled if sentence_index == index}
                pool.trace.add(self._considered(candidates, ranks, last=last, is_done=is_done))
            if is_done:
                finished[index] = _finish(sentence, pool)
        return Choice(best_tokens.gather(1, continuing), parents.gather(1, continuing), finished), new_sums

    def _force_end(self, logits: Tensor, totals: Tensor, past: Past) -> None:
        """Allow sentences at their last position only the closing token, with a log-probability of 0."""
        for index, sentence in enumerate(past.sentences):
            if sentence.rule.force_end and past.is_last(index):
                logits[index] = -math.inf
                logits[index, :, self._end_id] = totals[index]

    def _beyond_the_beam(self, best: Tensor, past: Past, pools: list[_Pool]) -> Tensor:
        """Candidates (N, 2K) that are not considered because their beam has narrowed to fewer rows."""
        rows_left = [
            self.width - len(pool.ended) if sentence.rule.narrows else 2 * self.width
            for sentence, pool in zip(past.sentences, pools, strict=True)
        ]
        ranks = torch.arange(best.size(1), device=best.device)
        return ranks >= torch.tensor(rows_left, device=best.device).unsqueeze(1)

    def _considered(
        self, candidates: Tensor, pooled: Collection[int], *, last: bool, is_done: bool
    ) -> Iterator[Considered]:
        """A sentence's candidates and whether they are kept.

        Args:
            candidates: Their log-probabilities, tokens and parents, (2K, 3).
            pooled: Ranks of the candidates that are in the pool.
            last: Whether the candidates are cut.
            is_done: Whether the search ends with this step.
        """
        rows_left = 0 if is_done else self.width
        for rank, (log_prob, token, parent) in enumerate(candidates.tolist()):
            if math.isinf(log_prob):
                continue
            finished = last or token == self._end_id
            is_kept = rank in pooled if finished else rows_left > 0
            rows_left -= not finished
            yield Considered(int(token), log_prob, int(parent), is_kept, finished)

    def _add_to_pools(
        self, past: Past, pools: list[_Pool], best: Tensor, best_tokens: Tensor, parents: Tensor
    ) -> list[tuple[int, int]]:
        """Put the candidates (N, 2K) that end or are cut at this step into the pools of their sentences.

        Returns:
            The index of the sentence and the rank of each candidate that was kept.
        """
        pooled = []
        ends = best_tokens == self._end_id
        last = [past.is_last(index) for index in range(len(past.sentences))]
        leaving = ends | torch.tensor(last, device=ends.device).unsqueeze(1)
        for index, rank in (leaving & torch.isfinite(best))[:, : self.width].nonzero().tolist():
            sentence, pool = past.sentences[index], pools[index]
            tokens = past.tokens(index, int(parents[index, rank]))
            closed = bool(ends[index, rank])
            if not closed:
                tokens.append(int(best_tokens[index, rank]))
            cut = last[index] and (not closed or sentence.rule.force_end)
            score = sentence.rule.score(float(best[index, rank]), len(tokens) + int(closed) + sentence.num_forced)
            shown = score if sentence.options.return_scores else None
            if pool.add(score, Hypothesis(tokens, shown, "length" if cut else "stop")):
                pooled.append((index, rank))
            pool.leader_ended |= rank == 0
        return pooled

    def _is_done(self, past: Past, index: int, pool: _Pool, leader: float) -> bool:
        """Whether nothing that still runs can change the answer.

        Args:
            past: What was generated before this step.
            index: The index of the sentence.
            pool: Its hypotheses that ended.
            leader: Log-probability of its best running hypothesis.
        """
        sentence = past.sentences[index]
        rule, num_ended = sentence.rule, len(pool.ended)
        if not math.isfinite(leader):
            return True
        if rule.leader_must_end:
            return pool.leader_ended and num_ended >= sentence.options.num_hypotheses
        if num_ended < self.width:
            return False
        worst, _ = pool.ended[-1]
        num_tokens = past.num_generated(index) + 1 + sentence.num_given
        return rule.stops_when_full or worst >= rule.score(leader, num_tokens)


def _finish(sentence: Sentence, pool: _Pool) -> Finished:
    """The answer: the best hypotheses that ended."""
    if not pool.ended:
        return Finished(sentence.key, None, DecodingError(NO_TOKEN))
    answers = [hypothesis for _, hypothesis in pool.ended[: sentence.options.num_hypotheses]]
    search = () if pool.trace is None else pool.trace.search
    return Finished(sentence.key, Hypothesis.ranked(answers, search))
