"""A cohort whose sentences decode in slots: which sentence has which slot, and its result."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from torch import Tensor

from model.decoding.options import Hypothesis
from model.decoding.search import NO_TOKEN, Considered, SearchTrace
from model.decoding.sentence import DecodingRequest, Finished, Sentence
from model.decoding.slots.buckets import Bucket
from model.decoding.slots.graphs import download
from model.decoding.slots.model import SlotModel, SlotStep
from model.decoding.slots.tensors import SlotTensors
from model.errors import DecodingError


@dataclass(eq=False)
class _Occupant:
    """A sentence in its slot.

    Args:
        sentence: The sentence.
        slot: The index of its slot.
        steps_left: Steps after which it is done at the latest.
        trace: The candidates of each step, if they are asked for.
    """

    sentence: Sentence
    slot: int
    steps_left: int
    trace: SearchTrace | None


class SlotCohort:
    """See :class:`model.decoding.cohort.Cohort`.

    Joining and leaving writes a slot and moves no other sentence. If there are too few slots, or they are too short, or
    there are far too many, all sentences move to another bucket.

    Args:
        model: The model, and its slots.
        width: Rows of each sentence: the beam size, 1 for greedy search; an attribute, too.
    """

    def __init__(self, model: SlotModel, width: int) -> None:
        self._model = model
        self.width = width
        self._occupants: dict[int, _Occupant] = {}
        self._step: SlotStep | None = None

    @property
    def num_sentences(self) -> int:
        """Sentences that decode now."""
        return len(self._occupants)

    @property
    def num_rows(self) -> int:
        """Rows of these sentences; free slots are computed with them and not counted."""
        return len(self._occupants) * self.width

    @property
    def keys(self) -> list[int]:
        """The sentences' keys, in the order they joined."""
        return list(self._occupants)

    @property
    def longest_source(self) -> int:
        """Tokens of the longest source, markers included."""
        return max((occupant.sentence.num_source_tokens for occupant in self._occupants.values()), default=0)

    @property
    def tensors(self) -> SlotTensors:
        """The state of its slots; there is a sentence in one at least."""
        assert self._step is not None
        return self._step.tensors

    def join(self, requests: Sequence[DecodingRequest]) -> list[Finished]:
        """Encode sentences together and give them slots. None is finished: their first step is one with the others."""
        if not requests:
            return []
        with self._model.running():
            sentences = [Sentence.of(request, self._model.policy, self._model.longest_target) for request in requests]
            encoded = self._model.encode([request.source_ids for request in requests])
            decoding = [occupant.sentence for occupant in self._occupants.values()]
            wanted = self._bucket_for([*decoding, *sentences])
            if self._step is None:
                self._step = self._model.take(wanted, encoded.cross_cache)
            elif not self._step.tensors.bucket.serves(wanted):
                self._move(self._step, wanted)
            tensors = self._step.tensors
            taken = {occupant.slot for occupant in self._occupants.values()}
            free = [slot for slot in range(tensors.bucket.slots) if slot not in taken][: len(sentences)]
            inputs = [[self._model.vocabulary.start_id, *request.given_ids] for request in requests]
            tensors.put(free, sentences, inputs, encoded)
            for sentence, slot in zip(sentences, free, strict=True):
                steps = sentence.num_given + sentence.max_new_tokens
                trace = SearchTrace() if sentence.options.return_search else None
                self._occupants[sentence.key] = _Occupant(sentence, slot, steps, trace)
        return []

    def step(self) -> list[Finished]:
        """Take some steps with all sentences; those that are known to be finished leave."""
        if self._step is None:
            return []
        with self._model.running():
            finished = self._take_steps(self._step)
            if finished:
                self._make_room()
        return finished

    def leave(self, keys: Collection[int]) -> None:
        """Drop cancelled sentences; unknown keys are ignored."""
        leaving = [key for key in self._occupants if key in keys]
        if leaving and self._step is not None:
            with self._model.running():
                self._step.tensors.free([self._occupants.pop(key).slot for key in leaving])
                self._make_room()

    def _bucket_for(self, sentences: Sequence[Sentence]) -> Bucket:
        """The smallest bucket that holds sentences; at least one."""
        return Bucket.for_needs(
            len(sentences),
            self.width,
            max(sentence.num_source_tokens for sentence in sentences),
            max(1 + sentence.num_given + sentence.max_new_tokens for sentence in sentences),
        )

    def _take_steps(self, step: SlotStep) -> list[Finished]:
        """Queue some steps on the device, wait for their results, and let the sentences leave that have finished."""
        occupants = list(self._occupants.values())
        num_steps = min(self._model.steps_per_call, max(occupant.steps_left for occupant in occupants))
        traced = any(occupant.trace is not None for occupant in occupants)
        full = traced or any(
            request.once_ids
            or request.options.no_repeat_ngram_size
            or (request.options.return_scores and self.width == 1)
            for request in (occupant.sentence.request for occupant in occupants)
        )
        slots = step.tensors
        considered = []
        for _ in range(num_steps):
            step.run(full=full)
            if traced:
                considered.append(slots.considered.clone())
        answers = (slots.failed, slots.pool_scores, slots.pool_lengths, slots.pool_cut, slots.pool_history)
        active, failed, scores, lengths, cut, history, *steps = download(slots.active, *answers, *considered)
        decodes = active.tolist()
        finished: list[Finished] = []
        for occupant in occupants:
            sentence, slot = occupant.sentence, occupant.slot
            occupant.steps_left -= num_steps
            if occupant.trace is not None:
                for candidates in steps:
                    occupant.trace.add(_considered(candidates[slot]))
            if decodes[slot]:
                continue
            del self._occupants[sentence.key]
            first, chosen = 1 + sentence.num_forced, 1 + sentence.num_given
            ranked = [
                Hypothesis(
                    history[slot, rank, first : chosen + int(length)].tolist(),
                    score if sentence.options.return_scores else None,
                    "length" if is_cut else "stop",
                )
                for rank, (score, length, is_cut) in enumerate(
                    zip(scores[slot].tolist(), lengths[slot].tolist(), cut[slot].tolist(), strict=True)
                )
                if rank < sentence.options.num_hypotheses and score != -math.inf
            ]
            if bool(failed[slot]) or not ranked:
                finished.append(Finished(sentence.key, None, DecodingError(NO_TOKEN)))
                continue
            search = () if occupant.trace is None else occupant.trace.search
            finished.append(Finished(sentence.key, Hypothesis.ranked(ranked, search)))
        return finished

    def _make_room(self) -> None:
        """After sentences have left: move the others if most slots are free; give back slots that are all free."""
        assert self._step is not None
        if not self._occupants:
            self._model.give_back(self._step)
            self._step = None
            return
        wanted = self._bucket_for([occupant.sentence for occupant in self._occupants.values()])
        if not self._step.tensors.bucket.serves(wanted):
            self._move(self._step, wanted)

    def _move(self, step: SlotStep, bucket: Bucket) -> None:
        """Move all sentences to other slots."""
        self._step = self._model.take(bucket, step.tensors.cross_cache)
        occupants = list(self._occupants.values())
        self._step.tensors.take_over(step.tensors, [occupant.slot for occupant in occupants])
        for slot, occupant in enumerate(occupants):
            occupant.slot = slot
        step.tensors.free(range(step.tensors.bucket.slots))
        self._model.give_back(step)


def _considered(fields: Tensor) -> Iterator[Considered]:
    """A sentence's candidates, from its part of :attr:`SlotTensors.considered`."""
    for token_id, log_prob, row, kept, finished in fields.T.tolist():
        if log_prob != -math.inf:
            yield Considered(int(token_id), log_prob, int(row), bool(kept), bool(finished))
