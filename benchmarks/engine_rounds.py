"""The rounds in which :mod:`benchmarks.engines` measures all engines with one shape."""

from __future__ import annotations

import os
import random
import statistics
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.checkpoints import SHAPES, SHIPPED, make_sources
from benchmarks.contenders import BACKENDS, VERSO_PRECISIONS, Backend, Job, Result, Row, engine_runner, rows_for
from benchmarks.instruction_sets import INSTRUCTION_SETS, UNLIMITED, fastest_set
from benchmarks.peaks import peak_meter
from benchmarks.processes import Turns, Worker, describe_machine, processor_flags, started
from benchmarks.rivals import RIVALS
from benchmarks.shipped import make_shipped_sources
from benchmarks.tables import rounded
from benchmarks.targets import MEASURES

LATENCY_TOKENS = 20
"""Tokens of the single sentence, including the end token."""

SOURCE_TOKENS = (5, 40)
"""Minimal and maximal tokens of the many sentences, including the end token."""

RANDOM_ANSWER_TOKENS = (20, 20)
"""Minimal and maximal tokens of every output of random weights."""

SHIPPED_ANSWER_TOKENS = (0, 60)
"""Those of the shipped translator."""

BEAM_SIZES = {"greedy": 1, "beam_4": 4}

BATCH_SIZES = (16, 32, 64, 128)
"""Candidates for the best batch size of CTranslate2 and of optional rivals."""

SEARCH_SENTENCES = 256
"""Sentences of that search: two workers get one batch of the largest size each."""

TRANSFORMERS_BATCH = 32

WARM_UP_SENTENCES = 128
"""Sentences of the warm-up round."""

SAME_ANSWERS = 0.9
"""Minimal share of outputs of a float32 engine that equal Verso's; ties may differ."""


@dataclass(frozen=True)
class Plan:
    """The extent of the measurement.

    Args:
        num_rounds: Number of rounds after the warm-up.
        num_sentences: Number of sentences for throughput.
        num_threads: Threads of each engine.
        latency_repeats: Repetitions of the single sentence in a round.
        batch_sizes: Candidates for the best batch size of CTranslate2 and of optional rivals.
        pause_s: Pause between two engines, in seconds.
        patience: Maximal repetitions of a disturbed turn.
        torch_too: Whether Verso is also measured without its compiled decoder.
        rivals: Optional rivals to measure, by their names in ``RIVALS``.
        backends: CTranslate2's libraries of products, if engines are limited to an instruction set.
        test_sets: Test sets for BLEU of the shipped translator, without language ending.
        test_limit: Number of sentences used of each test set, from the first; None for all.
    """

    num_rounds: int
    num_sentences: int
    num_threads: int
    latency_repeats: int = 9
    batch_sizes: tuple[int, ...] = BATCH_SIZES
    pause_s: float = 0.3  # OpenMP's threads keep a core busy for up to 0.2 s after their last work
    patience: int = 2
    torch_too: bool = False
    rivals: tuple[str, ...] = ()
    backends: tuple[Backend, ...] = BACKENDS
    test_sets: tuple[Path, ...] = ()
    test_limit: int | None = None

    def rows(self, name: str, instruction_set: str | None = None) -> list[Row]:
        """The rows of the table for a shape.

        Args:
            name: Name of the shape.
            instruction_set: The set that all engines are limited to; None for no limit.
        """
        return rows_for(
            self.num_threads,
            torch_too=self.torch_too,
            with_transformers=name != SHIPPED,
            rivals=[RIVALS[rival].library for rival in self.rivals],
            instruction_set=instruction_set,
            backends=self.backends,
        )

    def num_turns(self, name: str, instruction_set: str | None = None) -> int:
        """The number of turns for a shape: batch sizes, the warm-up and the rounds, each with the matrix peak."""
        rows = len(self.rows(name, instruction_set))
        return rows + (rows + 1) * (1 + self.num_rounds)


class Measurement:
    """Measures all engines with one shape.

    Args:
        name: Name of the shape.
        plan: The extent of the measurement.
        folder: Folder of the models.
        advance: Called after each engine's turn with a description.
        instruction_set: The set that all engines are limited to; None for no limit.
    """

    def __init__(
        self,
        name: str,
        plan: Plan,
        folder: Path,
        advance: Callable[[str], None],
        instruction_set: str | None = None,
    ) -> None:
        self._plan = plan
        self._instruction_set = instruction_set
        self._shape = SHAPES[name]
        self._folder = folder
        self._advance = advance
        self._rows = plan.rows(name, instruction_set)
        if name == SHIPPED:
            self._answer_tokens = SHIPPED_ANSWER_TOKENS
            self._sentence = make_shipped_sources(1, LATENCY_TOKENS, LATENCY_TOKENS, seed=1)
            self._sentences = make_shipped_sources(plan.num_sentences, *SOURCE_TOKENS, seed=0)
        else:
            self._answer_tokens = RANDOM_ANSWER_TOKENS
            vocab_size = self._shape.vocab_size
            self._sentence = make_sources(1, vocab_size, LATENCY_TOKENS, LATENCY_TOKENS, seed=1)
            self._sentences = make_sources(plan.num_sentences, vocab_size, *SOURCE_TOKENS)
        self._batch_sizes: dict[str, dict[str, int]] = {row.name: {} for row in self._rows}
        self._answers: dict[str, dict[str, list[list[int]]]] = {row.name: {} for row in self._rows}
        self._lone_tokens: dict[str, dict[str, int]] = {row.name: {} for row in self._rows}
        self._rounds: dict[str, dict[str, list[float]]] = {
            row.name: {measure: [] for measure in MEASURES} for row in self._rows
        }
        self._peaks: dict[str, list[float]] = {precision: [] for precision in VERSO_PRECISIONS}
        self._memory: dict[str, float] = {}
        self._turns = Turns(plan.patience, plan.pause_s)

    def run(self) -> dict[str, Any]:
        """Measure everything; returns the figures, ready for JSON."""
        rng = random.Random(0)
        for row in self._rows:
            self._find_batch_sizes(row)
            self._advance("batch sizes")
        with ExitStack() as stack:
            workers = {row.name: stack.enter_context(self._worker(row)) for row in self._rows}
            limits = self._rows[0].variables
            peaks = stack.enter_context(
                started("the matrix peak", peak_meter, self._plan.num_threads, variables=limits)
            )
            for worker in [*workers.values(), peaks]:
                worker.wait_until_loaded()
            for number in range(1 + self._plan.num_rounds):
                turns = [*self._rows, None]
                rng.shuffle(turns)
                for turn in turns:
                    self._turn(turn, workers[turn.name] if turn else peaks, counts=number > 0)
                    self._advance(f"round {number}" if number else "warm-up")
                self._check_answers()
        return self._figures()

    def _worker(self, row: Row) -> AbstractContextManager[Worker]:
        return started(row.name, engine_runner, row, self._folder, variables=row.variables)

    def _job(self, sources: list[list[int]], beam_size: int, batch_size: int) -> Job:
        return Job(sources, beam_size, batch_size, *self._answer_tokens)

    def _find_batch_sizes(self, row: Row) -> None:
        """Find an engine's best batch sizes, in a separate process; Verso and transformers need no search."""
        self._batch_sizes[row.name] = dict.fromkeys(BEAM_SIZES, TRANSFORMERS_BATCH)
        if not row.has_batch_size or len(self._plan.batch_sizes) < 2:
            return
        sources = self._sentences[:SEARCH_SENTENCES]
        with self._worker(row) as worker:
            for way, beam_size in BEAM_SIZES.items():
                worker.run(self._job(sources[:WARM_UP_SENTENCES], beam_size, WARM_UP_SENTENCES))
                seconds = {
                    batch_size: worker.run(self._job(sources, beam_size, batch_size)).seconds[0]
                    for batch_size in self._plan.batch_sizes
                }
                self._batch_sizes[row.name][way] = min(seconds, key=lambda batch_size: seconds[batch_size])

    def _turn(self, row: Row | None, worker: Worker, *, counts: bool) -> None:
        """The turn of an engine, or of the matrix peak if None; repeated if it was disturbed."""

        def turn() -> dict[str, float]:
            if row is not None:
                return self._measure(row, worker, counts=counts)
            peaks: dict[str, float] = worker.run("all")
            return peaks

        values = self._turns.run(turn, [os.getpid(), worker.pid], counts=counts)
        if counts:
            for name, value in values.items():
                (self._peaks if row is None else self._rounds[row.name])[name].append(value)

    def _measure(self, row: Row, worker: Worker, *, counts: bool) -> dict[str, float]:
        sentences = self._sentences if counts else self._sentences[:WARM_UP_SENTENCES]
        values: dict[str, float] = {}
        for way, beam_size in BEAM_SIZES.items():
            batch_size = self._batch_sizes[row.name][way]
            alone = replace(self._job(self._sentence, beam_size, batch_size), repeats=self._plan.latency_repeats)
            lone: Result = worker.run(alone)
            many: Result = worker.run(self._job(sentences, beam_size, batch_size))
            _check_lengths(row.name, [*lone.answers, *many.answers], *self._answer_tokens)
            values[f"latency_{way}_ms"] = 1000 * statistics.median(lone.seconds)
            values[f"{way}_tokens_per_s"] = sum(map(len, many.answers)) / many.seconds[0]
            self._answers[row.name][way] = many.answers
            self._lone_tokens[row.name][way] = sum(map(len, lone.answers))
            self._memory[row.name] = many.peak_bytes / 1e6
        return values

    def _figures(self) -> dict[str, Any]:
        peaks = {precision: statistics.median(values) for precision, values in self._peaks.items()}
        num_source_tokens = sum(map(len, self._sentences))
        engines: dict[str, Any] = {}
        for row in self._rows:
            medians = {measure: statistics.median(values) for measure, values in self._rounds[row.name].items()}
            num_target_tokens = {way: sum(map(len, answers)) for way, answers in self._answers[row.name].items()}
            shares = self._shares_of_peak(row, medians, num_target_tokens, peaks[row.precision])
            engines[row.name] = {
                **{measure: rounded(value) for measure, value in medians.items()},
                **shares,
                "peak_memory_mb": round(self._memory[row.name], 1),
                "target_tokens": num_target_tokens,
                "same_answers_as_verso_float32": self._num_same_answers(row),
                **({} if row.library == "Verso" else {"batch_size": self._batch_sizes[row.name]}),
                "rounds": {
                    measure: [rounded(value) for value in values] for measure, values in self._rounds[row.name].items()
                },
            }
        fastest = fastest_set(processor_flags())
        instruction_set = self._instruction_set or fastest
        packages = [package for rival in self._plan.rivals for package in RIVALS[rival].packages]
        return {
            "shape": asdict(self._shape),
            "instruction_set": instruction_set,
            "not_limited": list(UNLIMITED) if instruction_set != fastest else [],
            "limits": INSTRUCTION_SETS[instruction_set].environment if self._instruction_set else {},
            "multiply_adds": {
                "source_token": self._shape.source_multiply_adds,
                "target_token": self._shape.target_multiply_adds,
            },
            "machine": describe_machine(self._plan.num_threads, packages),
            "num_rounds": self._plan.num_rounds,
            "sentences": len(self._sentences),
            "source_tokens": num_source_tokens,
            "answer_tokens": self._answer_tokens,
            "peaks_gops": {precision: round(value, 1) for precision, value in peaks.items()},
            "other_programs": self._turns.figures(),
            "engines": engines,
            "verso_is_faster_by": self._ratios(),
        }

    def _num_same_answers(self, row: Row) -> dict[str, int]:
        """How many of its last answers are those of Verso in float32, greedy and with a beam."""
        verso = self._answers[self._rows[0].name]
        return {
            way: sum(answer == exact for answer, exact in zip(answers, verso[way], strict=True))
            for way, answers in self._answers[row.name].items()
        }

    def _check_answers(self) -> None:
        """End with an error unless all engines that must give Verso's answers do, but for ties."""
        for row in self._rows:
            same = self._num_same_answers(row)
            expected = {way: SAME_ANSWERS * len(answers) for way, answers in self._answers[row.name].items()}
            if row.must_agree and any(same[way] < expected[way] for way in same):
                raise SystemExit(f"{row.name} answers otherwise than Verso float32: the weights are not the same")

    def _shares_of_peak(
        self, row: Row, medians: dict[str, float], num_target_tokens: dict[str, int], peak: float
    ) -> dict[str, float]:
        """The shares of the peak, in giga-operations per second, that the measures of a row amount to."""
        shares = {}
        num_source_tokens = sum(map(len, self._sentences))
        for way, beam_size in BEAM_SIZES.items():
            alone = self._lone_tokens[row.name][way]
            for key, sources, targets, seconds in (
                (
                    f"latency_{way}_share_of_peak",
                    len(self._sentence[0]),
                    alone,
                    medians[f"latency_{way}_ms"] / 1000,
                ),
                (
                    f"{way}_share_of_peak",
                    num_source_tokens,
                    num_target_tokens[way],
                    num_target_tokens[way] / medians[f"{way}_tokens_per_s"],
                ),
            ):
                operations = 2 * (
                    sources * self._shape.source_multiply_adds + targets * beam_size * self._shape.target_multiply_adds
                )
                shares[key] = round(operations / seconds / 1e9 / peak, 3)
        return shares

    def _ratios(self) -> dict[str, dict[str, dict[str, float]]]:
        """The speed-up of Verso by its precision, the other engine and the measure; below 1 Verso is slower."""
        ratios: dict[str, dict[str, dict[str, float]]] = {}
        for row in self._rows:
            if row.library != "Verso" or not row.native:
                continue
            ratios[row.name] = {
                rival.name: {
                    measure: rounded(
                        statistics.median(
                            rival_value / value if measure.startswith("latency") else value / rival_value
                            for value, rival_value in zip(
                                self._rounds[row.name][measure], self._rounds[rival.name][measure], strict=True
                            )
                        )
                    )
                    for measure in MEASURES
                }
                for rival in self._rows
                if rival != row
            }
        return ratios


def _check_lengths(name: str, answers: Sequence[Sequence[int]], fewest: int, most: int) -> None:
    wrong = sorted(length for length in {len(answer) for answer in answers} if not fewest <= length <= most)
    if wrong:
        raise SystemExit(f"{name} gave answers of {wrong} tokens, not {fewest} to {most}")
