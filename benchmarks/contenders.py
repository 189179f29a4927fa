"""The engines that are compared, behind one interface, each in its own process.

A library that is compared with Verso has a module in :mod:`benchmarks.rivals`, imported only in its own process.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, Protocol, get_args

from benchmarks.instruction_sets import INSTRUCTION_SETS
from benchmarks.processes import peak_memory_bytes

# Libraries are imported where they are used: worker processes import this file, and each must contain only its own.

Library = Literal["Verso", "CTranslate2", "transformers", "ONNX Runtime", "OpenVINO", "Marian"]

Precision = Literal["float32", "bfloat16", "int8"]

Backend = Literal["oneDNN", "MKL"]

BACKENDS: tuple[Backend, ...] = get_args(Backend)

MODULES: dict[str, str] = {
    "CTranslate2": "benchmarks.rivals.ctranslate2",
    "transformers": "benchmarks.rivals.transformers",
    "ONNX Runtime": "benchmarks.rivals.onnx_runtime",
    "OpenVINO": "benchmarks.rivals.open_vino",
    "Marian": "benchmarks.rivals.marian",
}
"""The modules of the rivals. Each has its class as ``ENGINE``; that of an optional rival also ``make_model``."""

PRECISIONS: tuple[Precision, ...] = ("float32", "int8")
"""Of all engines."""

VERSO_PRECISIONS: tuple[Precision, ...] = ("float32", "bfloat16", "int8")


@dataclass(frozen=True)
class Row:
    """One row of the table: an engine in one configuration.

    Args:
        library: Library of the engine.
        precision: Of its weights and products.
        num_workers: Number of concurrent batches.
        num_threads: Threads per worker.
        native: Whether Verso may use its compiled decoder.
        backend: Library of CTranslate2's matrix products; None for its own choice.
        instruction_set: A name from ``INSTRUCTION_SETS`` that the engine is limited to; None for no limit.
    """

    library: Library
    precision: Precision
    num_workers: int
    num_threads: int
    native: bool = True
    backend: Backend | None = None
    instruction_set: str | None = None

    @property
    def name(self) -> str:
        """The name in the table; the instruction set is that of the whole table."""
        parts = [f"{self.library} {self.precision}"]
        if self.backend:
            parts.append(self.backend)
        if self.library not in ("Verso", "transformers"):
            parts.append(f"{self.num_workers} x {self.num_threads}")
        if not self.native:
            parts.append("torch")
        return ", ".join(parts)

    @property
    def model(self) -> str:
        """The file or folder of its weights."""
        return "transformers" if self.library == "transformers" else f"{self.library} {self.precision}"

    @property
    def variables(self) -> dict[str, str]:
        """The environment variables of its process."""
        variables = dict(INSTRUCTION_SETS[self.instruction_set].environment) if self.instruction_set else {}
        if self.backend:
            variables["CT2_USE_MKL"] = "1" if self.backend == "MKL" else "0"
        return variables

    @property
    def must_agree(self) -> bool:
        """Whether its answers have to be Verso's; Marian's positions differ (:mod:`benchmarks.rivals.marian`)."""
        return self.precision == "float32" and self.library != "Marian"

    @property
    def has_batch_size(self) -> bool:
        """Whether the quickest batch size is looked for: Verso forms batches itself, transformers gets one size."""
        return self.library not in ("Verso", "transformers")


def rows_for(
    num_threads: int,
    *,
    torch_too: bool = False,
    with_transformers: bool = True,
    rivals: Sequence[Library] = (),
    instruction_set: str | None = None,
    backends: Sequence[Backend] = BACKENDS,
) -> list[Row]:
    """All rows of the table.

    Args:
        num_threads: Total threads of each row.
        torch_too: Whether Verso is also measured without its compiled decoder.
        with_transformers: Whether transformers can load the model, and so the optional rivals.
        rivals: The optional rivals to measure.
        instruction_set: The set that all engines are limited to; None for no limit.
        backends: With a limit, the libraries of products that CTranslate2 is measured with: which is quicker differs
            with the set.
    """
    splits = list(dict.fromkeys([(1, num_threads), (num_threads, 1)]))

    def row(library: Library, precision: Precision, split: tuple[int, int], **more: Any) -> Row:
        return Row(library, precision, *split, instruction_set=instruction_set, **more)

    one_worker = splits[0]
    rows = [row("Verso", precision, one_worker) for precision in VERSO_PRECISIONS]
    if torch_too:
        rows += [row("Verso", precision, one_worker, native=False) for precision in PRECISIONS]
    measured: Sequence[Backend | None] = backends if instruction_set else (None,)
    rows += [
        row("CTranslate2", precision, split, backend=backend)
        for precision in PRECISIONS
        for backend in measured
        for split in splits
    ]
    if not with_transformers:
        return rows
    for rival in rivals:
        # Marian's threads only share out the batches, and it has no other way.
        ways = splits[-1:] if rival == "Marian" else splits
        rows += [row(rival, precision, split) for precision in PRECISIONS for split in ways]
    return [*rows, row("transformers", "float32", one_worker)]


@dataclass(frozen=True)
class Job:
    """A job of a worker process.

    Args:
        sources: Sentences to translate together, as token ids.
        beam_size: 1 is greedy.
        batch_size: Batch size, for engines that need one.
        min_tokens: Minimal tokens of every output, without the end token.
        max_tokens: Maximal tokens of every output. If equal to ``min_tokens``, the work does not depend on the weights.
        repeats: Number of repetitions.
    """

    sources: list[list[int]]
    beam_size: int
    batch_size: int
    min_tokens: int
    max_tokens: int
    repeats: int = 1


@dataclass(frozen=True)
class Result:
    """The result of a job.

    Args:
        seconds: Duration of each repetition.
        answers: Token ids of the last repetition.
        peak_bytes: Peak memory of the process so far, above the peak of importing the library.
    """

    seconds: list[float]
    answers: list[list[int]]
    peak_bytes: int


class Engine(Protocol):
    """The measured interface: only :meth:`translate` is timed."""

    def prepare(self, sources: list[list[int]]) -> Any:
        """Sentences in the input format of the engine."""
        ...

    def translate(self, prepared: Any, job: Job) -> Any:
        """Translate all sentences."""
        ...

    def token_ids(self, answers: Any) -> list[list[int]]:
        """The token ids of the best hypotheses, without start token."""
        ...


class VersoEngine:
    """Verso without its tokenizer; it forms batches itself."""

    def __init__(self, folder: Path, row: Row) -> None:
        from model.translator import Translator

        self._translator = Translator.load(folder / row.model, num_threads=row.num_threads, native=row.native)
        if row.native and row.instruction_set:
            backend: Any = self._translator.backend
            used = backend.packed.instruction_set.name if backend.name == "native" else backend.reason
            if used != row.instruction_set:
                raise RuntimeError(f"Verso does not use {row.instruction_set}: {used}")

    def prepare(self, sources: list[list[int]]) -> list[list[int]]:
        return sources

    def translate(self, prepared: list[list[int]], job: Job) -> Any:
        from model.translation.options import TranslationOptions

        options = TranslationOptions(
            decoding="greedy" if job.beam_size == 1 else "beam",
            beam_size=job.beam_size,
            min_new_tokens=job.min_tokens,
            max_new_tokens=job.max_tokens,
            scoring="ct2",  # its rule determines when a search ends: the same work for both
        )
        return self._translator.translate_tokens(prepared, options)

    def token_ids(self, answers: Any) -> list[list[int]]:
        return [answer.token_ids for answer in answers]


def in_batches(sources: Sequence[Sequence[int]], batch_size: int) -> list[list[int]]:
    """Batches of sentences of similar length, as indices, for engines that do not form them.

    Args:
        sources: Token ids of the sentences.
        batch_size: Maximal number of sentences in a batch.
    """
    order = sorted(range(len(sources)), key=lambda index: len(sources[index]))
    return [order[start : start + batch_size] for start in range(0, len(order), batch_size)]


def import_engine(library: Library) -> Callable[[Path, Row], Engine]:
    """Import only what an engine needs.

    Args:
        library: Its library.
    """
    if library == "Verso":
        import model.decoding.options
        import model.translator  # noqa: F401

        return VersoEngine
    if library != "transformers":
        # CTranslate2's converters and others' helpers would import torch, which starts threads of its own; translating
        # does not need it.
        sys.modules["torch"] = None  # type: ignore[assignment]
    engine: Callable[[Path, Row], Engine] = import_module(MODULES[library]).ENGINE
    return engine


def engine_runner(row: Row, folder: Path) -> Callable[[Job], Result]:
    """Load a worker process of an engine with its model."""
    make = import_engine(row.library)
    imported_bytes = peak_memory_bytes()
    engine = make(folder, row)

    def run(job: Job) -> Result:
        prepared = engine.prepare(job.sources)
        seconds = []
        answers: Any = None
        for _ in range(job.repeats):
            began = time.perf_counter()
            answers = engine.translate(prepared, job)
            seconds.append(time.perf_counter() - began)
        return Result(seconds, engine.token_ids(answers), peak_memory_bytes() - imported_bytes)

    return run
