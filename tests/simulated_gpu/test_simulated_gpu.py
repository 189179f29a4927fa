"""The simulated GPU has the rules that a real one has, and reports what breaks them."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from model.artifacts.script import script
from tests.model.tiny import tiny_transformer
from tests.simulated_gpu.device import Device

pytestmark = [pytest.mark.usefixtures("simulated_gpu"), pytest.mark.filterwarnings("ignore::FutureWarning")]


def take_faults(device: Device) -> set[str]:
    """The faults so far, which the test expects."""
    faults, device.faults = set(device.faults), []
    return faults


def captured(function: Callable[[], object], stream: torch.cuda.Stream | None = None) -> torch.cuda.CUDAGraph:
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
        function()
    return graph


def multiplied(stream: torch.cuda.Stream | None = None) -> tuple[torch.cuda.CUDAGraph, Tensor]:
    """The graph of a product, and its result. The factors stay in memory as long as the process."""
    factor, result = torch.ones(3, 3, device="cuda"), torch.zeros(3, 3, device="cuda")
    KEPT.extend((factor, result))
    return captured(lambda: result.copy_(factor @ factor), stream), result


KEPT: list[Tensor] = []


@pytest.fixture(autouse=True)
def _nothing_kept() -> None:
    KEPT.clear()


def test_tensors_are_on_cuda_and_have_the_values_of_the_cpu() -> None:
    tensor = torch.arange(6, device="cuda").view(2, 3)
    tensor[0] += torch.tensor([10, 20, 30], device="cuda")
    assert tensor.device == torch.device("cuda", 0)
    assert tensor.tolist() == [[10, 21, 32], [3, 4, 5]]
    assert torch.where(tensor > 4, tensor, 0).sum().item() == 10 + 21 + 32 + 5
    assert tensor[range(2), [2, 0]].tolist() == [32, 3]


def test_a_scripted_model_computes_what_it_computes_on_the_cpu() -> None:
    scripted, tokens = script(tiny_transformer(), "float32"), torch.tensor([[3, 4, 2]])
    with torch.inference_mode():
        expected = scripted.encode(tokens)
        actual = scripted.to("cuda").encode(tokens.to("cuda"))
    assert actual.device.type == "cuda"
    assert torch.equal(actual.cpu(), expected)


def test_a_capture_computes_nothing_and_a_replay_does() -> None:
    total = torch.zeros(2, device="cuda")
    graph = captured(lambda: total.add_(torch.ones(2, device="cuda") * 2))
    assert total.tolist() == [0.0, 0.0]
    graph.replay()
    graph.replay()
    assert total.tolist() == [4.0, 4.0]


@pytest.mark.parametrize(
    "wait",
    [
        lambda tensor: tensor.sum().item(),
        lambda tensor: tensor.to("cpu"),
        lambda tensor: tensor.nonzero(),
        lambda tensor: tensor[tensor > 0],
        lambda tensor: tensor.copy_(torch.ones(2)),
        lambda tensor: torch.cuda.synchronize(),
        lambda tensor: torch.cuda.current_stream().synchronize(),
    ],
    ids=["item", "to", "nonzero", "booleans", "copy", "device", "stream"],
)
def test_a_capture_ends_with_an_error_if_the_host_waits(wait: Callable[[Tensor], object]) -> None:
    tensor = torch.ones(2, device="cuda")
    with pytest.raises(torch.AcceleratorError, match="previous error during capture"):
        captured(lambda: wait(tensor))
    # torch does not leave the stream of a capture that fails.
    torch.cuda.set_stream(torch.cuda.default_stream())


def test_a_copy_on_the_host_is_complete_once_its_event_was_waited_for() -> None:
    copy = torch.ones(2, device="cuda").to("cpu", non_blocking=True)
    assert copy.tolist() != [1.0, 1.0]
    event = torch.cuda.Event()
    event.record()
    event.synchronize()
    assert copy.tolist() == [1.0, 1.0]


def test_waiting_for_the_device_breaks_the_capture_of_another_thread() -> None:
    errors = []

    def wait() -> None:
        try:
            torch.cuda.synchronize()
        except torch.AcceleratorError as error:
            errors.append(error)

    def run_it() -> None:
        thread = threading.Thread(target=wait)
        thread.start()
        thread.join()

    with pytest.raises(torch.AcceleratorError, match="previous error"):
        captured(run_it)
    assert len(errors) == 1


def test_destroying_a_graph_frees_the_workspace_of_all_graphs_of_its_stream(simulated_gpu: Device) -> None:
    (first, _), (second, result) = multiplied(), multiplied()
    other, _ = multiplied(torch.cuda.Stream())
    second.replay()
    assert result.tolist() == [[3.0] * 3] * 3
    del first
    other.replay()
    torch.cuda.synchronize()
    assert not simulated_gpu.faults
    with pytest.raises(torch.AcceleratorError, match="illegal memory access"):
        second.replay()
    assert take_faults(simulated_gpu) == {"a graph uses memory that was freed after its capture"}
    with pytest.raises(torch.AcceleratorError, match="illegal memory access"):
        torch.zeros(2, device="cuda")  # whatever it is


def test_a_graph_of_tensors_that_are_gone_is_reported(simulated_gpu: Device) -> None:
    tensor = torch.zeros(2, device="cuda")
    graph = captured(tensor[1:].fill_(1).zero_)
    graph.replay()
    del tensor
    with pytest.raises(torch.AcceleratorError):
        graph.replay()
    assert take_faults(simulated_gpu) == {"a graph uses memory that was freed after its capture"}


def test_graphs_with_one_workspace_may_not_run_beside_each_other(simulated_gpu: Device) -> None:
    (first, _), (second, _) = multiplied(), multiplied()
    item, other = torch.cuda.Stream(), torch.cuda.Stream()
    for stream in (item, other):
        stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(item):
        first.replay()
    with torch.cuda.stream(other):
        second.replay()
    assert take_faults(simulated_gpu) == {f"a race: stream {other.cuda_stream} writes what another stream writes"}
    other.wait_stream(item)
    with torch.cuda.stream(other):
        second.replay()
    assert not simulated_gpu.faults


def test_streams_must_wait_for_one_another(simulated_gpu: Device) -> None:
    tensor, stream = torch.zeros(2, device="cuda"), torch.cuda.Stream()
    with torch.cuda.stream(stream):
        tensor.add_(1)
    assert len(take_faults(simulated_gpu)) == 1
    torch.cuda.current_stream().wait_stream(stream)
    tensor.add_(1)
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        tensor.add_(1)
        event = torch.cuda.current_stream().record_event()
    event.wait()
    del tensor


def test_memory_of_another_stream_must_be_recorded_before_it_is_freed(simulated_gpu: Device) -> None:
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        first, second = torch.zeros(2, device="cuda"), torch.zeros(2, device="cuda")
    torch.cuda.current_stream().wait_stream(stream)
    for tensor in (first, second):
        tensor.add_(1)
    first.record_stream(torch.cuda.current_stream())
    del first, tensor
    assert not simulated_gpu.faults
    del second
    assert len(take_faults(simulated_gpu)) == 1


def test_a_capture_without_memory_ends_with_another_error(simulated_gpu: Device) -> None:
    simulated_gpu.fraction = 2**20 / simulated_gpu.total_bytes
    with pytest.raises(torch.AcceleratorError, match="previous error during capture") as caught:
        captured(lambda: torch.zeros(2**20, device="cuda"))
    assert isinstance(caught.value.__context__, torch.OutOfMemoryError)
