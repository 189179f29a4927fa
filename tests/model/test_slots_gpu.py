"""Slots on a GPU: graphs give the outputs of plain launches, and launching does not synchronise."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from model.artifacts.bundle import load_bundle
from model.artifacts.script import script
from model.decoding.options import DecodingOptions
from model.decoding.slots.cohort import SlotCohort
from model.decoding.slots.model import SlotModel
from model.decoding.slots.step import has_slot_step
from tests.model.searches import PREFIXES
from tests.model.slots import (
    BEAM,
    GREEDY,
    all_same,
    drive,
    drive_at_random,
    plain_cohort,
    ranked,
    requests,
    same,
    slot_model,
    some_searches,
    step_of,
)
from tests.model.tiny import random_sources, tiny_transformer
from tests.simulated_gpu.device import Device

pytestmark = pytest.mark.thorough

ROOT = Path(__file__).resolve().parents[2]

ROOM_BYTES = 64 * 2**20
"""What other processes may take of a GPU meanwhile, and the driver."""

OPTIONS = {
    "greedy": GREEDY,
    "greedy, guarded": replace(GREEDY, no_repeat_ngram_size=2),
    "hf": BEAM,
    "ct2": replace(BEAM, scoring="ct2", length_penalty=0.0, num_hypotheses=1),
    "marian, guarded": replace(BEAM, scoring="marian", no_repeat_ngram_size=2),
    "wu, beam of 6": replace(BEAM, scoring="wu", beam_size=6),
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "required_ids",
    [
        pytest.param([()], id="nothing required", marks=pytest.mark.slow),
        pytest.param([(), (9,), (11, 8, 10)], id="required tokens"),
    ],
)
@pytest.mark.parametrize("name", OPTIONS)
def test_captured_steps_give_the_outputs_of_the_cpu(
    name: str, required_ids: list[tuple[int, ...]], gpu: Device | None
) -> None:
    options = OPTIONS[name]
    on_cpu = tiny_transformer()
    number, seeds = (60, range(3)) if gpu is None else (14, range(1))
    inputs = some_searches(requests(random_sources(number), options, required_ids=required_ids, prefix_ids=PREFIXES))
    expected = drive(plain_cohort(on_cpu, options.width), inputs)
    model = slot_model(tiny_transformer().to("cuda"), device="cuda", steps_per_call=4)
    for seed in seeds:
        outcomes, remaining = drive_at_random(SlotCohort(model, options.width), inputs, seed, most=9)
        assert outcomes.keys() | remaining == expected.keys()
        for key, outcome in outcomes.items():
            same(outcome, expected[key])


@pytest.mark.usefixtures("gpu")
@pytest.mark.parametrize(
    "precision",
    [
        "float16",
        pytest.param("float32", marks=pytest.mark.slow),
        pytest.param("bfloat16", marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("options", [GREEDY, BEAM], ids=["greedy", "beam"])
def test_a_scripted_model_gives_equal_outputs_with_and_without_graphs(options: DecodingOptions, precision: Any) -> None:
    scripted = script(tiny_transformer(), precision).to("cuda")
    inputs = requests(random_sources(40), options)
    launched = drive(SlotCohort(slot_model(scripted, device="cuda", graphs=False), options.width), inputs)
    captured = drive(SlotCohort(slot_model(scripted, device="cuda"), options.width), inputs)
    if precision == "float32":
        all_same(captured, launched)
        return
    # A captured product may use another kernel, which rounds differently.
    alike = [key for key in launched if ranked(captured[key])[0].token_ids == ranked(launched[key])[0].token_ids]
    assert len(alike) >= 36


@contextmanager
def no_waiting() -> Iterator[None]:
    """Makes every synchronisation of host and GPU an error, except events."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch says that this is a prototype
        torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.usefixtures("gpu")
@pytest.mark.parametrize("options", [GREEDY, BEAM], ids=["greedy", "beam"])
def test_neither_joining_nor_stepping_synchronises_with_the_host(options: DecodingOptions) -> None:
    module = script(tiny_transformer(), "float16").to("cuda")
    model = slot_model(module, device="cuda", steps_per_call=4)
    inputs = requests(random_sources(12), replace(options, min_new_tokens=12))
    for some in (inputs[:8], inputs[7:8]):  # captures, and lets TorchScript optimise the encoder
        drive(SlotCohort(model, options.width), some)
    group = SlotCohort(model, options.width)
    with no_waiting():
        group.join(inputs[:7])
        group.step()
        group.step()
        group.join(inputs[7:8])
        group.leave({0})
        group.step()


@pytest.mark.usefixtures("gpu")
def test_a_step_without_a_graph_does_not_synchronise_with_the_host() -> None:
    model = slot_model(tiny_transformer().to("cuda"), device="cuda", graphs=False)
    group = SlotCohort(model, 4)
    group.join(requests(random_sources(5), BEAM))
    with model.running(), no_waiting():
        step_of(group).run(full=True)
    torch.cuda.synchronize()  # before the memory of the model is freed


def test_memory_does_not_grow_over_many_sentences(gpu: Device | None) -> None:
    module = script(tiny_transformer(), "float16").to("cuda")
    model = slot_model(module, device="cuda", steps_per_call=4)
    number, rounds = (60, 100) if gpu is None else (12, 2)
    inputs = requests(random_sources(number), BEAM)

    def held() -> tuple[int, int]:
        """Bytes of tensors, and bytes that are not free: those of graphs are in no other figure."""
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        free_bytes, total_bytes = torch.cuda.mem_get_info()
        return torch.cuda.memory_allocated(), total_bytes - free_bytes

    drive_at_random(SlotCohort(model, 4), inputs, seed=0, most=9)
    before = held()
    for _ in range(rounds):
        drive_at_random(SlotCohort(model, 4), inputs, seed=0, most=9)
    after = held()
    assert after[0] <= before[0]
    assert after[1] <= before[1] + ROOM_BYTES


@pytest.mark.usefixtures("gpu")
def test_deleted_slots_free_their_memory() -> None:
    model = slot_model(tiny_transformer().to("cuda"), device="cuda", idle_bytes=0)
    inputs = requests(random_sources(20), BEAM)
    drive(SlotCohort(model, 4), inputs)
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    for _ in range(5):
        drive(SlotCohort(model, 4), inputs)
    torch.cuda.synchronize()
    assert torch.cuda.memory_allocated() <= before


@pytest.mark.usefixtures("gpu")
def test_a_bundle_decodes_in_slots_on_a_gpu(toy_bundle: Path) -> None:
    bundle = load_bundle(toy_bundle, "cuda")
    assert has_slot_step(bundle.module)
    model = SlotModel(bundle.module, bundle.tokenizer, 64, bundle.device, bundle.manifest.policy)
    words = ("the red cat sees the old tree", "the dog likes the house")
    inputs = requests([bundle.tokenizer.encode(text, "de", "en") for text in words], BEAM)
    on_cpu = load_bundle(toy_bundle)
    assert has_slot_step(on_cpu.module)
    reference = SlotModel(on_cpu.module, on_cpu.tokenizer, 64, on_cpu.device, on_cpu.manifest.policy)
    all_same(drive(SlotCohort(model, 4), inputs), drive(SlotCohort(reference, 4), inputs), tolerance=1e-3)


def run_benchmark(device: str, figures: Path) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.gpu", "--device", device, "--shape", "toy", "--rounds", "1"]
    sizes = ["--sentences", "8", "--batch-sizes", "4", "--json", str(figures)]
    process = subprocess.run([*command, *sizes], cwd=ROOT, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr
    measured: dict[str, Any] = json.loads(figures.read_text(encoding="utf-8"))["shapes"]["toy"]
    return measured


@pytest.mark.parametrize(
    "device", [pytest.param("cpu", marks=pytest.mark.slow), pytest.param("cuda", marks=pytest.mark.gpu)]
)
def test_the_benchmark_measures_every_decoding_mode(device: str, tmp_path: Path) -> None:
    measured = run_benchmark(device, tmp_path / "figures.json")
    ways = {"Verso, graphs", "Verso, slots", "Verso, cohort", "transformers"}
    assert measured["one_sentence_ms"].keys() == ways
    assert all(ms > 0 for ms in measured["one_sentence_ms"].values())
    assert [line["beam_size"] for line in measured["crowd"]] == [1, 4]
    assert all(line["times_the_floor"] > 0 for line in measured["crowd"])
