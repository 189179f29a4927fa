"""A cohort whose sums and choices torch makes, for any device and any model.

Who joins takes its first step alone; from then on everybody steps together. What the model remembers is kept by a
:class:`model.decoding.eager.state.DecoderState`; here is who is there, what was chosen, and when it is enough.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

import torch
from torch import Tensor

from model.decoding.cohort import Vocabulary
from model.decoding.eager.beam import BeamSearch
from model.decoding.eager.filters import TokenFilter
from model.decoding.eager.greedy import GreedySearch
from model.decoding.eager.state import DecoderState, widen
from model.decoding.policy import DecodingPolicy
from model.decoding.sentence import Choice, DecodingRequest, Finished, Past, Sentence
from model.decoding.shortlist import Shortlist

_GROWTH = 32
"""Columns of the history added at once when it is full, and dropped at once when as many are no longer needed."""


class TorchCohort:
    """See :class:`model.decoding.cohort.Cohort`.

    Args:
        state: The model with what it remembers; empty.
        vocabulary: Special tokens.
        width: Rows of each sentence: the beam size, 1 for greedy search.
        longest_target: Tokens the model can produce at all, forced ones included.
        device: Where the model lives.
        policy: The model's way of decoding.
        shortlist: What sentences choose their tokens from, where that is not the whole vocabulary. Here it saves
            nothing: it is for the same answers as the compiled decoder's.
    """

    def __init__(
        self,
        state: DecoderState,
        vocabulary: Vocabulary,
        width: int,
        longest_target: int,
        device: torch.device,
        policy: DecodingPolicy = DecodingPolicy(),  # noqa: B008  (frozen)
        shortlist: Shortlist | None = None,
    ) -> None:
        self._state = state
        self._vocabulary = vocabulary
        self._longest_target = longest_target
        self._device = device
        self._policy = policy
        self._shortlist = shortlist
        never = policy.never_generated(vocabulary.never_generated)
        token_filter = TokenFilter(never, vocabulary.end_id, device)
        self._search: GreedySearch | BeamSearch = (
            GreedySearch(token_filter, vocabulary.end_id, policy)
            if width == 1
            else BeamSearch(token_filter, vocabulary.end_id, width, policy)
        )
        self._sentences: list[Sentence] = []
        self._columns = 0
        none = torch.empty(0, dtype=torch.long, device=device)
        self._tokens = none  # (N, K): the next input of every row
        self._history = none  # (N, K, capacity): inputs by column, the newest of all rows in one
        self._left_out = none  # (N, 1, V): with a shortlist, True where a token is no candidate of the sentence

    @property
    def width(self) -> int:
        """Rows of each sentence."""
        return self._search.width

    @property
    def num_sentences(self) -> int:
        """Sentences that decode now, N."""
        return len(self._sentences)

    @property
    def num_rows(self) -> int:
        """Rows of the model's batch, N * K."""
        return len(self._sentences) * self.width

    @property
    def keys(self) -> list[int]:
        """The sentences' keys, in the order they joined."""
        return [sentence.key for sentence in self._sentences]

    @property
    def longest_source(self) -> int:
        """Tokens of the longest source, markers included; all others are padded to it."""
        return max((sentence.num_source_tokens for sentence in self._sentences), default=0)

    @property
    def longest_target(self) -> int:
        """Cache columns in use."""
        return self._columns

    def join(self, requests: Sequence[DecodingRequest]) -> list[Finished]:
        """Take sentences in: encode them together and choose their first token."""
        if not requests:
            return []
        with torch.inference_mode():
            return self._join(requests)

    def step(self) -> list[Finished]:
        """One token further for everybody."""
        if not self._sentences:
            return []
        with torch.inference_mode():
            return self._step()

    def leave(self, keys: Collection[int]) -> None:
        """Drop sentences nobody waits for any more; unknown keys are ignored."""
        wanted = [index for index, sentence in enumerate(self._sentences) if sentence.key not in keys]
        if len(wanted) < len(self._sentences):
            with torch.inference_mode():
                self._keep(wanted)

    def _join(self, requests: Sequence[DecodingRequest]) -> list[Finished]:
        joining = [Sentence.of(request, self._policy, self._longest_target) for request in requests]
        inputs = torch.tensor(
            [[self._vocabulary.start_id, *request.forced_ids] for request in requests], device=self._device
        )
        logits = self._state.join([request.source_ids for request in requests], inputs)
        left_out = None if self._shortlist is None else self._without_candidates(self._shortlist, requests, logits)
        if left_out is not None:
            logits.masked_fill_(left_out, -math.inf)
        choice = self._search.first(logits, Past(joining, inputs.unsqueeze(1), inputs.size(1)))
        self._append(joining, inputs, choice, left_out)
        offset = len(self._sentences) - len(joining)
        finished = {offset + index: outcome for index, outcome in choice.finished.items()}
        return self._retire(finished)

    def _without_candidates(self, shortlist: Shortlist, requests: Sequence[DecodingRequest], logits: Tensor) -> Tensor:
        """Where a token is no candidate of its sentence, (n, 1, V)."""
        left_out = torch.ones(len(requests), 1, logits.size(-1), dtype=torch.bool)
        for row, request in zip(left_out, requests, strict=True):
            row[0, torch.from_numpy(shortlist.candidates(request.source_ids))] = False
        return left_out.to(self._device)

    def _append(self, joining: list[Sentence], inputs: Tensor, choice: Choice, left_out: Tensor | None) -> None:
        """Put sentences that took their first step beside the others, their inputs at the newest columns."""
        if not self._sentences:
            self._columns = inputs.size(1)
            self._tokens = choice.tokens.new_empty(0, self.width)
            self._history = choice.tokens.new_zeros(0, self.width, _GROWTH)
            self._left_out = self._left_out if left_out is None else left_out[:0]
        column = self._columns - inputs.size(1)
        for sentence in joining:
            sentence.start = column
        history = choice.tokens.new_zeros(len(joining), self.width, self._history.size(-1))
        history[:, :, column : self._columns] = inputs.unsqueeze(1)
        self._sentences = [*self._sentences, *joining]
        self._tokens = torch.cat([self._tokens, choice.tokens])
        self._history = torch.cat([self._history, history])
        if left_out is not None:
            self._left_out = torch.cat([self._left_out, left_out])

    def _step(self) -> list[Finished]:
        self._fit_columns()
        logits = self._state.step(self._tokens)
        if self._shortlist is not None:
            logits.masked_fill_(self._left_out, -math.inf)
        self._history[:, :, self._columns] = self._tokens
        self._columns += 1
        choice = self._search.next(logits, Past(self._sentences, self._history, self._columns))
        if choice.parents is not None:
            self._history = self._history.gather(1, choice.parents.unsqueeze(-1).expand_as(self._history))
            self._state.reorder(choice.parents)
        self._tokens = choice.tokens
        return self._retire(choice.finished)

    def _fit_columns(self) -> None:
        """Make room for one more column; forget those before everybody's start."""
        unused = min(sentence.start for sentence in self._sentences)
        if unused >= _GROWTH:
            self._history = self._history[..., unused:].contiguous()
            self._columns -= unused
            for sentence in self._sentences:
                sentence.start -= unused
        if self._columns >= self._history.size(-1):
            self._history = widen(self._history, 2, self._columns + _GROWTH)

    def _retire(self, finished: dict[int, Finished]) -> list[Finished]:
        if finished:
            self._keep([index for index in range(len(self._sentences)) if index not in finished])
        return list(finished.values())

    def _keep(self, indices: list[int]) -> None:
        """Let all sentences but these leave."""
        self._search.keep(indices)
        self._sentences = [self._sentences[index] for index in indices]
        if not indices:
            self._state.clear()
            return
        kept = torch.tensor(indices, device=self._device)
        self._tokens = self._tokens[kept]
        self._history = self._history[kept]
        if self._shortlist is not None:
            self._left_out = self._left_out[kept]
        self._state.keep(indices)
