"""The size of a batch, found with a simulated cohort and clock."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from app.engine.capacity import (
    MIN_ROWS,
    PROBE_S,
    BudgetFinder,
    Probe,
    bytes_per_token,
    synchronised,
)
from model.artifacts.manifest import Manifest
from model.decoding.sentence import DecodingRequest
from tests.app.fakes import SHAPED, FakeTranslator
from tests.waiting import Clock

PLENTY_BYTES = 1 << 40


class TimedCohort:
    """A cohort whose steps take a given time on a simulated clock."""

    def __init__(self, translator: TimedTranslator, width: int) -> None:
        self._translator = translator
        self._width = width
        self._left: dict[int, int] = {}

    @property
    def num_sentences(self) -> int:
        return len(self._left)

    def join(self, requests: Sequence[DecodingRequest]) -> list[Any]:
        length = requests[0].options.longest_answer(0, self._translator.manifest.max_target_tokens)
        joining = {request.key: length - 1 for request in requests}
        assert len(joining) == len(requests) and not joining.keys() & self._left.keys()
        self._left |= joining
        self._translator.sources += [request.source_ids for request in requests]
        self._translator.clock.now += sum(len(request.source_ids) for request in requests) * self._translator.token_s
        return []

    @property
    def keys(self) -> list[int]:
        return list(self._left)

    def leave(self, keys: Sequence[int]) -> None:
        for key in keys:
            del self._left[key]

    def step(self) -> list[Any]:
        rows = self.num_sentences * self._width
        self._translator.sizes.append(rows)
        if rows > self._translator.room:
            raise MemoryError("no room")
        self._translator.clock.now += self._translator.seconds_of(rows)
        self._left = {key: remaining - 1 for key, remaining in self._left.items() if remaining > 1}
        return []


class TimedTranslator(FakeTranslator):
    """A model of a given speed.

    Args:
        clock: Advanced by each step.
        seconds_of: Duration of a step, by its number of rows.
        token_s: Seconds to encode a token.
        room: Number of rows that fit into memory.
        manifest: The manifest of its bundle.
    """

    def __init__(
        self,
        clock: Clock,
        seconds_of: Callable[[int], float],
        token_s: float = 1e-6,
        room: int = 1 << 30,
        manifest: Manifest = SHAPED,
    ) -> None:
        super().__init__(manifest=manifest)
        self.clock = clock
        self.seconds_of = seconds_of
        self.token_s = token_s
        self.room = room
        self.sizes: list[int] = []
        self.widths: list[int] = []
        self.sources: list[list[int]] = []

    def cohort(self, width: int) -> Any:
        self.widths.append(width)
        return TimedCohort(self, width)


def finder(clock: Clock, max_rows: int | None = None, max_tokens: int | None = None, **options: Any) -> BudgetFinder:
    memory = options.pop("memory", PLENTY_BYTES)
    return BudgetFinder(max_rows, max_tokens, options.pop("max_beam_size", 4), clock, lambda device: memory)


def rows_found(seconds_of: Callable[[int], float], **options: Any) -> int:
    clock = Clock()
    return finder(clock).find([TimedTranslator(clock, seconds_of, **options)]).max_rows


def test_a_step_at_the_best_throughput_uses_the_allowed_time() -> None:
    assert rows_found(lambda rows: 0.0001 * rows) == 250
    assert rows_found(lambda rows: 0.001 + 0.0001 * rows) == pytest.approx(250, rel=0.1)


def test_rows_grow_while_throughput_grows() -> None:
    assert rows_found(lambda rows: 0.010 + 0.00001 * rows) == pytest.approx(1700, rel=0.1)
    assert rows_found(lambda rows: 0.001) == 4096, "the largest size that is tried"


def test_a_slow_model_still_decodes_a_few_rows_together() -> None:
    assert rows_found(lambda rows: 1.0) == MIN_ROWS


def test_occasional_load_of_the_machine_does_not_mislead_the_probe() -> None:
    turn = itertools.count()
    assert rows_found(lambda rows: 0.0001 * rows + (0.02 if next(turn) % 3 else 0.0)) == 250


def test_the_probe_ends_in_time() -> None:
    clock = Clock()
    translator = TimedTranslator(clock, lambda rows: 0.0249, token_s=1e-4)
    began = clock.now
    Probe(translator, 1, clock, PROBE_S).run()
    assert clock.now - began < 2 * PROBE_S
    quick = TimedTranslator(clock, lambda rows: 1e-7 * rows, token_s=1e-8)
    began = clock.now
    Probe(quick, 1, clock, PROBE_S).run()
    assert clock.now - began < 0.1


def test_a_model_that_runs_out_of_memory_gets_the_largest_measured_size() -> None:
    assert rows_found(lambda rows: 0.01 if rows < 64 else 0.001, room=40) == 80
    assert rows_found(lambda rows: 0.00001 * rows, room=0) == MIN_ROWS


def test_a_model_with_short_outputs_is_measured_up_to_their_length() -> None:
    clock = Clock()
    translator = TimedTranslator(clock, lambda rows: 0.0001 * rows, manifest=replace(SHAPED, max_target_tokens=6))
    assert finder(clock).find([translator]).max_rows == 250


def test_probe_sentences_have_the_usual_length_or_the_longest_possible() -> None:
    for longest, length in ((200, 24), (10, 10)):
        clock = Clock()
        translator = TimedTranslator(clock, lambda rows: 0.03, manifest=replace(SHAPED, max_source_tokens=longest))
        Probe(translator, 1, clock, PROBE_S).run()
        assert {len(source) for source in translator.sources} == {length}
        assert {(source[0], source[-1]) for source in translator.sources} == {(2, 3)}


def test_the_row_limit_is_that_of_a_call_for_which_new_sentences_wait() -> None:
    clock = Clock()
    translator = TimedTranslator(clock, lambda rows: 4 * 0.0001 * rows)
    backend: Any = SimpleNamespace(graphs=SimpleNamespace(are_on=True), steps_per_call=4)
    translator.backend = backend
    budget = finder(clock).find([translator])
    assert budget.max_rows == 62
    assert budget.token_s == pytest.approx(0.0001)


def test_the_slowest_of_several_models_decides() -> None:
    clock = Clock()
    fast, slow = TimedTranslator(clock, lambda rows: 1e-5 * rows), TimedTranslator(clock, lambda rows: 4e-4 * rows)
    budget = finder(clock).find([fast, slow])
    assert budget.max_rows == 62
    assert budget.token_s == pytest.approx(4e-4)


def test_the_widest_beam_always_fits() -> None:
    clock = Clock()
    assert finder(clock, max_beam_size=48).find([TimedTranslator(clock, lambda rows: 1.0)]).max_rows == 48


def test_configured_limits_hold_and_skip_the_probe() -> None:
    clock = Clock()
    translator = TimedTranslator(clock, lambda rows: 0.001)
    budget = finder(clock, 7, 999).find([translator])
    assert (budget.max_rows, budget.max_tokens, budget.token_s) == (7, 999, 0.0)
    assert translator.sizes == []
    assert finder(clock, None, 50_000).find([translator]).max_tokens == 50_000
    assert translator.sizes


def test_tokens_take_a_quarter_of_free_memory() -> None:
    clock = Clock()
    translator = TimedTranslator(clock, lambda rows: 0.001)
    assert bytes_per_token(SHAPED) == 2 * 2 * 2 * 64 * 4
    assert bytes_per_token(replace(SHAPED, precision="float16")) == bytes_per_token(SHAPED) / 2
    budget = finder(clock, max_rows=10, memory=80_000_000).find([translator])
    # 20 MB, less four times the logits of 10 rows, for a source and a target token of 2 kB each.
    assert budget.max_tokens == (20_000_000 - 4 * 4 * 10 * 1000) // (2 * 2048)
    assert finder(clock, max_rows=10, memory=0).find([translator]).max_tokens == 1024, "it continues with a small batch"


def test_target_tokens_of_a_recurrent_decoder_take_no_memory() -> None:
    clock = Clock()
    translator = TimedTranslator(clock, lambda rows: 0.001)
    translator.manifest = replace(SHAPED, architecture={**SHAPED.architecture, "decoder": "ssru"})
    budget = finder(clock, max_rows=10, memory=80_000_000).find([translator])
    assert budget.max_tokens == (20_000_000 - 4 * 4 * 10 * 1000) // 2048


def test_a_size_that_exceeds_memory_is_not_tried() -> None:
    clock = Clock()
    translator = TimedTranslator(clock, lambda rows: 0.0001)
    longest_answer = min(SHAPED.max_target_tokens, 128)
    finder(clock, memory=4 * 2 * 2048 * longest_answer * 50).find([translator])
    assert max(translator.sizes) == 32


def test_a_model_loaded_later_may_lower_the_tokens_and_is_not_measured() -> None:
    clock = Clock()
    small, large = (
        TimedTranslator(clock, lambda rows: 0.001),
        TimedTranslator(
            clock, lambda rows: 0.1, manifest=replace(SHAPED, architecture={**SHAPED.architecture, "d_model": 640})
        ),
    )
    budgets = finder(clock, memory=1_000_000_000)
    budget = budgets.find([small])
    lowered = budgets.with_model(budget, large)
    assert lowered.max_tokens == pytest.approx(budget.max_tokens / 10, rel=0.2)
    assert lowered.max_rows == budget.max_rows
    assert budgets.with_model(lowered, small) == lowered
    assert large.sizes == []


def test_the_probe_waits_for_the_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    waited: list[str] = []
    monkeypatch.setattr(torch.cuda, "synchronize", waited.append)
    synchronised("cpu")()
    assert waited == []
    synchronised("cuda:1")()
    assert waited == ["cuda:1"]
