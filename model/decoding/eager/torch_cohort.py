"""A cohort that torch computes, for any device and any model.

Sentences that join take their first step by themselves; from then on all sentences step together.
:class:`model.decoding.eager.state.TorchState` has inputs, keys and values by column, the search has the hypotheses, and
the cohort has the sentences.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

import torch
from torch import Tensor

from model.decoding.eager.beam import BeamSearch
from model.decoding.eager.filters import TokenFilter
from model.decoding.eager.greedy import GreedySearch
from model.decoding.eager.state import TorchState
from model.decoding.eager.step import Past
from model.decoding.policy import DecodingPolicy
from model.decoding.sentence import DecodingRequest, Finished, Sentence
from model.decoding.shortlist import Shortlist
from model.text.tokenizer import Tokenizer


class TorchCohort:
    """See :class:`model.decoding.cohort.Cohort`.

    Args:
        state: The model with its caches; empty.
        vocabulary: Special tokens.
        width: Rows of each sentence: the beam size, 1 for greedy search.
        longest_target: The most tokens that the model can produce, forced ones and a prefix included.
        device: The device of the model.
        policy: The model's decoding policy.
        shortlist: The tokens that sentences choose from, if not the whole vocabulary. It saves no time here: the
            answers are those of the compiled decoder with it.
    """

    def __init__(
        self,
        state: TorchState,
        vocabulary: Tokenizer,
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
        never = policy.suppressed_ids(vocabulary.never_generated)
        token_filter = TokenFilter(never, vocabulary.end_id, device)
        self._search: GreedySearch | BeamSearch = (
            GreedySearch(token_filter, vocabulary.end_id, policy)
            if width == 1
            else BeamSearch(token_filter, vocabulary.end_id, width, policy)
        )
        self._sentences: list[Sentence] = []
        self._tokens = torch.empty(0, dtype=torch.long, device=device)  # (N, K): the next input of every row
        # (N, 1, V): with a shortlist, True for each token that is no candidate of the sentence.
        self._left_out = torch.empty(0, dtype=torch.bool, device=device)

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
        return self._state.columns

    def join(self, requests: Sequence[DecodingRequest]) -> list[Finished]:
        """Encode sentences together and choose their first tokens."""
        if not requests:
            return []
        with torch.inference_mode():
            return self._join(requests)

    def step(self) -> list[Finished]:
        """Take one step with all sentences."""
        if not self._sentences:
            return []
        with torch.inference_mode():
            return self._step()

    def leave(self, keys: Collection[int]) -> None:
        """Drop cancelled sentences; unknown keys are ignored."""
        staying = [index for index, sentence in enumerate(self._sentences) if sentence.key not in keys]
        if len(staying) < len(self._sentences):
            with torch.inference_mode():
                self._keep(staying)

    def _join(self, requests: Sequence[DecodingRequest]) -> list[Finished]:
        groups: dict[int, list[Sentence]] = {}
        for request in requests:
            sentence = Sentence.of(request, self._policy, self._longest_target)
            groups.setdefault(sentence.num_given, []).append(sentence)
        return [finished for group in groups.values() for finished in self._join_group(group)]

    def _join_group(self, joining: list[Sentence]) -> list[Finished]:
        """Let sentences with equally many given tokens join."""
        requests = [sentence.request for sentence in joining]
        inputs = torch.tensor(
            [[self._vocabulary.start_id, *request.given_ids] for request in requests], device=self._device
        )
        logits = self._state.join([request.source_ids for request in requests], inputs)
        left_out = None if self._shortlist is None else self._without_candidates(self._shortlist, requests, logits)
        if left_out is not None:
            logits.masked_fill_(left_out, -math.inf)
        past = Past(joining, [0] * len(joining), inputs.unsqueeze(1), inputs.size(1))
        choice = self._search.first(logits, past)
        # All rows of a sentence continue the one it joined with: nothing is reordered.
        offset = len(self._sentences)
        self._append(joining, choice.tokens, left_out)
        return self._retire({offset + index: outcome for index, outcome in choice.finished.items()})

    def _without_candidates(self, shortlist: Shortlist, requests: Sequence[DecodingRequest], logits: Tensor) -> Tensor:
        """True for each token that is no candidate of its sentence, (n, 1, V)."""
        left_out = torch.ones(len(requests), 1, logits.size(-1), dtype=torch.bool)
        for row, request in zip(left_out, requests, strict=True):
            row[0, torch.from_numpy(shortlist.candidates(request.source_ids, request.required_ids))] = False
        return left_out.to(self._device)

    def _append(self, joining: list[Sentence], tokens: Tensor, left_out: Tensor | None) -> None:
        """Append sentences that took their first step."""
        first = not self._sentences
        self._sentences = [*self._sentences, *joining]
        self._tokens = tokens if first else torch.cat([self._tokens, tokens])
        if left_out is not None:
            self._left_out = left_out if first else torch.cat([self._left_out, left_out])

    def _step(self) -> list[Finished]:
        logits = self._state.step(self._tokens)
        if self._shortlist is not None:
            logits.masked_fill_(self._left_out, -math.inf)
        state = self._state
        choice = self._search.next(logits, Past(self._sentences, state.starts, state.history, state.columns))
        if choice.parents is not None:
            state.reorder(choice.parents)
        self._tokens = choice.tokens
        return self._retire(choice.finished)

    def _retire(self, finished: dict[int, Finished]) -> list[Finished]:
        """Let finished sentences leave, given by their index."""
        if finished:
            self._keep([index for index in range(len(self._sentences)) if index not in finished])
        return list(finished.values())

    def _keep(self, indices: list[int]) -> None:
        """Let all sentences but these leave."""
        self._search.keep(indices)
        self._state.keep(indices)
        self._sentences = [self._sentences[index] for index in indices]
        staying = torch.tensor(indices, dtype=torch.long, device=self._device)
        self._tokens = self._tokens[staying]
        if self._shortlist is not None:
            self._left_out = self._left_out[staying]
