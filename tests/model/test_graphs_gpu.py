"""CUDA graphs stay right whatever happens around them: memory that is freed and used again, captures that fail."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Literal

import pytest
import torch

from model.decoding.graph_check import check_graphs
from model.decoding.options import DecodingOptions
from model.decoding.sentence import DecodingRequest
from model.decoding.slots.cohort import SlotCohort
from model.decoding.slots.graphs import Graphs
from model.process.memory import is_out_of_memory
from tests.model.slots import BEAM, all_same, drive, drive_at_random, idle_steps, requests, same, slot_model
from tests.model.tiny import random_sources, tiny_transformer
from tests.simulated_gpu.device import Device

pytestmark = pytest.mark.thorough

Where = Literal["begin", "during", "end"]

SHORT = replace(BEAM, max_new_tokens=8)
LONG = replace(BEAM, max_new_tokens=40)


def some_loads() -> list[list[DecodingRequest]]:
    """Sentences for slots of several sizes."""
    return [
        requests(random_sources(3), SHORT),
        requests(random_sources(5, seed=1), SHORT),
        requests(random_sources(2, seed=2), replace(LONG, min_new_tokens=33)),
    ]


@contextmanager
def memory_full_of_other_things() -> Iterator[None]:
    """A context in which freed memory has been given back and used again; nothing else may write there."""
    torch.cuda.empty_cache()
    others = [torch.full((2**16,), torch.nan, device="cuda") for _ in range(64)]
    torch.cuda.synchronize()
    yield
    torch.cuda.synchronize()
    assert all(bool(other.isnan().all()) for other in others)


@pytest.mark.slow
@pytest.mark.usefixtures("gpu")
def test_graphs_compute_what_launched_steps_do_after_other_slots_were_dropped() -> None:
    module = tiny_transformer().to("cuda")
    loads = some_loads()
    launched = slot_model(module, device="cuda", graphs=False)
    expected = [drive(SlotCohort(launched, 4), load) for load in loads]
    largest = max(step.tensors.num_bytes for step in idle_steps(launched))
    model = slot_model(module, device="cuda", idle_bytes=largest)  # those of one load at most
    for _ in range(2):
        for load, outcomes in zip(loads, expected, strict=True):
            with memory_full_of_other_things():
                all_same(drive(SlotCohort(model, 4), load), outcomes)
    with memory_full_of_other_things():
        model.drop()
        all_same(drive(SlotCohort(model, 4), loads[0]), expected[0])


@pytest.mark.usefixtures("gpu")
def test_the_graphs_of_one_model_outlive_those_of_another() -> None:
    module, load = tiny_transformer().to("cuda"), some_loads()[0]
    first, second = slot_model(module, device="cuda"), slot_model(module, device="cuda")
    expected = drive(SlotCohort(first, 4), load)
    all_same(drive(SlotCohort(second, 4), load), expected)
    num_captures = second.graphs.num_captures
    first.drop()
    del first
    with memory_full_of_other_things():
        all_same(drive(SlotCohort(second, 4), load), expected)
    assert second.graphs.num_captures == num_captures


def test_sentences_that_are_encoded_beside_steps_are_answered_as_alone(gpu: Device | None) -> None:
    number, seeds = (60, range(20)) if gpu is None else (10, range(1))
    module = tiny_transformer().to("cuda")
    inputs = requests(random_sources(number), SHORT)
    launched = slot_model(module, device="cuda", graphs=False)
    alone = {request.key: drive(SlotCohort(launched, 4), [request])[request.key] for request in inputs}
    model = slot_model(module, device="cuda")
    for seed in seeds:
        outcomes, remaining = drive_at_random(SlotCohort(model, 4), inputs, seed, most=2)
        assert outcomes.keys() | remaining == alone.keys()
        for key, outcome in outcomes.items():
            same(outcome, alone[key])


@pytest.mark.parametrize("path", ["begin", "during", "end"])
def test_any_capture_that_fails_costs_its_graph_and_no_sentence(path: Where, simulated_gpu: Device) -> None:
    module, load = tiny_transformer().to("cuda"), some_loads()[0]
    expected = drive(SlotCohort(slot_model(module, device="cuda"), 4), load)
    num_captures = simulated_gpu.num_captures
    assert num_captures >= 1
    for number in range(1, num_captures + 1):
        simulated_gpu.failing_captures = {simulated_gpu.num_captures + number: path}
        model = slot_model(module, device="cuda")
        for _ in range(2):
            all_same(drive(SlotCohort(model, 4), load), expected)
        assert model.graphs.num_failures == 1
        assert torch.cuda.current_stream() == torch.cuda.default_stream()


def test_sentences_are_answered_if_every_capture_fails(simulated_gpu: Device) -> None:
    module, load = tiny_transformer().to("cuda"), some_loads()[0]
    expected = drive(SlotCohort(slot_model(module, device="cuda", graphs=False), 4), load)
    simulated_gpu.failing_captures = dict.fromkeys(range(100), "end")
    model = slot_model(module, device="cuda")
    all_same(drive(SlotCohort(model, 4), load), expected)
    assert model.graphs.num_failures == model.graphs.num_captures > 0


@pytest.mark.usefixtures("gpu")
def test_what_cannot_be_captured_is_launched() -> None:
    arguments = torch.full((2,), 3.0, device="cuda")
    first, other = torch.zeros(2, device="cuda"), torch.zeros(2, device="cuda")
    graphs = Graphs(torch.device("cuda"))

    def wait() -> None:
        first.copy_(arguments * arguments.sum().item())  # the host cannot wait in a capture

    def copy() -> None:
        other.copy_(arguments)

    with graphs.entered():
        waits, copies = graphs.call(wait), graphs.call(copy)
        for call in (copies, waits, copies, waits):
            first.zero_()
            other.zero_()
            call()
            assert (first + other).tolist() == ([3.0, 3.0] if call is copies else [18.0, 18.0])
        torch.cuda.synchronize()
    assert (graphs.num_failures, graphs.are_on) == (1, True)


@pytest.mark.usefixtures("gpu")
def test_a_lack_of_memory_is_recognised_and_passes() -> None:
    model = slot_model(tiny_transformer().to("cuda"), device="cuda")
    load, many = some_loads()[0], requests(random_sources(8192), SHORT)
    expected = drive(SlotCohort(model, 4), load)
    torch.cuda.empty_cache()
    total_bytes = torch.cuda.mem_get_info()[1]
    torch.cuda.set_per_process_memory_fraction((torch.cuda.memory_reserved() + 64 * 2**20) / total_bytes)
    try:
        with pytest.raises(RuntimeError) as caught:
            drive(SlotCohort(model, 4), many)
        assert is_out_of_memory(caught.value)
        all_same(drive(SlotCohort(model, 4), load), expected)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    model.drop()
    all_same(drive(SlotCohort(model, 4), load), expected)


def test_a_capture_without_memory_is_given_up_and_the_sentences_are_answered(simulated_gpu: Device) -> None:
    module, load = tiny_transformer().to("cuda"), some_loads()[0]
    expected = drive(SlotCohort(slot_model(module, device="cuda", graphs=False), 4), load)
    model = slot_model(module, device="cuda")
    all_same(drive(SlotCohort(model, 4), load), expected)
    assert model.graphs.num_failures == 0
    model.drop()
    # The calls before a capture fit, and what it allocates in memory of its own does not.
    simulated_gpu.max_capture_bytes = 1000
    all_same(drive(SlotCohort(model, 4), load), expected)
    assert model.graphs.num_failures > 0


def make_request(num_tokens: int, options: DecodingOptions) -> DecodingRequest:
    """A sentence for the check at the start."""
    return DecodingRequest(0, [*[3] * (num_tokens - 1), 2], options)


@pytest.mark.usefixtures("gpu")
def test_graphs_pass_the_check_at_the_start() -> None:
    model = slot_model(tiny_transformer().to("cuda"), device="cuda")
    check_graphs(model, make_request, [4])
    assert model.graphs.are_on, model.graphs.why_off
    assert model.graphs.num_captures > 0


@pytest.mark.parametrize("fault", ["wrong replays", pytest.param("no captures", marks=pytest.mark.slow)])
def test_graphs_that_fail_the_check_are_off_and_sentences_are_answered(fault: str, simulated_gpu: Device) -> None:
    module, load = tiny_transformer().to("cuda"), some_loads()[0]
    expected = drive(SlotCohort(slot_model(module, device="cuda", graphs=False), 4), load)
    if fault == "wrong replays":
        simulated_gpu.replays_are_wrong = True
    else:
        simulated_gpu.failing_captures = dict.fromkeys(range(100), "end")
    model = slot_model(module, device="cuda")
    check_graphs(model, make_request, [1])
    assert not model.graphs.are_on
    all_same(drive(SlotCohort(model, 4), load), expected)
