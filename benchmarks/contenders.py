"""Verso, CTranslate2 and transformers behind one interface, each in its own process."""

from __future__ import annotations

import json
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Literal, Protocol

from benchmarks.processes import peak_memory_bytes

# Libraries are imported where they are used: worker processes import this file, and each must contain only its own.

MATRIX_SIZES = ((1024, 1024, 1024), (256, 512, 2048), (512, 2048, 512))
"""(rows, in, out) of the matrix products whose highest rate is the peak."""

Library = Literal["Verso", "CTranslate2", "transformers"]

Precision = Literal["float32", "int8"]


@dataclass(frozen=True)
class Row:
    """One row of the table: an engine in one configuration.

    Args:
        library: Library of the engine.
        precision: float32 or int8.
        num_workers: Number of concurrent batches.
        num_threads: Threads per worker.
        native: Whether Verso may use its compiled decoder.
    """

    library: Library
    precision: Precision
    num_workers: int
    num_threads: int
    native: bool = True

    @property
    def name(self) -> str:
        """The name in the table."""
        ways = f", {self.num_workers} x {self.num_threads}" if self.library == "CTranslate2" else ""
        return f"{self.library} {self.precision}{ways}{'' if self.native else ', torch'}"

    @property
    def model(self) -> str:
        """The file or folder of its weights."""
        return "transformers" if self.library == "transformers" else f"{self.library} {self.precision}"


def rows_for(num_threads: int, *, torch_too: bool = False, with_transformers: bool = True) -> list[Row]:
    """All rows of the table.

    Args:
        num_threads: Total threads of each row.
        torch_too: Whether Verso is also measured without its compiled decoder.
        with_transformers: Whether transformers can load the model.
    """
    rows = [Row("Verso", "float32", 1, num_threads), Row("Verso", "int8", 1, num_threads)]
    if torch_too:
        rows += [Row("Verso", row.precision, 1, num_threads, native=False) for row in rows]
    precisions: tuple[Precision, ...] = ("float32", "int8")
    for precision in precisions:
        for num_workers, each in dict.fromkeys([(1, num_threads), (num_threads, 1)]):
            rows.append(Row("CTranslate2", precision, num_workers, each))
    return [*rows, Row("transformers", "float32", 1, num_threads)] if with_transformers else rows


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

    def prepare(self, sources: list[list[int]]) -> list[list[int]]:
        return sources

    def translate(self, prepared: list[list[int]], job: Job) -> Any:
        from model.decoding.options import DecodingOptions

        options = DecodingOptions(
            decoding="greedy" if job.beam_size == 1 else "beam",
            beam_size=job.beam_size,
            min_new_tokens=job.min_tokens,
            max_new_tokens=job.max_tokens,
            scoring="ct2",  # its rule determines when a search ends: the same work for both
        )
        return self._translator.translate_tokens(prepared, options)

    def token_ids(self, answers: Any) -> list[list[int]]:
        return [answer.token_ids for answer in answers]


class CTranslate2Engine:
    """CTranslate2, which sorts by length and splits into batches of the given size."""

    def __init__(self, folder: Path, row: Row) -> None:
        import ctranslate2

        self._translator = ctranslate2.Translator(
            str(folder / row.model),
            compute_type=row.precision,
            inter_threads=row.num_workers,
            intra_threads=row.num_threads,
        )
        self._pieces: list[str] = json.loads((folder / row.model / "shared_vocabulary.json").read_text())
        self._ids = {piece: token_id for token_id, piece in enumerate(self._pieces)}

    def prepare(self, sources: list[list[int]]) -> list[list[str]]:
        return [[self._pieces[token_id] for token_id in source] for source in sources]

    def translate(self, prepared: list[list[str]], job: Job) -> Any:
        return self._translator.translate_batch(
            prepared,
            max_batch_size=job.batch_size,
            beam_size=job.beam_size,
            min_decoding_length=job.min_tokens,
            max_decoding_length=job.max_tokens,
        )

    def token_ids(self, answers: Any) -> list[list[int]]:
        return [[self._ids[piece] for piece in answer.hypotheses[0]] for answer in answers]


class TransformersEngine:
    """transformers' generate with batches of sentences of similar length."""

    def __init__(self, folder: Path, row: Row) -> None:
        import torch
        from transformers import MarianMTModel

        torch.set_num_threads(row.num_threads)
        self._torch = torch
        self._model: Any = MarianMTModel.from_pretrained(folder / row.model).eval()

    def prepare(self, sources: list[list[int]]) -> list[list[int]]:
        return sources

    def translate(self, prepared: list[list[int]], job: Job) -> Any:
        order = sorted(range(len(prepared)), key=lambda index: len(prepared[index]))
        answers: dict[int, Any] = {}
        for start in range(0, len(order), job.batch_size):
            indices = order[start : start + job.batch_size]
            length = len(prepared[indices[-1]])
            pad = self._model.config.pad_token_id
            ids = self._torch.tensor([prepared[index] + [pad] * (length - len(prepared[index])) for index in indices])
            with self._torch.inference_mode():
                batch = self._model.generate(
                    input_ids=ids,
                    attention_mask=(ids != pad).long(),
                    num_beams=job.beam_size,
                    do_sample=False,
                    length_penalty=1.0,
                    early_stopping=False,
                    min_new_tokens=job.min_tokens,
                    max_new_tokens=job.max_tokens,
                )
            answers.update(zip(indices, batch, strict=True))
        return [answers[index] for index in range(len(prepared))]

    def token_ids(self, answers: Any) -> list[list[int]]:
        return [answer.tolist()[1:] for answer in answers]


def import_library(library: Library) -> Callable[[Path, Row], Engine]:
    """Import only what an engine needs."""
    if library == "Verso":
        import model.decoding.options
        import model.translator  # noqa: F401

        return VersoEngine
    if library == "CTranslate2":
        # Its converters would import torch, which starts its own threads; only translation is needed here.
        sys.modules["torch"] = None  # type: ignore[assignment]
        import ctranslate2  # noqa: F401

        return CTranslate2Engine
    import torch  # noqa: F401
    import transformers

    transformers.logging.set_verbosity_error()
    _ = transformers.MarianMTModel  # imported on first use
    return TransformersEngine


def serve_engine(connection: Connection[Any, Any], row: Row, folder: Path) -> None:
    """Main function of a worker process: load the model, then run jobs until None is received."""
    try:
        warnings.simplefilter("ignore")
        make = import_library(row.library)
        imported_bytes = peak_memory_bytes()
        engine = make(folder, row)
        connection.send(None)
        while (job := connection.recv()) is not None:
            prepared = engine.prepare(job.sources)
            seconds = []
            answers: Any = None
            for _ in range(job.repeats):
                began = time.perf_counter()
                answers = engine.translate(prepared, job)
                seconds.append(time.perf_counter() - began)
            connection.send(Result(seconds, engine.token_ids(answers), peak_memory_bytes() - imported_bytes))
    except Exception:  # noqa: BLE001  (the parent reports any error)
        connection.send(traceback.format_exc())


def serve_peaks(connection: Connection[Any, Any], num_threads: int) -> None:
    """Like :func:`serve_engine`, but measures the processor's matrix products."""
    try:
        warnings.simplefilter("ignore")
        connection.send(None)
        while connection.recv() is not None:
            connection.send(measure_peaks(num_threads))
    except Exception:  # noqa: BLE001
        connection.send(traceback.format_exc())


def measure_peaks(num_threads: int) -> dict[str, float]:
    """Giga-operations per second for each precision; a multiply-add counts as two."""
    import torch

    torch.set_num_threads(num_threads)
    found: dict[str, list[float]] = {"float32": [], "int8": []}
    for rows, width_in, width_out in MATRIX_SIZES:
        left, right = torch.randn(rows, width_in), torch.randn(width_in, width_out)
        whole = torch.randint(-127, 128, (rows, width_in), dtype=torch.int8)
        weight = torch.randint(-127, 128, (width_in, width_out), dtype=torch.int8)
        packed = torch.ops.quantized.linear_prepack(
            torch.quantize_per_tensor(torch.randn(width_out, width_in), 0.03, 0, torch.qint8), None
        )
        fbgemm = torch.ops.quantized.linear_with_input_q_dq_qweight_dq_output_fp32
        ways: list[tuple[str, Callable[[], object]]] = [
            ("float32", partial(torch.mm, left, right)),
            ("int8", partial(fbgemm, whole.float(), 1.0, 128, packed)),
            ("int8", partial(torch._int_mm, whole, weight)),
        ]
        for precision, multiply in ways:
            multiply()
            seconds = []
            for _ in range(8):
                began = time.perf_counter()
                multiply()
                seconds.append(time.perf_counter() - began)
            found[precision].append(2 * rows * width_in * width_out / min(seconds) / 1e9)
    return {precision: max(values) for precision, values in found.items()}
