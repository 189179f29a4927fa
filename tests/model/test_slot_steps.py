"""A step in slots reads nothing on the host and is always the same, as CUDA graphs require."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from model.decoding.options import DecodingOptions
from model.decoding.sentence import DecodingRequest, Finished
from model.decoding.slots.buckets import SHRINK_AT, Bucket
from model.decoding.slots.cohort import SlotCohort
from model.decoding.slots.model import SlotStep, at_rest
from model.decoding.slots.step import Constants, take_step
from model.decoding.slots.tensors import SlotTensors
from model.network.transformer import Transformer
from tests.model.recorded import RecordedGraph, record, use_recorded_graphs
from tests.model.searches import PREFIXES
from tests.model.slots import (
    BEAM,
    GREEDY,
    all_same,
    drive,
    drive_at_random,
    plain_cohort,
    requests,
    same,
    slot_cohort,
    slot_model,
    some_searches,
    step_of,
)
from tests.model.tiny import random_sources, tiny_transformer
from tests.model.torch_layers import randomise, small_config


class Watch(TorchDispatchMode):
    """Records every operation with its shapes, and refuses those that read values on the host."""

    REFUSED = (
        *("_local_scalar_dense", "nonzero", "masked_select", "unique", "repeat_interleave.Tensor", "is_nonzero"),
        *("scalar_tensor", "lift_fresh", "bincount", "where.Scalar"),
    )

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.seen: list[tuple[str, ...]] = []

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = str(function)
        if any(refused in name for refused in self.REFUSED) or (kwargs or {}).get("non_blocking"):
            raise AssertionError(f"{name} waits for the host")
        result = function(*args, **(kwargs or {}))
        tensors = [part for part in (*args, result) if isinstance(part, torch.Tensor)]
        if len({tensor.device for tensor in tensors}) > 1:
            raise AssertionError(f"{name} joins tensors of several devices")
        indices = args[1] if name.startswith("aten.index.") else []
        if any(index is not None and index.dtype == torch.bool for index in indices):
            raise AssertionError(f"{name} by booleans has a shape that depends on values")
        self.seen.append((name, *(str(tuple(tensor.shape)) for tensor in tensors)))
        return result


CONSTANTS = Constants(end_id=2, never=torch.tensor([0, 1]), renormalise=True, may_force_end=True)


@pytest.mark.parametrize(
    "changes", [{"norm": "pre"}, {"norm": "post", "activation": "silu"}, {"positions": "learned"}], ids=str
)
@torch.inference_mode()
def test_rows_at_different_columns_get_the_logits_of_the_full_pass(changes: dict[str, Any]) -> None:
    transformer = Transformer(small_config(**changes), 0).eval()
    randomise(transformer)
    generator = torch.Generator().manual_seed(0)
    source = torch.randint(3, 20, (2, 6), generator=generator)
    targets = torch.randint(3, 20, (2, 3, 8), generator=generator)  # three rows of two sentences
    cross_cache = transformer.project_memory(transformer.encode(source))
    self_cache = torch.full((*cross_cache.shape[:4], 3 * 8, cross_cache.size(-1)), 7.0)
    rows, columns = torch.arange(3), torch.arange(8)
    positions = torch.tensor([0, -3])  # the second sentence starts three steps after the first
    for _ in range(8):
        clamped = positions.clamp(min=0)
        past = rows.view(3, 1, 1) == rows.view(1, 3, 1)
        may_attend = (past & (columns <= clamped.view(2, 1, 1, 1))).flatten(2).unsqueeze(1)
        logits = transformer.step_slots(
            targets.gather(2, clamped.view(2, 1, 1).expand(2, 3, 1)).squeeze(2),
            clamped.unsqueeze(1),
            self_cache,
            cross_cache,
            rows * 8 + clamped.unsqueeze(1),
            may_attend,
            torch.ones(2, 1, 1, 6, dtype=torch.bool),
        )
        for sentence, position in enumerate(positions.tolist()):
            if position >= 0:
                full = transformer(source[sentence].expand(3, -1), targets[sentence, :, : position + 1])
                torch.testing.assert_close(logits[sentence], full[:, -1], atol=1e-4, rtol=1e-4)
        positions += 1


@pytest.mark.parametrize("width", [1, 4])
@torch.no_grad()
def test_a_step_reads_no_tensor_value_on_the_host(width: int) -> None:
    transformer = tiny_transformer().to("meta")  # tensors without values
    like = torch.empty(2, 2, 1, 2, 1, 8, device="meta")
    slots = SlotTensors.allocate(Bucket(4, width, 16, 32), like)
    constants = replace(CONSTANTS, never=CONSTANTS.never.to("meta"))
    with Watch() as watch:
        take_step(transformer, constants, slots, full=True)
    assert any("topk" in observed[0] or "max" in observed[0] for observed in watch.seen)


@pytest.mark.parametrize("width", [1, 4])
@torch.inference_mode()
def test_every_step_has_the_same_operations_shapes_and_addresses(width: int) -> None:
    transformer = tiny_transformer()
    model = slot_model(transformer)
    group = SlotCohort(model, width)
    options = DecodingOptions(beam_size=width, return_scores=True, no_repeat_ngram_size=2, min_new_tokens=9)
    group.join(requests(random_sources(3), options, required_ids=[(), (9, 11)], prefix_ids=[(), (5, 6)]))
    slots = step_of(group).tensors
    tensors = [value for value in vars(slots).values() if isinstance(value, torch.Tensor)]
    addresses = [tensor.data_ptr() for tensor in tensors]
    steps = []
    for _ in range(4):
        with Watch() as watch:
            take_step(transformer, CONSTANTS, slots, full=True)
        steps.append(watch.seen)
    assert all(step == steps[0] for step in steps)
    assert [tensor.data_ptr() for tensor in tensors] == addresses


class Steps:
    """Which steps a cohort takes: full ones are True."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.full: list[bool] = []
        run = SlotStep.run

        def noted(step: SlotStep, *, full: bool) -> None:
            self.full.append(full)
            run(step, full=full)

        monkeypatch.setattr(SlotStep, "run", noted)


@pytest.mark.parametrize(
    ("changes", "required_ids"),
    [({"return_scores": True}, ()), ({"no_repeat_ngram_size": 2}, ()), ({}, (9,))],
)
def test_a_step_computes_what_few_sentences_need_only_if_one_does(
    changes: dict[str, Any], required_ids: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = Steps(monkeypatch)
    group = slot_cohort(tiny_transformer(), 1)
    plain = replace(GREEDY, return_scores=False, min_new_tokens=5)
    group.join(requests(random_sources(2), plain))
    group.step()
    group.join([DecodingRequest(7, [5, 2], replace(plain, **changes), required_ids=required_ids)])
    group.step()
    group.leave([7])
    group.step()
    assert steps.full == [False, True, False]


def test_beams_have_scores_in_every_step(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = Steps(monkeypatch)
    group = slot_cohort(tiny_transformer(), 4)
    group.join(requests(random_sources(2), BEAM))
    group.step()
    assert steps.full == [False]


@pytest.mark.parametrize("options", [GREEDY, replace(BEAM, no_repeat_ngram_size=2)], ids=["greedy", "beam"])
@torch.inference_mode()
def test_a_step_at_rest_changes_no_output(options: DecodingOptions) -> None:
    transformer = tiny_transformer()
    group = slot_cohort(transformer, options.width)
    inputs = some_searches(requests(random_sources(5), options, prefix_ids=PREFIXES))
    outcomes: dict[int, Finished] = {outcome.key: outcome for outcome in group.join(inputs)}
    while group.num_sentences:
        slots = step_of(group).tensors
        before = copy.deepcopy(slots)
        with at_rest(slots):
            step_of(group).run(full=True)
        for name in ("active", "position", "history", "sums", "pool_scores", "pool_history", "suffixes", "num_ended"):
            assert torch.equal(getattr(slots, name), getattr(before, name)), name
        outcomes |= {outcome.key: outcome for outcome in group.step()}
    all_same(outcomes, drive(plain_cohort(transformer, options.width), inputs))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("options", [GREEDY, replace(BEAM, no_repeat_ngram_size=2)], ids=["greedy", "beam"])
@pytest.mark.parametrize("seed", range(2))
def test_recorded_and_replayed_steps_give_the_same_outputs(
    options: DecodingOptions, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_recorded_graphs(monkeypatch)
    transformer = tiny_transformer()
    model = record(slot_model(transformer, steps_per_call=3))
    inputs = some_searches(
        requests(random_sources(30, seed=seed), options, required_ids=[(), (), (9, 11)], prefix_ids=PREFIXES)
    )
    expected = drive(plain_cohort(transformer, options.width), inputs)
    outcomes, remaining = drive_at_random(SlotCohort(model, options.width), inputs, seed)
    assert outcomes.keys() | remaining == expected.keys()
    for key, outcome in outcomes.items():
        same(outcome, expected[key])
    assert RecordedGraph.num_replays > 50


def test_a_bucket_is_used_if_it_fits_without_waste() -> None:
    bucket = Bucket.for_needs(slots=5, width=4, source=20, target=33)
    assert bucket == Bucket(8, 4, 32, 64)
    assert bucket.serves(Bucket.for_needs(8, 4, 32, 64))
    assert bucket.serves(Bucket.for_needs(4, 4, 32, 64))
    assert not bucket.serves(Bucket.for_needs(9, 4, 32, 64))
    assert not bucket.serves(Bucket.for_needs(5, 4, 33, 64))
    assert not bucket.serves(Bucket.for_needs(5, 4, 32, 65))
    tiny = Bucket.for_needs(1, 4, 32, 64)
    assert bucket.size >= SHRINK_AT * tiny.size
    assert not bucket.serves(tiny)
