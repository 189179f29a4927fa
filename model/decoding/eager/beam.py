"""Beam search: the K likeliest beginnings of every sentence, side by side.

Common to all rules: 2K candidates a step, so that K are left when all K rows could end, and a candidate that ends
counts only among the first K. What it is worth, how many are kept and when a sentence is done is its rule's matter
(:mod:`model.decoding.scoring`).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from model.decoding.eager.filters import TokenFilter
from model.decoding.options import Hypothesis
from model.decoding.policy import DecodingPolicy
from model.decoding.search import NO_TOKEN, best_continuations
from model.decoding.sentence import Choice, Ended, Finished, Past, Sentence
from model.errors import DecodingError


class BeamSearch:
    """Chooses for sentences of ``width`` rows each.

    Args:
        token_filter: Tokens that may not come.
        end_id: The closing token.
        width: Beam size, K.
        policy: The model's way of decoding.
    """

    def __init__(self, token_filter: TokenFilter, end_id: int, width: int, policy: DecodingPolicy) -> None:
        self.width = width
        self._policy = policy
        self._filter = token_filter
        self._end_id = end_id
        self._sums: Tensor | None = None  # (N, K): log-probability of each running hypothesis; -inf is a dead row

    def first(self, logits: Tensor, past: Past) -> Choice:
        """Take in sentences by their first logits, (n, 1, V): one live row each, which gives all K."""
        sums = torch.zeros(logits.shape[:2], device=logits.device)
        choice, sums = self._choose(logits, past, sums)
        self._sums = sums if self._sums is None else torch.cat([self._sums, sums])
        return choice

    def next(self, logits: Tensor, past: Past) -> Choice:
        """Choose for all sentences taken in, from (N, K, V)."""
        assert self._sums is not None
        choice, self._sums = self._choose(logits, past, self._sums)
        return choice

    def keep(self, indices: list[int]) -> None:
        """Forget all sentences but these."""
        if self._sums is not None:
            self._sums = self._sums[indices] if indices else None

    def _choose(self, logits: Tensor, past: Past, sums: Tensor) -> tuple[Choice, Tensor]:
        totals = logits.logsumexp(-1)  # (N, rows), before the filter: what is forbidden does not lend its share
        broken = (~torch.isfinite(totals) & torch.isfinite(sums)).any(-1).tolist()
        self._filter.forbid(logits, past)
        if self._policy.renormalise:
            totals = logits.logsumexp(-1)
        self._force_end(logits, totals, past)
        best, best_tokens, parents = best_continuations(logits, sums - totals, 2 * self.width)

        ends = best_tokens == self._end_id
        gone = ends
        if any(sentence.rule.narrows for sentence in past.sentences):
            # A beam that narrows considers no more candidates than it has rows left.
            rows_left = torch.tensor([self._rows_left(sentence) for sentence in past.sentences], device=best.device)
            best = best.masked_fill(torch.arange(best.size(1), device=best.device) >= rows_left.unsqueeze(1), -math.inf)
            gone = ends | best.isneginf()
        # Each parent ends at most once, so at least K of the 2K candidates go on: the first K of those.
        going = torch.argsort(gone, dim=-1, stable=True)[:, : self.width]
        new_sums = best.gather(1, going).masked_fill(ends.gather(1, going), -math.inf)
        new_tokens = best_tokens.gather(1, going)
        new_parents = parents.gather(1, going)

        finished: dict[int, Finished] = {}
        over = [
            past.num_generated(index) + 1 == sentence.max_new_tokens for index, sentence in enumerate(past.sentences)
        ]
        leaving = ends | torch.tensor(over, device=ends.device).unsqueeze(1)
        for index, rank in (leaving & torch.isfinite(best))[:, : self.width].nonzero().tolist():
            sentence = past.sentences[index]
            tokens = past.tokens(index, int(parents[index, rank]))
            closed = bool(ends[index, rank])
            if not closed:
                tokens.append(int(best_tokens[index, rank]))
            cut = over[index] and (not closed or sentence.rule.force_end)
            sentence.leader_ended |= rank == 0
            self._add(sentence, float(best[index, rank]), tokens, closed=closed, cut=cut)
        leaders = new_sums[:, 0].tolist()
        for index, sentence in enumerate(past.sentences):
            num_tokens = past.num_generated(index) + 1 + sentence.num_forced
            if broken[index]:
                finished[index] = Finished(sentence.key, None, DecodingError(NO_TOKEN))
            elif over[index] or self._is_done(sentence, leaders[index], num_tokens):
                finished[index] = self._finish(sentence)
        return Choice(new_tokens, new_parents, finished), new_sums

    def _force_end(self, logits: Tensor, totals: Tensor, past: Past) -> None:
        """Leave sentences at their last place nothing but the closing token, with a log-probability of 0."""
        for index, sentence in enumerate(past.sentences):
            if sentence.rule.force_end and past.num_generated(index) + 1 == sentence.max_new_tokens:
                logits[index] = -math.inf
                logits[index, :, self._end_id] = totals[index]

    def _rows_left(self, sentence: Sentence) -> int:
        """Rows a sentence still searches with."""
        return self.width - len(sentence.pool) if sentence.rule.narrows else 2 * self.width

    def _add(self, sentence: Sentence, total: float, tokens: list[int], *, closed: bool, cut: bool) -> None:
        """Put a hypothesis into the sentence's pool."""
        num_tokens = len(tokens) + int(closed) + sentence.num_forced
        score = sentence.rule.score(total, num_tokens)
        sentence.pool.append(Ended(score, tokens, "length" if cut else "stop"))
        # Stable: of equals the one that ended first stays.
        sentence.pool.sort(key=lambda hypothesis: -hypothesis.score)
        del sentence.pool[self.width :]

    def _is_done(self, sentence: Sentence, leader: float, num_tokens: int) -> bool:
        """Whether nothing that still runs is worth running on.

        Args:
            sentence: The sentence.
            leader: Log-probability of its best running hypothesis.
            num_tokens: Tokens of that hypothesis, forced ones included.
        """
        if not math.isfinite(leader):
            return True
        rule, num_ended = sentence.rule, len(sentence.pool)
        if rule.leader_must_end:
            return sentence.leader_ended and num_ended >= sentence.options.num_hypotheses
        if num_ended < self.width:
            return False
        return rule.stops_when_full or sentence.pool[-1].score >= rule.score(leader, num_tokens)

    def _finish(self, sentence: Sentence) -> Finished:
        if not sentence.pool:
            return Finished(sentence.key, None, DecodingError(NO_TOKEN))
        scored = sentence.options.return_scores
        answers = [
            Hypothesis(ended.tokens, ended.score if scored else None, ended.finish_reason)
            for ended in sentence.pool[: sentence.options.num_hypotheses]
        ]
        return Finished(sentence.key, Hypothesis.ranked(answers))
