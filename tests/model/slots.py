"""Sentences decoded in slots and, for comparison, in an ordinary cohort."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch

from model.decoding.cohort import Cohort
from model.decoding.eager.state import TorchState
from model.decoding.eager.torch_cohort import TorchCohort
from model.decoding.options import DecodingOptions, Hypothesis
from model.decoding.policy import DecodingPolicy
from model.decoding.sentence import DecodingRequest, Finished
from model.decoding.slots.cohort import SlotCohort
from model.decoding.slots.model import SlotModel, SlotStep
from tests.model.searches import same_searches
from tests.model.tiny import VOCABULARY

LONGEST_TARGET = 60

GREEDY = DecodingOptions(decoding="greedy", return_scores=True, max_new_tokens=20)
BEAM = DecodingOptions(beam_size=4, num_hypotheses=4, return_scores=True, max_new_tokens=20)


def slot_model(
    module: Any,
    policy: DecodingPolicy | None = None,
    device: str = "cpu",
    longest_target: int = LONGEST_TARGET,
    **changes: Any,
) -> SlotModel:
    return SlotModel(module, VOCABULARY, longest_target, torch.device(device), policy or DecodingPolicy(), **changes)


def slot_cohort(module: Any, width: int, policy: DecodingPolicy | None = None, **changes: Any) -> SlotCohort:
    return SlotCohort(slot_model(module, policy, **changes), width)


def plain_cohort(
    module: Any, width: int, policy: DecodingPolicy | None = None, longest_target: int = LONGEST_TARGET
) -> TorchCohort:
    device = torch.device("cpu")
    state = TorchState(module, width, VOCABULARY.pad_id, device)
    return TorchCohort(state, VOCABULARY, width, longest_target, device, policy or DecodingPolicy())


def step_of(group: SlotCohort) -> SlotStep:
    """The step of a cohort that decodes. Private: a cohort shows no tensors, and some tests are about them."""
    assert group._step is not None
    return group._step


def idle_steps(model: SlotModel) -> list[SlotStep]:
    """Steps kept for the next cohort, the most recently used last. Private: only their memory is visible otherwise."""
    return model._idle


def requests(
    sources: Sequence[list[int]],
    options: DecodingOptions,
    forced_ids: tuple[int, ...] = (),
    required_ids: Sequence[tuple[int, ...]] = ((),),
    prefix_ids: Sequence[tuple[int, ...]] = ((),),
) -> list[DecodingRequest]:
    """One request a source; ``required_ids`` and ``prefix_ids`` are taken in turn."""
    return [
        DecodingRequest(
            key, source, options, forced_ids, required_ids[key % len(required_ids)], prefix_ids[key % len(prefix_ids)]
        )
        for key, source in enumerate(sources)
    ]


def some_searches(query: Sequence[DecodingRequest]) -> list[DecodingRequest]:
    """The same requests; a third of them return their search."""
    return [replace(request, options=replace(request.options, return_search=request.key % 3 == 1)) for request in query]


def drive(group: Cohort, joining: Sequence[DecodingRequest]) -> dict[int, Finished]:
    """All outcomes by key, of sentences that join at once."""
    outcomes = {outcome.key: outcome for outcome in group.join(joining)}
    while group.num_sentences:
        outcomes |= {outcome.key: outcome for outcome in group.step()}
    return outcomes


def drive_at_random(
    group: Cohort, joining: Sequence[DecodingRequest], seed: int, most: int = 4
) -> tuple[dict[int, Finished], set[int]]:
    """Outcomes of sentences that join and leave at random, and the keys of those that left."""
    rng = random.Random(seed)
    waiting, remaining = list(joining), set()
    outcomes: dict[int, Finished] = {}
    while waiting or group.num_sentences:
        if waiting and rng.random() < 0.4:
            number = rng.randint(1, most)
            outcomes |= {outcome.key: outcome for outcome in group.join(waiting[:number])}
            del waiting[:number]
        if group.num_sentences and rng.random() < 0.05:
            removed = rng.choice(group.keys)
            remaining.add(removed)
            group.leave({removed, -1})
        outcomes |= {outcome.key: outcome for outcome in group.step()}
    return outcomes, remaining


def ranked(outcome: Finished) -> list[Hypothesis]:
    assert outcome.hypothesis is not None
    return [outcome.hypothesis, *outcome.hypothesis.alternatives]


def check_required(outcome: Finished, required_ids: Sequence[int]) -> None:
    """Every hypothesis contains each required token once."""
    for hypothesis in ranked(outcome):
        assert [hypothesis.token_ids.count(token) for token in required_ids] == [1] * len(required_ids)


def same(actual: Finished, expected: Finished, tolerance: float = 1e-4) -> None:
    """Both give the same hypotheses."""
    assert [(hypothesis.token_ids, hypothesis.finish_reason) for hypothesis in ranked(actual)] == [
        (first.token_ids, first.finish_reason) for first in ranked(expected)
    ]
    for first, other in zip(ranked(actual), ranked(expected), strict=True):
        assert (first.score is None) == (other.score is None)
        if first.score is not None:
            assert first.score == pytest.approx(other.score, abs=tolerance)
        same_searches(first.search, other.search, tolerance)


def all_same(actual: dict[int, Finished], expected: dict[int, Finished], tolerance: float = 1e-4) -> None:
    """The same sentences finished, with the same answers."""
    assert actual.keys() == expected.keys()
    for key, outcome in expected.items():
        same(actual[key], outcome, tolerance)
