"""The model has no memory for a step."""

from __future__ import annotations

import subprocess
import sys
import threading
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch

from app.engine.state import MEMORY_BACK_S, MIN_TOKENS
from app.errors import InferenceFailed
from model.process.memory import is_out_of_memory
from tests.app.engines import GREEDY, FakeEngine, Inbox, counted, engine_of, ids, text_of
from tests.app.fakes import FakeCohort, FakeTranslator, manifest_of
from tests.server import ROOT
from tests.waiting import until

NO_MEMORY = {
    "python": MemoryError("There is no memory for the sentences that decode."),
    "torch": RuntimeError("[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory"),
    "gpu": torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."),
    "cublas": RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
    "gpu, within a call": torch.AcceleratorError("CUDA error: out of memory"),
    "c++": RuntimeError("std::bad_alloc"),
}
OTHERS = [RuntimeError("The native decoder failed."), ValueError("out of memory"), IndexError("A token id")]


def memory_for(monkeypatch: pytest.MonkeyPatch, num_sentences: int, error: Exception) -> None:
    """Steps of more than this many sentences raise an error."""
    step = FakeCohort.step

    def limited(cohort: FakeCohort) -> Any:
        if cohort.num_sentences > num_sentences:
            raise error
        return step(cohort)

    monkeypatch.setattr(FakeCohort, "step", limited)


def max_tokens(engine: FakeEngine) -> float:
    return engine.metrics.registry.get_sample_value("verso_max_batch_tokens") or 0.0


@pytest.mark.parametrize("error", NO_MEMORY.values(), ids=NO_MEMORY)
def test_a_lack_of_memory_is_recognised(error: Exception) -> None:
    assert is_out_of_memory(error)


@pytest.mark.parametrize("error", OTHERS, ids=str)
def test_other_errors_are_no_lack_of_memory(error: Exception) -> None:
    assert not is_out_of_memory(error)


@pytest.mark.parametrize("error", NO_MEMORY.values(), ids=NO_MEMORY)
def test_every_sentence_is_translated_and_less_decodes_at_once(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory_for(monkeypatch, 4, error)
    translator, inbox, later = FakeTranslator(), Inbox(), Inbox()
    texts = [f"sentence number {number}" for number in range(60)]
    with engine_of(translator) as engine:
        full = engine.budget
        engine.ask([ids(text) for text in texts], GREEDY, inbox.deliver)
        outcomes = inbox.take(len(texts))
        assert [text_of(outcomes[index]) for index in range(len(texts))] == texts
        until(lambda: engine.is_idle)
        assert (counted(engine, "finished"), counted(engine, "failed")) == (60, 0)
        assert MIN_TOKENS <= max_tokens(engine) < full.max_tokens
        assert engine.budget == full, "models that are loaded later count from the full budget"
        monkeypatch.undo()
        engine.ask([ids("later")], GREEDY, later.deliver)
        assert text_of(later.take(1)[0]) == "later"


def test_a_budget_that_was_lowered_comes_back_step_by_step(monkeypatch: pytest.MonkeyPatch) -> None:
    now, translator, inbox = [0.0], FakeTranslator(), Inbox()
    with engine_of(translator, clock=lambda: now[0]) as engine:
        full = engine.budget
        memory_for(monkeypatch, 4, MemoryError())
        engine.ask([ids("x" * 50)] * 40, GREEDY, inbox.deliver)
        inbox.take(40)
        until(lambda: engine.is_idle)
        samples = [max_tokens(engine)]
        while samples[-1] != full.max_tokens:
            now[0] += MEMORY_BACK_S - 1
            engine.watch()
            assert max_tokens(engine) == samples[-1], "not yet"
            now[0] += 1
            engine.watch()
            samples.append(max_tokens(engine))
        assert all(after == min(full.max_tokens, 2 * before) for before, after in pairwise(samples))
        now[0] += 10 * MEMORY_BACK_S
        engine.watch()
        assert max_tokens(engine) == full.max_tokens


def test_a_sentence_too_large_for_the_memory_fails_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    memory_for(monkeypatch, 0, MemoryError())
    inbox = Inbox()
    with engine_of(FakeTranslator()) as engine:
        engine.ask([ids("large")], GREEDY, inbox.deliver)
        assert isinstance(inbox.take(1)[0], InferenceFailed)
        monkeypatch.undo()
        engine.ask([ids("next")], GREEDY, inbox.deliver)
        assert text_of(inbox.take(1)[0]) == "next"


@pytest.mark.parametrize("number", [1, 3])
def test_what_is_kept_for_speed_is_freed_and_the_sentences_are_tried_again(
    number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    inbox = Inbox()
    freed: list[str] = []
    memory_for(monkeypatch, 0, torch.OutOfMemoryError("CUDA out of memory."))

    def free_memory(translator: FakeTranslator) -> None:
        freed.append(threading.current_thread().name)
        monkeypatch.undo()

    monkeypatch.setattr(FakeTranslator, "free_memory", free_memory)
    with engine_of(FakeTranslator()) as engine:
        engine.ask([ids(f"text {key}") for key in range(number)], GREEDY, inbox.deliver)
        assert sorted(map(text_of, inbox.take(number).values())) == [f"text {key}" for key in range(number)]
    assert freed == ["verso-engine"]


@pytest.mark.parametrize("name", ["join", "step"])
def test_every_call_of_a_cohort_may_lack_memory_in_turn(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    call, num_calls, failing = getattr(FakeCohort, name), 0, 0
    texts = ["one", "three", "a longer one"]

    def lacking(cohort: FakeCohort, *arguments: Any) -> Any:
        nonlocal num_calls
        num_calls += 1
        if num_calls == failing:
            raise MemoryError
        return call(cohort, *arguments)

    monkeypatch.setattr(FakeCohort, name, lacking)
    while failing <= num_calls:  # the last time, no call fails
        num_calls, failing, inbox = 0, failing + 1, Inbox()
        with engine_of(FakeTranslator()) as engine:
            engine.ask([ids(text) for text in texts], GREEDY, inbox.deliver)
            outcomes = inbox.take(len(texts))
            assert [text_of(outcomes[index]) for index in range(len(texts))] == texts, failing
            until(lambda engine=engine: engine.is_idle)  # type: ignore[misc]
            assert (counted(engine, "finished"), counted(engine, "failed")) == (3, 0), failing
            assert inbox.is_empty
    assert failing > 1


def test_other_cohorts_are_not_affected(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = FakeTranslator(), FakeTranslator(manifest=manifest_of("second", "fr-en"))
    second.step_gate.clear()
    inbox, other = Inbox(), Inbox()
    with engine_of(first) as engine:
        engine.ask([ids("unaffected"), ids("too")], GREEDY, other.deliver, second)
        until(second.stepping.is_set)
        memory_for(monkeypatch, 2, MemoryError())
        engine.ask([ids("one"), ids("two"), ids("three")], GREEDY, inbox.deliver)
        second.step_gate.set()
        assert sorted(map(text_of, other.take(2).values())) == ["too", "unaffected"]
        assert [text_of(item) for _, item in sorted(inbox.take(3).items())] == ["one", "two", "three"]
    assert second.log.joins == [2], "it is decoded once"


def test_cohorts_that_cannot_be_made_together_are_made_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    translator, failures = FakeTranslator(), iter([True])

    def cohort(width: int) -> Any:
        if next(failures, False):
            raise MemoryError
        return FakeCohort(width, translator)

    monkeypatch.setattr(translator, "cohort", cohort)
    inbox = Inbox()
    with engine_of(translator) as engine:
        engine.ask([ids("one"), ids("two")], GREEDY, inbox.deliver)
        assert [text_of(sentence) for _, sentence in sorted(inbox.take(2).items())] == ["one", "two"]


# A real one: the process may take no more address space than it has, and a little.
CHILD = """
import os, resource, sys, threading, time
import torch
from app.engine.engine import Engine
from app.engine.joining import Budget
from app.engine.scheduler import Scheduler
from app.telemetry.metrics import Metrics
from model.translation.options import TranslationOptions
from model.decoding.sentence import DecodingRequest
from model.process.allocator import trim
from model.translator import Translator

bundle, native, spare_mb, num_sentences, beam_size = sys.argv[1], sys.argv[2] == "native", *map(int, sys.argv[3:])
translator = Translator.load(bundle, num_threads=1, native=native)
plan = translator.prepare("cat sees dog.", *translator.manifest.directions.pairs[0])
options = TranslationOptions(beam_size=beam_size, min_new_tokens=40, max_new_tokens=40)
request = DecodingRequest(0, list(plan.sentences[0].token_ids), options, plan.forced_ids)
metrics = Metrics()
engine = Engine(Scheduler(Budget(10**8, 10**6), 10**6, time.monotonic), metrics)
engine.start()

def ask(number, spare=resource.RLIM_INFINITY):
    found, done, submitted = [], threading.Semaphore(0), threading.Event()
    engine.call(submitted.wait, lambda outcome: None)
    engine.submit([(translator, request)] * number, lambda index, outcome: (found.append(outcome), done.release()))
    if spare != resource.RLIM_INFINITY:
        trim()  # what is free already would be used first
        with open("/proc/self/statm") as file:
            spare += int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (spare, resource.RLIM_INFINITY))
    submitted.set()
    for _ in range(number):
        assert done.acquire(timeout=100)
    resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    return found

def max_tokens():
    return metrics.registry.get_sample_value("verso_max_batch_tokens")

(wanted,) = ask(1)
found = []
while not max_tokens() and num_sentences < 20_000:  # until there is too little memory for so many
    num_sentences *= 2
    found = ask(num_sentences, spare_mb * 1_000_000)
(after,) = ask(1)
print(translator.backend.name, len(found) == num_sentences, all(one == wanted for one in found), after == wanted,
      0 < max_tokens() < 10**8)
sys.stdout.flush()
os._exit(0)
"""


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("backend", "spare_mb", "num_sentences", "beam_size"),
    [
        pytest.param("native", 1, 500, 4, marks=pytest.mark.faults),
        pytest.param("eager", 1, 25, 4, marks=pytest.mark.slow),
    ],
)
def test_a_process_without_memory_answers_everything_and_lives(
    backend: str, spare_mb: int, num_sentences: int, beam_size: int, toy_bundle: Path
) -> None:
    arguments = [toy_bundle, backend, spare_mb, num_sentences, beam_size]
    child = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", CHILD, *map(str, arguments)],
        cwd=ROOT, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert child.returncode == 0, child.stderr
    name, *output = child.stdout.split()
    if name != backend:
        pytest.skip("the compiled decoder is not available here")
    assert output == ["True"] * 4, child.stderr
