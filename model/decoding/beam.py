"""Beam search: the K likeliest beginnings of every sentence, side by side.

The rules are Hugging Face's, which others are compared with: 2K candidates a step, so that K are left when all K
rows could end; a candidate that ends counts only among the first K; K ended hypotheses are kept, the worst making
room; a sentence is done when K ended and no running one is ahead of the worst of them.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from model.decoding.filters import TokenFilter
from model.decoding.greedy import NO_TOKEN
from model.decoding.options import Hypothesis
from model.decoding.scoring import hypothesis_score
from model.decoding.sentence import Choice, Ended, Finished, Past, Sentence
from model.errors import DecodingError


class BeamSearch:
    """Chooses for sentences of ``width`` rows each.

    Args:
        token_filter: Tokens that may not come.
        end_id: The closing token.
        width: Beam size, K.
    """

    def __init__(self, token_filter: TokenFilter, end_id: int, width: int) -> None:
        self.width = width
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
        self._filter.forbid(logits, past)
        num_candidates = 2 * self.width
        # Two small searches instead of one over rows * V: no row can give more than 2K of the best 2K.
        values, tokens = logits.topk(min(num_candidates, logits.size(-1)), dim=-1)  # (N, rows, <= 2K)
        candidates = (sums - totals).unsqueeze(-1) + values
        # A row whose candidate is forbidden or dead stays dead; NaN, which -inf - inf gives, must not look alive.
        candidates = candidates.nan_to_num(nan=-math.inf, posinf=-math.inf, neginf=-math.inf).flatten(1)
        flat_tokens = tokens.flatten(1)
        best, where = candidates.topk(min(num_candidates, candidates.size(1)), dim=-1)  # (N, <= 2K)
        best_tokens = flat_tokens.gather(1, where)
        parents = where // tokens.size(-1)
        missing = num_candidates - best.size(1)
        if missing:  # a vocabulary smaller than the beam
            best = torch.nn.functional.pad(best, (0, missing), value=-math.inf)
            best_tokens = torch.nn.functional.pad(best_tokens, (0, missing))
            parents = torch.nn.functional.pad(parents, (0, missing))

        ends = best_tokens == self._end_id
        # Each parent ends at most once, so at least K of the 2K candidates go on: the first K of those.
        going = torch.argsort(ends, dim=-1, stable=True)[:, : self.width]
        new_sums = best.gather(1, going)
        new_tokens = best_tokens.gather(1, going)
        new_parents = parents.gather(1, going)

        broken = (~torch.isfinite(totals) & torch.isfinite(sums)).any(-1).tolist()
        ended = (ends & torch.isfinite(best))[:, : self.width].nonzero().tolist()
        for index, rank in ended:
            row = int(parents[index, rank])
            self._add(past.sentences[index], float(best[index, rank]), past.tokens(index, row), ended=True)

        finished: dict[int, Finished] = {}
        leaders = new_sums[:, 0].tolist()
        for index, sentence in enumerate(past.sentences):
            num_tokens = past.num_generated(index) + 1
            if broken[index]:
                finished[index] = Finished(sentence.key, None, DecodingError(NO_TOKEN))
            elif self._is_done(sentence, leaders[index], num_tokens):
                finished[index] = self._finish(sentence)
            elif num_tokens == sentence.max_new_tokens:
                for row, total in enumerate(new_sums[index].tolist()):
                    if math.isfinite(total):
                        tokens_so_far = past.tokens(index, int(new_parents[index, row]))
                        self._add(sentence, total, [*tokens_so_far, int(new_tokens[index, row])], ended=False)
                finished[index] = self._finish(sentence)
        return Choice(new_tokens, new_parents, finished), new_sums

    def _add(self, sentence: Sentence, total: float, tokens: list[int], *, ended: bool) -> None:
        """Offer a hypothesis to the sentence's pool of K; the worst makes room if it is worse."""
        num_tokens = len(tokens) + (1 if ended else 0)
        score = hypothesis_score(total, num_tokens, sentence.options.length_penalty)
        sentence.pool.append(Ended(score, tokens, ended))
        # Stable: of equals the one that ended first stays.
        sentence.pool.sort(key=lambda hypothesis: -hypothesis.score)
        del sentence.pool[self.width :]

    def _is_done(self, sentence: Sentence, leader: float, num_tokens: int) -> bool:
        """Whether nothing that still runs is worth running on.

        Args:
            sentence: The sentence.
            leader: Log-probability of its best running hypothesis.
            num_tokens: Tokens of that hypothesis.
        """
        if not math.isfinite(leader):
            return True
        if len(sentence.pool) < self.width:
            return False
        if sentence.options.early_stopping:
            return True
        return sentence.pool[-1].score >= hypothesis_score(leader, num_tokens, sentence.options.length_penalty)

    def _finish(self, sentence: Sentence) -> Finished:
        if not sentence.pool:
            return Finished(sentence.key, None, DecodingError(NO_TOKEN))
        scored = sentence.options.return_scores
        answers = [
            Hypothesis(ended.tokens, ended.score if scored else None, "stop" if ended.ended else "length")
            for ended in sentence.pool[: sentence.options.num_hypotheses]
        ]
        best = answers[0]
        return Finished(sentence.key, Hypothesis(best.token_ids, best.score, best.finish_reason, tuple(answers[1:])))
