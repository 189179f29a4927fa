"""A cohort whose sentences decode in slots: which sentence has which slot, and its result."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from model.decoding.options import Hypothesis
from model.decoding.search import NO_TOKEN
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
    """

    sentence: Sentence
    slot: int
    steps_left: int


class SlotCohort:
    """See :class:`model.decoding.cohort.Cohort`.

    Joining and leaving writes a slot and moves no other sentence. If there are too few slots, or they are too short, or
    there are far too many, all sentences move to another bucket. Sentences that return their search decode beside the
    slots, in a cohort of the eager back-end, which records it.

    Args:
        model: The model, and its slots.
        width: Rows of each sentence: the beam size, 1 for greedy search; an attribute, too.
    """

    def __init__(self, model: SlotModel, width: int) -> None:
        self._model = model
        self.width = width
        self._occupants: dict[int, _Occupant] = {}
        with model.running():
            self._traced = model.eager_cohort(width)
        self._step: SlotStep | None = None

    @property
    def num_sentences(self) -> int:
        """Sentences that decode now."""
        return len(self._occupants) + self._traced.num_sentences

    @property
    def num_rows(self) -> int:
        """Rows of these sentences; free slots are computed with them and not counted."""
        return self.num_sentences * self.width

    @property
    def keys(self) -> list[int]:
        """The sentences' keys, those in slots first, each group in the order they joined."""
        return [*self._occupants, *self._traced.keys]

    @property
    def longest_source(self) -> int:
        """Tokens of the longest source, markers included."""
        in_slots = (occupant.sentence.num_source_tokens for occupant in self._occupants.values())
        return max((self._traced.longest_source, *in_slots))

    @property
    def tensors(self) -> SlotTensors:
        """The state of its slots, if a sentence is in them."""
        assert self._step is not None
        return self._step.tensors

    def join(self, requests: Sequence[DecodingRequest]) -> list[Finished]:
        """Encode sentences together and give them slots. Only sentences beside the slots may be finished already."""
        with self._model.running():
            in_slots = [request for request in requests if not request.options.return_search]
            if in_slots:
                self._put_into_slots(in_slots)
            return self._traced.join([request for request in requests if request.options.return_search])

    def step(self) -> list[Finished]:
        """Take some steps with all sentences; those that are known to be finished leave."""
        with self._model.running():
            finished = [] if self._step is None else self._take_steps(self._step)
            if finished:
                self._make_room()
            return [*finished, *self._traced.step()]

    def leave(self, keys: Collection[int]) -> None:
        """Drop cancelled sentences; unknown keys are ignored."""
        leaving = [key for key in self._occupants if key in keys]
        with self._model.running():
            self._traced.leave(keys)
            if leaving and self._step is not None:
                self._step.tensors.free([self._occupants.pop(key).slot for key in leaving])
                self._make_room()

    def _put_into_slots(self, requests: Sequence[DecodingRequest]) -> None:
        """Encode sentences, at least one, and put them into free slots."""
        sentences = [Sentence.of(request, self._model.policy, self._model.longest_target) for request in requests]
        encoded = self._model.encode([request.source_ids for request in requests])
        bucket = self._bucket_for([*(occupant.sentence for occupant in self._occupants.values()), *sentences])
        if self._step is None:
            self._step = self._model.take(bucket, encoded.cross_cache)
        elif not self._step.tensors.bucket.serves(bucket):
            self._move(self._step, bucket)
        tensors = self._step.tensors
        occupied = {occupant.slot for occupant in self._occupants.values()}
        free = [slot for slot in range(tensors.bucket.slots) if slot not in occupied][: len(sentences)]
        inputs = [[self._model.vocabulary.start_id, *request.given_ids] for request in requests]
        tensors.put(free, sentences, inputs, encoded)
        for sentence, slot in zip(sentences, free, strict=True):
            num_steps = sentence.num_given + sentence.max_new_tokens
            self._occupants[sentence.key] = _Occupant(sentence, slot, num_steps)

    def _bucket_for(self, sentences: Sequence[Sentence]) -> Bucket:
        """The smallest bucket with room for the sentences, at least one."""
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
        full = any(
            request.required_ids
            or request.options.no_repeat_ngram_size
            or (request.options.return_scores and self.width == 1)
            for request in (occupant.sentence.request for occupant in occupants)
        )
        for _ in range(num_steps):
            step.run(full=full)
        slots = step.tensors
        active, failed, scores, lengths, cut, history = download(
            slots.active, slots.failed, slots.pool_scores, slots.pool_lengths, slots.pool_cut, slots.pool_history
        )
        decodes = active.tolist()
        finished: list[Finished] = []
        for occupant in occupants:
            sentence, slot = occupant.sentence, occupant.slot
            occupant.steps_left -= num_steps
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
            finished.append(Finished(sentence.key, Hypothesis.ranked(ranked)))
        return finished

    def _make_room(self) -> None:
        """After sentences have left, move the others if most slots are free; return the slots if all are free."""
        assert self._step is not None
        if not self._occupants:
            self._model.give_back(self._step)
            self._step = None
            return
        bucket = self._bucket_for([occupant.sentence for occupant in self._occupants.values()])
        if not self._step.tensors.bucket.serves(bucket):
            self._move(self._step, bucket)

    def _move(self, step: SlotStep, bucket: Bucket) -> None:
        """Move all sentences to other slots."""
        self._step = self._model.take(bucket, step.tensors.cross_cache)
        occupants = list(self._occupants.values())
        self._step.tensors.take_over(step.tensors, [occupant.slot for occupant in occupants])
        for slot, occupant in enumerate(occupants):
            occupant.slot = slot
        step.tensors.free(range(step.tensors.bucket.slots))
        self._model.give_back(step)
