"""CUDA graphs are kept, dropped and checked so that none can use memory of another, or be wrong unnoticed."""

from __future__ import annotations

import functools
import gc
import itertools
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

from model.artifacts.bundle import load_bundle
from model.decoding.backend import SlotBackend
from model.decoding.graph_check import check_graphs
from model.decoding.options import DecodingOptions
from model.decoding.sentence import DecodingRequest, Finished
from model.decoding.slots import graphs as graphs_module
from model.decoding.slots.cohort import SlotCohort
from model.decoding.slots.graphs import Graphs
from model.decoding.slots.model import SlotModel
from model.translator import Translator
from tests.model import recorded
from tests.model.recorded import NoStream, RecordedGraph, record, use_recorded_graphs
from tests.model.slots import (
    BEAM,
    GREEDY,
    drive,
    drive_at_random,
    idle_steps,
    plain_cohort,
    requests,
    same,
    slot_model,
)
from tests.model.tiny import random_sources, tiny_transformer
from tests.pairwise import pairwise

ASKED = requests(random_sources(30), BEAM)


@pytest.fixture(autouse=True)
def _recorded(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    gc.collect()  # graphs of tests before
    use_recorded_graphs(monkeypatch)
    monkeypatch.setattr(Graphs, "_all", type(Graphs._all)())
    monkeypatch.setattr(SlotModel, "_all", type(SlotModel._all)())
    yield
    gc.collect()


def captured_model(**changes: Any) -> SlotModel:
    return record(slot_model(tiny_transformer(), steps_per_call=4, **changes))


@functools.cache
def plain_outputs() -> dict[int, Finished]:
    """What a plain cohort gives for :data:`ASKED`."""
    return drive(plain_cohort(tiny_transformer(), 4), ASKED)


def check_outputs(model: SlotModel, seed: int = 0) -> None:
    expected = plain_outputs()
    outcomes, remaining = drive_at_random(SlotCohort(model, 4), ASKED, seed, most=9)
    assert outcomes.keys() | remaining == expected.keys()
    for key, outcome in outcomes.items():
        same(outcome, expected[key])


def example(length: int, options: DecodingOptions) -> DecodingRequest:
    return DecodingRequest(0, [*[4, 5, 6, 7, 8] * (length // 5), *[9] * (length % 5 - 1), 2], options)


@pytest.mark.slow
def test_no_graph_is_destroyed_alone_when_slots_are_dropped() -> None:
    model = captured_model(idle_bytes=0)
    for seed in range(3):
        check_outputs(model, seed)
    assert idle_steps(model) == []
    assert RecordedGraph.num_alive == model.graphs.num_kept == model.graphs.num_captures > 20
    model.drop()
    assert RecordedGraph.num_alive == model.graphs.num_kept == 0
    check_outputs(model)


@pytest.mark.slow
def test_with_too_many_graphs_all_are_destroyed_at_once_and_captured_again() -> None:
    model = captured_model()
    model.graphs.max_graphs = 5
    stored: list[int] = []
    capture = Graphs._capture

    def noted(*arguments: Any) -> Any:
        stored.append(RecordedGraph.num_alive)
        return capture(*arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Graphs, "_capture", noted)
        for seed in range(4):
            model.drop_idle(0)
            check_outputs(model, seed)
    assert max(stored) == 5 and stored.count(5) > 1
    assert all(after in (before + 1, 1) for before, after in itertools.pairwise(stored))


def test_graphs_in_use_are_captured_again_after_all_were_dropped() -> None:
    model = captured_model()
    group = SlotCohort(model, 4)
    group.join(ASKED[:5])
    actual = {item.key: item for item in group.step()}
    model.drop()
    actual |= drive(group, [])
    for key, outcome in actual.items():
        same(outcome, plain_outputs()[key])
    assert actual.keys() == {item.key for item in ASKED[:5]}


def test_each_model_has_a_stream_of_its_own() -> None:
    models = [captured_model() for _ in range(32)]
    streams = [model.graphs._stream for model in models]
    assert len(set(streams)) == 32
    late = captured_model()
    assert late.graphs.why_off is not None and "is that of another model" in late.graphs.why_off
    check_outputs(late)
    free = streams[7]
    del models[7], late
    gc.collect()
    assert captured_model().graphs._stream == free


def test_captures_of_two_threads_never_overlap(monkeypatch: pytest.MonkeyPatch) -> None:
    inside: list[int] = []
    overlaps: list[int] = []

    @contextmanager
    def capture(graph: Any, **_: Any) -> Iterator[None]:
        inside.append(1)
        overlaps.append(len(inside))
        threading.Event().wait(0.01)
        yield
        inside.pop()

    monkeypatch.setattr(torch.cuda, "graph", capture)

    def work() -> None:
        graphs = Graphs(torch.device("cpu"))
        graphs.why_off = None
        graphs._open_stream()
        for _ in range(5):
            graphs.call(lambda: None)()

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert overlaps == [1] * 15


def fail_capture(monkeypatch: pytest.MonkeyPatch, number: int, error: type[Exception], message: str) -> None:
    """One capture fails. Before the function: a recording executes it, which a capture does not."""
    count = 0

    @contextmanager
    def failing(*arguments: Any, **options: Any) -> Iterator[None]:
        nonlocal count
        count += 1
        if count == number:
            raise error(message)
        with recorded._record(*arguments, **options):
            yield

    monkeypatch.setattr(torch.cuda, "graph", failing)


def working(monkeypatch: pytest.MonkeyPatch) -> None:
    """The GPU can be waited for: an error has not stopped it."""
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device=None: None)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("number", range(1, 7))
def test_after_any_capture_failed_its_function_is_launched_without_a_graph(
    number: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    working(monkeypatch)
    fail_capture(monkeypatch, number, torch.AcceleratorError, "CUDA error: operation not permitted")
    model = captured_model(idle_bytes=0)
    with caplog.at_level(logging.WARNING):
        check_outputs(model)
    assert NoStream.current is None
    assert (model.graphs.num_failures, len(caplog.records)) == (1, 1)
    assert model.graphs.are_on and RecordedGraph.num_alive == model.graphs.num_kept > 0
    assert RecordedGraph.num_replays > 10


def test_a_gpu_that_has_failed_for_good_is_no_failed_capture(monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(device: object = None) -> None:
        raise torch.AcceleratorError("CUDA error: an illegal memory access was encountered")

    monkeypatch.setattr(torch.cuda, "synchronize", lost)
    fail_capture(monkeypatch, 3, torch.AcceleratorError, "CUDA error: an illegal memory access was encountered")
    with pytest.raises(torch.AcceleratorError):
        check_outputs(captured_model(idle_bytes=0))


def test_right_graphs_pass_the_check_and_leave_nothing() -> None:
    model = captured_model()
    check_graphs(model, example, [1, 4])
    assert model.graphs.why_off is None
    assert model.graphs.num_captures > 6, "what was dropped is captured again"
    assert (model.graphs.num_kept, model.num_idle_bytes, RecordedGraph.num_alive) == (0, 0, 0)
    check_outputs(model)


def replay_wrongly(monkeypatch: pytest.MonkeyPatch, spoil: Callable[[RecordedGraph], None]) -> None:
    replay = RecordedGraph.replay

    def wrong(graph: RecordedGraph) -> None:
        replay(graph)
        spoil(graph)

    monkeypatch.setattr(RecordedGraph, "replay", wrong)


def check_fails(model: SlotModel, caplog: pytest.LogCaptureFixture, reason: str) -> None:
    """The check switches graphs off, with a line in the log, and the model decodes without them."""
    with caplog.at_level(logging.ERROR):
        check_graphs(model, example, [1, 4])
    assert model.graphs.why_off is not None
    assert reason in model.graphs.why_off
    (line,) = caplog.records
    assert line.getMessage().startswith("CUDA graphs are off")
    assert (model.graphs.num_kept, RecordedGraph.num_alive) == (0, 0)
    check_outputs(model)
    assert RecordedGraph.num_alive == 0


def test_wrong_results_of_a_graph_switch_graphs_off(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    model = captured_model()
    run = graphs_module.Graphs.call

    def call(graphs: Graphs, function: Callable[[], None], *still: Any) -> Callable[[], None]:
        plain = run(graphs, function, *still)

        def spoiled() -> None:
            plain()
            if graphs.are_on:
                for step in [*model._idle, *steps]:
                    step.tensors.target_cache.add_(1.0)

        return spoiled

    steps: list[Any] = []
    take = SlotModel.take

    def taken(*arguments: Any) -> Any:
        steps[:] = [take(*arguments)]
        return steps[0]

    monkeypatch.setattr(SlotModel, "take", taken)
    monkeypatch.setattr(graphs_module.Graphs, "call", call)
    check_fails(model, caplog, "captured steps differ from launched ones")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("value", [torch.nan, 1e4])
def test_results_that_are_wrong_once_memory_was_given_back_switch_graphs_off(
    value: float, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As if a graph used a workspace that was freed with another one: sums of products are those of someone else."""
    emptied: list[bool] = []
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: emptied.append(True))

    def spoil(graph: RecordedGraph) -> None:
        if emptied:
            written = [args[0] for function, args, *_ in graph.operations if "copy_" in str(function)]
            for tensor in written:
                if tensor.is_floating_point():
                    tensor.fill_(value)

    replay_wrongly(monkeypatch, spoil)
    check_fails(captured_model(), caplog, "differ after others were dropped")


def test_graphs_that_write_to_memory_of_others_are_switched_off(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    filled: list[torch.Tensor] = []
    full = torch.full

    def noted(*arguments: Any, **options: Any) -> torch.Tensor:
        tensor = full(*arguments, **options)
        if tensor.is_floating_point() and bool(tensor.isnan().any()):
            filled.append(tensor)
        return tensor

    def spoil(graph: RecordedGraph) -> None:
        for tensor in filled:
            tensor[17] = 0.0

    monkeypatch.setattr(torch, "full", noted)
    replay_wrongly(monkeypatch, spoil)
    check_fails(captured_model(), caplog, "steps write to memory that is not theirs")


def test_a_capture_that_fails_in_the_check_switches_graphs_off(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    working(monkeypatch)
    fail_capture(monkeypatch, 2, RuntimeError, "no capture here")
    check_fails(captured_model(), caplog, "1 captures failed")


def test_a_replay_that_fails_in_the_check_switches_graphs_off(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    working(monkeypatch)

    def fail(graph: RecordedGraph) -> None:
        raise torch.AcceleratorError("CUDA error: invalid argument\nmore lines")

    replay_wrongly(monkeypatch, fail)
    check_fails(captured_model(), caplog, "AcceleratorError: CUDA error: invalid argument")


def test_a_gpu_that_fails_for_good_in_the_check_ends_it_and_the_log_has_the_way_out(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise torch.AcceleratorError("CUDA error: an illegal memory access was encountered")

    monkeypatch.setattr(torch.cuda, "synchronize", fail)
    replay_wrongly(monkeypatch, fail)
    with pytest.raises(torch.AcceleratorError), caplog.at_level(logging.CRITICAL):
        check_graphs(captured_model(), example, [1, 4])
    assert "VERSO_GRAPHS=off" in caplog.text


def slots_of(translator: Translator) -> SlotModel:
    assert isinstance(translator.backend, SlotBackend)
    return translator.backend.slots


def test_after_the_warm_up_ordinary_sentences_need_no_capture(toy_bundle: Path) -> None:
    translator = Translator(load_bundle(toy_bundle), slots=True)
    model = record(slots_of(translator))
    translator.warm_up([1, 4])
    captures = model.graphs.num_captures
    assert model.graphs.are_on and captures > model.graphs.num_kept > 30
    for width, return_scores, number, length in pairwise((1, 4), (False, True), (1, 3, 5, 12, 30), (5, 11, 20, 40)):
        options = DecodingOptions("greedy" if width == 1 else "beam", beam_size=width, return_scores=return_scores)
        cohort = translator.cohort(width)
        cohort.join(
            [
                DecodingRequest(key, item.source_ids, options, item.forced_ids)
                for key in range(number)
                for item in [translator.example_request(length, options)]
            ]
        )
        cohort.step()
        cohort.leave(cohort.keys)
    assert model.graphs.num_captures == captures


def test_the_first_translation_checks_graphs_that_nobody_has_checked(
    toy_bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    translator = Translator(load_bundle(toy_bundle), slots=True)
    model = record(slots_of(translator))

    def spoil(graph: RecordedGraph) -> None:
        for step in model._idle:
            step.tensors.cross_cache.fill_(torch.nan)
        for *_, results in graph.operations:
            if isinstance(results, torch.Tensor) and results.is_floating_point():
                results.fill_(torch.nan)

    replay_wrongly(monkeypatch, spoil)
    assert translator.translate(["cat."], target="de")[0].text == "Katze."
    assert model.graphs.why_off is not None and "the check at the start failed" in model.graphs.why_off
    captures = model.graphs.num_captures
    translator.translate(["cat."], target="de")
    assert model.graphs.num_captures == captures


def test_the_warm_up_ends_when_no_more_graphs_may_be_kept(toy_bundle: Path) -> None:
    translator = Translator(load_bundle(toy_bundle), slots=True)
    model = record(slots_of(translator))
    model.graphs.max_graphs = 6
    for part in translator.warm_up_parts([1, 4]):
        part()
    assert model.graphs.num_kept == model.graphs.num_captures == 6


def test_a_lack_of_memory_frees_the_slots_and_graphs_of_all_models() -> None:
    models = [captured_model(), captured_model()]
    for model in models:
        drive(SlotCohort(model, 1), requests(random_sources(3), GREEDY))
    assert all(model.num_idle_bytes and model.graphs.num_kept for model in models)
    SlotModel.drop_all()
    assert not any(model.num_idle_bytes or model.graphs.num_kept for model in models)
