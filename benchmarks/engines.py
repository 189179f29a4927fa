"""Verso, CTranslate2 and transformers with the same weights on the same tokens: one table from one interleaved run.

    python benchmarks/engines.py --shape tiny small base --json FILE --plot FILE    (make bench-engines)

A random checkpoint of OPUS-MT's kind is made with transformers, imported by Verso and converted for CTranslate2. Every
engine lives in a process of its own. In each round each of them, in an order drawn anew, answers one sentence several
times and then all sentences at once, greedy and with a beam of 4, while the others sleep. Every answer is made to have
20 tokens, and all engines are checked to have given exactly as many. Texts are bypassed: token ids in, token ids out.

A turn during which other programs used more than 5 % of the processors is repeated, twice at most; how much they used
in the turns that count is printed, too.

Columns are medians over the rounds; a ratio is the median of the rounds' ratios. Memory is the peak (VmHWM) of the
engine's process, less the peak of importing its library.

Throughput is also given as a share of what the processor can multiply, measured in the same rounds. What is counted are
the multiply-adds with weights, in a model of width d, feed-forward width f, E + D layers and a vocabulary of V:

    a source token     E (4 d^2 + 2 d f)  +  D 2 d^2        encoder; keys and values of the decoder's cross-attention
    a target token     D (6 d^2 + 2 d f)  +  d V            decoder and output, for each of the beam's rows

    share  =  2 (source tokens x first  +  target tokens x beam size x second) / seconds / peak

Padding, attention between positions, norms, softmax and search are not counted: they are what keeps a share below 1.
The peak of float32 is torch.mm's, that of int8 the better of the packed fbgemm kernel Verso uses and oneDNN's, which is
CTranslate2's on processors that are not Intel's; each the best of several sizes, with the same threads.

Needs Linux and the packages of the ``test`` extra.
"""

from __future__ import annotations

import argparse
import io
import json
import multiprocessing
import os
import platform
import random
import statistics
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from importlib import metadata
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Literal, Protocol

from tqdm import tqdm

# Libraries are imported where they are used: worker processes import this file, and each is to hold its own only.

NUM_TARGET_TOKENS = 20
"""Of every answer."""

LATENCY_TOKENS = 20
"""Of the one sentence, end token included."""

SOURCE_TOKENS = (5, 40)
"""Shortest and longest of the many sentences, end token included."""

BEAM_SIZES = {"greedy": 1, "beam_4": 4}

BATCH_SIZES = (16, 32, 64, 128)
"""Among which CTranslate2's best is looked for."""

SEARCH_SENTENCES = 256
"""Of which it is looked for: two workers get a batch of the largest size each."""

TRANSFORMERS_BATCH = 32

MATRIX_SIZES = ((1024, 1024, 1024), (256, 512, 2048), (512, 2048, 512))
"""(rows, in, out) of the multiplications whose best is called the peak."""

WARM_UP_SENTENCES = 128
"""Of the many, for the round that does not count."""

DISTURBANCE = 0.05
"""Share of the processors that other programs may use during a turn."""

SAME_ANSWERS = 0.9
"""Share of its answers an engine in float32 must have in common with Verso's; ties may differ."""

Library = Literal["Verso", "CTranslate2", "transformers"]


@dataclass(frozen=True)
class Shape:
    """The sizes of a model.

    Args:
        d_model: Width.
        encoder_layers: Number of them.
        decoder_layers: Number of them.
        d_ff: Width inside the feed-forward layers.
        num_heads: Of attention.
        vocab_size: Of the one vocabulary, which source, target and output share.
    """

    d_model: int
    encoder_layers: int
    decoder_layers: int
    d_ff: int
    num_heads: int
    vocab_size: int

    @property
    def source_multiply_adds(self) -> int:
        """With weights, for a source token."""
        d, f = self.d_model, self.d_ff
        return self.encoder_layers * (4 * d * d + 2 * d * f) + self.decoder_layers * 2 * d * d

    @property
    def target_multiply_adds(self) -> int:
        """With weights, for a target token in one row of the beam."""
        d, f = self.d_model, self.d_ff
        return self.decoder_layers * (6 * d * d + 2 * d * f) + d * self.vocab_size

    def __str__(self) -> str:
        return (
            f"d{self.d_model}, {self.encoder_layers}+{self.decoder_layers} layers, feed-forward {self.d_ff}, "
            f"{self.num_heads} heads, vocabulary {self.vocab_size:,}"
        )


SHAPES = {
    "tiny": Shape(256, 3, 3, 1024, 4, 8_000),
    "small": Shape(384, 6, 3, 1536, 6, 16_000),
    "base": Shape(512, 6, 6, 2048, 8, 32_000),
    # Not for measuring: for trying whether everything works.
    "toy": Shape(32, 1, 1, 64, 4, 400),
}


@dataclass(frozen=True)
class Row:
    """One line of the table: an engine in one of its ways.

    Args:
        library: Whose engine.
        precision: float32 or int8.
        num_workers: Batches it works on at once.
        num_threads: Threads for each of these.
    """

    library: Library
    precision: Literal["float32", "int8"]
    num_workers: int
    num_threads: int

    @property
    def name(self) -> str:
        """As the table has it."""
        ways = f", {self.num_workers} x {self.num_threads}" if self.library == "CTranslate2" else ""
        return f"{self.library} {self.precision}{ways}"


def rows_for(num_threads: int) -> list[Row]:
    """All lines of the table, each with so many threads in all."""
    rows = [Row("Verso", "float32", 1, num_threads), Row("Verso", "int8", 1, num_threads)]
    for precision in ("float32", "int8"):
        for num_workers, each in dict.fromkeys([(1, num_threads), (num_threads, 1)]):
            rows.append(Row("CTranslate2", precision, num_workers, each))
    return [*rows, Row("transformers", "float32", 1, num_threads)]


def make_checkpoint(folder: Path, shape: Shape) -> int:
    """A folder as OPUS-MT publishes them, with random weights and made-up pieces; returns the parameters' number."""
    import sentencepiece
    import torch
    import transformers
    from transformers import GenerationConfig, MarianConfig, MarianMTModel

    transformers.logging.set_verbosity_error()
    folder.mkdir(parents=True)
    # Nothing is ever encoded: the SentencePiece models are there to be found.
    spm = io.BytesIO()
    chance = random.Random(0)
    words = ["".join(chance.choice("abdefgiklmnoprstu") for _ in range(chance.randint(2, 8))) for _ in range(400)]
    sentencepiece.SentencePieceTrainer.Train(
        sentence_iterator=iter([" ".join(words[start : start + 5]) for start in range(0, 400, 5)]),
        model_writer=spm,
        vocab_size=100,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    for name in ("source.spm", "target.spm"):
        (folder / name).write_bytes(spm.getvalue())
    processor = sentencepiece.SentencePieceProcessor()
    processor.LoadFromSerializedProto(spm.getvalue())
    pieces = [processor.IdToPiece(number) for number in range(3, len(processor))]
    fillers = [f"\u2581filler{number}" for number in range(shape.vocab_size - len(pieces) - 3)]
    ordered = ["</s>", "<unk>", *pieces, *fillers, "<pad>"]
    (folder / "vocab.json").write_text(json.dumps({piece: number for number, piece in enumerate(ordered)}))
    (folder / "tokenizer_config.json").write_text(json.dumps({"source_lang": "en", "target_lang": "de"}))
    pad = len(ordered) - 1
    special = {"pad_token_id": pad, "eos_token_id": 0, "decoder_start_token_id": pad}
    torch.manual_seed(0)
    config = MarianConfig(
        vocab_size=len(ordered),
        d_model=shape.d_model,
        encoder_layers=shape.encoder_layers,
        decoder_layers=shape.decoder_layers,
        encoder_attention_heads=shape.num_heads,
        decoder_attention_heads=shape.num_heads,
        encoder_ffn_dim=shape.d_ff,
        decoder_ffn_dim=shape.d_ff,
        activation_function="swish",
        scale_embedding=True,
        max_position_embeddings=512,
        # Published checkpoints end a cut answer with a closing token; CTranslate2 does not, and would count one more.
        forced_eos_token_id=None,
        **special,
    )
    model = MarianMTModel(config).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "shared" in name:
                parameter.normal_(0, 1.2 * parameter.size(1) ** -0.5)
                # As in published checkpoints, whose first decoder input is padding; CTranslate2 starts from zeros.
                parameter[pad] = 0.0
            elif parameter.dim() == 2 and "layers" in name:
                # Peaked attention: with flat attention all sentences would get one answer.
                sharpness = 3.0 if "q_proj" in name or "k_proj" in name else 1.0
                parameter.normal_(0, sharpness * parameter.size(1) ** -0.5)
        model.final_logits_bias.normal_(0, 0.5)
    model.generation_config = GenerationConfig(
        num_beams=4, max_length=512, bad_words_ids=[[pad]], renormalize_logits=True, **special
    )
    model.save_pretrained(folder)
    return sum(parameter.numel() for parameter in model.parameters())


def make_models(folder: Path, shape: Shape) -> int:
    """The same weights as each engine wants them, under ``folder``; returns the parameters' number."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import ctranslate2

        from model.importing.importer import import_checkpoint

        checkpoint = folder / "transformers"
        num_parameters = make_checkpoint(checkpoint, shape)
        import_checkpoint(checkpoint, folder / "Verso float32", "float32", report=lambda line: None)
        import_checkpoint(checkpoint, folder / "Verso int8", "int8", report=lambda line: None)
        converter = ctranslate2.converters.TransformersConverter(str(checkpoint))
        converter.convert(str(folder / "CTranslate2 float32"))
        converter.convert(str(folder / "CTranslate2 int8"), quantization="int8")
    return num_parameters


def make_sources(number: int, vocab_size: int, shortest: int, longest: int, seed: int = 0) -> list[list[int]]:
    """Random token ids with the end token behind."""
    chance = random.Random(seed)
    return [
        [*(chance.randrange(2, vocab_size - 1) for _ in range(chance.randint(shortest, longest) - 1)), 0]
        for _ in range(number)
    ]


class Engine(Protocol):
    """What is measured: only :meth:`translate` is timed."""

    def prepare(self, sources: list[list[int]]) -> Any:
        """Sentences in the form the engine takes."""
        ...

    def translate(self, prepared: Any, beam_size: int, batch_size: int) -> Any:
        """Answer them all."""
        ...

    def token_ids(self, answers: Any) -> list[list[int]]:
        """The best answers' ids, without start token."""
        ...


class VersoEngine:
    """Verso below its tokenizer; it forms batches by itself."""

    def __init__(self, folder: Path, row: Row) -> None:
        from model.translator import Translator

        self._translator = Translator.load(folder / row.name, num_threads=row.num_threads)

    def prepare(self, sources: list[list[int]]) -> list[list[int]]:
        return sources

    def translate(self, prepared: list[list[int]], beam_size: int, batch_size: int) -> Any:
        from model.decoding.options import DecodingOptions

        options = DecodingOptions(
            decoding="greedy" if beam_size == 1 else "beam",
            beam_size=beam_size,
            min_new_tokens=NUM_TARGET_TOKENS,
            max_new_tokens=NUM_TARGET_TOKENS,
        )
        return self._translator.translate_tokens(prepared, options)

    def token_ids(self, answers: Any) -> list[list[int]]:
        return [answer.token_ids for answer in answers]


class CTranslate2Engine:
    """CTranslate2, which sorts by length and cuts into batches of the size given."""

    def __init__(self, folder: Path, row: Row) -> None:
        import ctranslate2

        self._translator = ctranslate2.Translator(
            str(folder / f"CTranslate2 {row.precision}"),
            compute_type=row.precision,
            inter_threads=row.num_workers,
            intra_threads=row.num_threads,
        )
        self._ids = json.loads((folder / "transformers" / "vocab.json").read_text())
        self._pieces = list(self._ids)

    def prepare(self, sources: list[list[int]]) -> list[list[str]]:
        return [[self._pieces[token_id] for token_id in source] for source in sources]

    def translate(self, prepared: list[list[str]], beam_size: int, batch_size: int) -> Any:
        return self._translator.translate_batch(
            prepared,
            max_batch_size=batch_size,
            beam_size=beam_size,
            min_decoding_length=NUM_TARGET_TOKENS,
            max_decoding_length=NUM_TARGET_TOKENS,
        )

    def token_ids(self, answers: Any) -> list[list[int]]:
        return [[self._ids[piece] for piece in answer.hypotheses[0]] for answer in answers]


class TransformersEngine:
    """transformers' generate, given batches of sentences of like length."""

    def __init__(self, folder: Path, row: Row) -> None:
        import torch
        from transformers import MarianMTModel

        torch.set_num_threads(row.num_threads)
        self._torch = torch
        self._model: Any = MarianMTModel.from_pretrained(folder / "transformers").eval()

    def prepare(self, sources: list[list[int]]) -> list[list[int]]:
        return sources

    def translate(self, prepared: list[list[int]], beam_size: int, batch_size: int) -> Any:
        order = sorted(range(len(prepared)), key=lambda place: len(prepared[place]))
        answers: dict[int, Any] = {}
        for start in range(0, len(order), batch_size):
            places = order[start : start + batch_size]
            length = len(prepared[places[-1]])
            pad = self._model.config.pad_token_id
            ids = self._torch.tensor([prepared[place] + [pad] * (length - len(prepared[place])) for place in places])
            with self._torch.inference_mode():
                batch = self._model.generate(
                    input_ids=ids,
                    attention_mask=(ids != pad).long(),
                    num_beams=beam_size,
                    do_sample=False,
                    length_penalty=1.0,
                    early_stopping=False,
                    min_new_tokens=NUM_TARGET_TOKENS,
                    max_new_tokens=NUM_TARGET_TOKENS,
                )
            answers.update(zip(places, batch, strict=True))
        return [answers[place] for place in range(len(prepared))]

    def token_ids(self, answers: Any) -> list[list[int]]:
        return [answer.tolist()[1:] for answer in answers]


def import_library(library: Library) -> Callable[[Path, Row], Engine]:
    """Import what an engine needs and nothing more."""
    if library == "Verso":
        import model.decoding.options
        import model.translator  # noqa: F401

        return VersoEngine
    if library == "CTranslate2":
        # Its converters would import torch, which brings threads of its own; only translation is wanted here.
        sys.modules["torch"] = None  # type: ignore[assignment]
        import ctranslate2  # noqa: F401

        return CTranslate2Engine
    import torch  # noqa: F401
    import transformers

    transformers.logging.set_verbosity_error()
    _ = transformers.MarianMTModel  # imported on first use
    return TransformersEngine


@dataclass(frozen=True)
class Job:
    """What a worker process is asked for.

    Args:
        sources: Sentences to answer together.
        beam_size: 1 is greedy.
        batch_size: For engines that are told.
        repeats: How often to answer them.
    """

    sources: list[list[int]]
    beam_size: int
    batch_size: int
    repeats: int = 1


@dataclass(frozen=True)
class Result:
    """What it gives back.

    Args:
        seconds: Of each repeat.
        answers: Token ids of the last.
        peak_bytes: Peak memory of the process so far, above that of importing the library.
    """

    seconds: list[float]
    answers: list[list[int]]
    peak_bytes: int


def peak_memory_bytes() -> int:
    """Of this process; not ru_maxrss, which starts with the parent's."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return 1024 * int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")))


def serve_engine(connection: Connection[Any, Any], row: Row, folder: Path) -> None:
    """A worker process's life: load, then do jobs until None comes."""
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
                answers = engine.translate(prepared, job.beam_size, job.batch_size)
                seconds.append(time.perf_counter() - began)
            connection.send(Result(seconds, engine.token_ids(answers), peak_memory_bytes() - imported_bytes))
    except Exception:  # noqa: BLE001  (whatever it is, the parent says so)
        connection.send(traceback.format_exc())


def serve_peaks(connection: Connection[Any, Any], num_threads: int) -> None:
    """As :func:`serve_engine`, for measuring what the processor can multiply."""
    try:
        warnings.simplefilter("ignore")
        connection.send(None)
        while connection.recv() is not None:
            connection.send(measure_peaks(num_threads))
    except Exception:  # noqa: BLE001
        connection.send(traceback.format_exc())


def measure_peaks(num_threads: int) -> dict[str, float]:
    """Giga-operations a second, a multiply-add counted as two, for each precision."""
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


class Worker:
    """A process that does jobs.

    Args:
        name: For messages.
        target: Its life, given a connection and ``arguments``.
        arguments: For ``target``.
    """

    def __init__(self, name: str, target: Callable[..., None], *arguments: object) -> None:
        context = multiprocessing.get_context("spawn")
        self._name = name
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=target, args=(theirs, *arguments), daemon=True)
        self._process.start()
        theirs.close()

    @property
    def pid(self) -> int:
        """Of the process."""
        return self._process.pid or 0

    def wait_until_loaded(self) -> None:
        """To be called once, before any job."""
        self._receive()

    def run(self, job: Any) -> Any:
        """Do a job."""
        self._connection.send(job)
        return self._receive()

    def close(self) -> None:
        """End the process."""
        if self._process.is_alive():
            self._process.terminate()
        self._process.join()

    def _receive(self) -> Any:
        try:
            answer = self._connection.recv()
        except EOFError:
            self._process.join()
            raise SystemExit(f"{self._name} ended with code {self._process.exitcode}") from None
        if isinstance(answer, str):
            raise SystemExit(f"{self._name} failed:\n{answer}")
        return answer


class OtherPrograms:
    """How much of the processors others use from now on.

    Args:
        own: Processes that do not count.
    """

    def __init__(self, own: Sequence[int]) -> None:
        self._own = own
        self._began = self._read()

    def share(self) -> float:
        """0 when nobody else did anything, 1 when they had all cores."""
        elapsed, foreign = (after - before for after, before in zip(self._read(), self._began, strict=True))
        return max(0.0, foreign / elapsed / (os.cpu_count() or 1))

    def _read(self) -> tuple[float, float]:
        """Seconds: the time, and processor time of all but our own."""
        tick = os.sysconf("SC_CLK_TCK")
        # user, nice, system, (idle, iowait), irq, softirq, steal
        fields = [int(field) for field in Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()[1:9]]
        own = 0
        for pid in self._own:
            after_name = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
            own += int(after_name[11]) + int(after_name[12])
        return time.perf_counter(), (sum(fields) - fields[3] - fields[4] - own) / tick


@contextmanager
def started(name: str, target: Callable[..., None], *arguments: object) -> Iterator[Worker]:
    """A :class:`Worker`, ended at the end."""
    worker = Worker(name, target, *arguments)
    try:
        yield worker
    finally:
        worker.close()


@dataclass(frozen=True)
class Plan:
    """How much is measured.

    Args:
        num_rounds: Besides the warm-up.
        num_sentences: For throughput.
        num_threads: For each engine.
        latency_repeats: Answers to the one sentence in a round.
        batch_sizes: Among which CTranslate2's best is looked for.
        pause_s: Between two engines.
        patience: How often a disturbed turn is repeated.
    """

    num_rounds: int
    num_sentences: int
    num_threads: int
    latency_repeats: int = 9
    batch_sizes: tuple[int, ...] = BATCH_SIZES
    pause_s: float = 0.3  # OpenMP's threads keep a core busy for up to 0.2 s after their last work
    patience: int = 2


MEASURES = ("latency_greedy_ms", "latency_beam_4_ms", "greedy_tokens_per_s", "beam_4_tokens_per_s")


class Measurement:
    """All engines in one shape.

    Args:
        shape: Of the model.
        plan: How much to measure.
        folder: The models, from :func:`make_models`.
        advance: Called after each engine's turn with what is going on.
    """

    def __init__(self, shape: Shape, plan: Plan, folder: Path, advance: Callable[[str], None]) -> None:
        self._plan = plan
        self._shape = shape
        self._folder = folder
        self._advance = advance
        self._rows = rows_for(plan.num_threads)
        self._sentence = make_sources(1, shape.vocab_size, LATENCY_TOKENS, LATENCY_TOKENS, seed=1)
        self._sentences = make_sources(plan.num_sentences, shape.vocab_size, *SOURCE_TOKENS)
        self._batch_sizes: dict[str, dict[str, int]] = {row.name: {} for row in self._rows}
        self._answers: dict[str, dict[str, list[list[int]]]] = {row.name: {} for row in self._rows}
        self._rounds: dict[str, dict[str, list[float]]] = {
            row.name: {measure: [] for measure in MEASURES} for row in self._rows
        }
        self._peaks: dict[str, list[float]] = {"float32": [], "int8": []}
        self._memory: dict[str, float] = {}
        self._disturbances: list[float] = []
        self._num_repeated = 0

    @staticmethod
    def num_turns(plan: Plan) -> int:
        """How often ``advance`` will be called."""
        rows = len(rows_for(plan.num_threads))
        return rows + (rows + 1) * (1 + plan.num_rounds)

    def run(self) -> dict[str, Any]:
        """Measure everything; returns the figures, ready for JSON."""
        chance = random.Random(0)
        for row in self._rows:
            self._find_batch_sizes(row)
            self._advance("batch sizes")
        with ExitStack() as stack:
            workers = {
                row.name: stack.enter_context(started(row.name, serve_engine, row, self._folder)) for row in self._rows
            }
            peaks = stack.enter_context(started("the matrix peak", serve_peaks, self._plan.num_threads))
            for worker in [*workers.values(), peaks]:
                worker.wait_until_loaded()
            for number in range(1 + self._plan.num_rounds):
                turns = [*self._rows, None]
                chance.shuffle(turns)
                for turn in turns:
                    self._turn(turn, workers[turn.name] if turn else peaks, counts=number > 0)
                    self._advance(f"round {number}" if number else "warm-up")
        return self._figures()

    def _find_batch_sizes(self, row: Row) -> None:
        """CTranslate2's best, in a process of its own; transformers has what it is given, and Verso chooses itself."""
        self._batch_sizes[row.name] = dict.fromkeys(BEAM_SIZES, TRANSFORMERS_BATCH)
        if row.library != "CTranslate2" or len(self._plan.batch_sizes) < 2:
            return
        sources = self._sentences[:SEARCH_SENTENCES]
        with started(row.name, serve_engine, row, self._folder) as worker:
            worker.wait_until_loaded()
            for way, beam_size in BEAM_SIZES.items():
                worker.run(Job(sources[:WARM_UP_SENTENCES], beam_size, WARM_UP_SENTENCES))
                seconds = {
                    batch_size: worker.run(Job(sources, beam_size, batch_size)).seconds[0]
                    for batch_size in self._plan.batch_sizes
                }
                self._batch_sizes[row.name][way] = min(seconds, key=lambda batch_size: seconds[batch_size])

    def _turn(self, row: Row | None, worker: Worker, *, counts: bool) -> None:
        """An engine's turn, or for None the matrix peak's, again if it was disturbed."""
        for attempt in range(1 + self._plan.patience):
            time.sleep(self._plan.pause_s)
            others = OtherPrograms([os.getpid(), worker.pid])
            found: dict[str, float] = worker.run("all") if row is None else self._measure(row, worker, counts=counts)
            disturbance = others.share()
            if not counts:
                return
            if disturbance <= DISTURBANCE or attempt == self._plan.patience:
                break
            self._num_repeated += 1
        self._disturbances.append(disturbance)
        for name, value in found.items():
            (self._peaks if row is None else self._rounds[row.name])[name].append(value)

    def _measure(self, row: Row, worker: Worker, *, counts: bool) -> dict[str, float]:
        sentences = self._sentences if counts else self._sentences[:WARM_UP_SENTENCES]
        found: dict[str, float] = {}
        for way, beam_size in BEAM_SIZES.items():
            batch_size = self._batch_sizes[row.name][way]
            one: Result = worker.run(Job(self._sentence, beam_size, batch_size, self._plan.latency_repeats))
            many: Result = worker.run(Job(sentences, beam_size, batch_size))
            _check_lengths(row.name, [*one.answers, *many.answers])
            found[f"latency_{way}_ms"] = 1000 * statistics.median(one.seconds)
            found[f"{way}_tokens_per_s"] = sum(map(len, many.answers)) / many.seconds[0]
            self._answers[row.name][way] = many.answers
            self._memory[row.name] = many.peak_bytes / 1e6
        return found

    def _figures(self) -> dict[str, Any]:
        peaks = {precision: statistics.median(values) for precision, values in self._peaks.items()}
        num_source_tokens = sum(map(len, self._sentences))
        engines: dict[str, Any] = {}
        for row in self._rows:
            medians = {measure: statistics.median(values) for measure, values in self._rounds[row.name].items()}
            num_target_tokens = {way: sum(map(len, answers)) for way, answers in self._answers[row.name].items()}
            shares = {}
            for way, beam_size in BEAM_SIZES.items():
                operations = 2 * (
                    num_source_tokens * self._shape.source_multiply_adds
                    + num_target_tokens[way] * beam_size * self._shape.target_multiply_adds
                )
                seconds = num_target_tokens[way] / medians[f"{way}_tokens_per_s"]
                shares[f"{way}_share_of_peak"] = round(operations / seconds / 1e9 / peaks[row.precision], 3)
            ours = self._answers[self._rows[0].name]
            engines[row.name] = {
                **{measure: _rounded(value) for measure, value in medians.items()},
                **shares,
                "peak_memory_mb": round(self._memory[row.name], 1),
                "target_tokens": num_target_tokens,
                "same_answers_as_verso_float32": {
                    way: sum(one == other for one, other in zip(answers, ours[way], strict=True))
                    for way, answers in self._answers[row.name].items()
                },
                **({} if row.library == "Verso" else {"batch_size": self._batch_sizes[row.name]}),
                "rounds": {
                    measure: [_rounded(value) for value in values] for measure, values in self._rounds[row.name].items()
                },
            }
            shared = min(engines[row.name]["same_answers_as_verso_float32"].values()) / len(self._sentences)
            if row.precision == "float32" and shared < SAME_ANSWERS:
                raise SystemExit(f"{row.name} answers otherwise than Verso float32: the weights are not the same")
        counts = {tuple(engine["target_tokens"].values()) for engine in engines.values()}
        if len(counts) != 1:
            raise SystemExit(f"the engines gave different numbers of tokens: {sorted(counts)}")
        return {
            "shape": asdict(self._shape),
            "multiply_adds": {
                "source_token": self._shape.source_multiply_adds,
                "target_token": self._shape.target_multiply_adds,
            },
            "source_tokens": num_source_tokens,
            "target_tokens": next(iter(counts))[0],
            "peaks_gops": {precision: round(value, 1) for precision, value in peaks.items()},
            "other_programs": {
                "median_share": round(statistics.median(self._disturbances), 3),
                "largest_share": round(max(self._disturbances), 3),
                "repeated_turns": self._num_repeated,
            },
            "engines": engines,
            "verso_is_faster_by": self._ratios(),
        }

    def _ratios(self) -> dict[str, dict[str, dict[str, float]]]:
        """How many times faster Verso is, by its precision, the other engine and the measure; below 1 it is slower."""
        ratios: dict[str, dict[str, dict[str, float]]] = {}
        for ours in self._rows:
            if ours.library != "Verso":
                continue
            ratios[ours.name] = {
                theirs.name: {
                    measure: _rounded(
                        statistics.median(
                            their / own if measure.startswith("latency") else own / their
                            for own, their in zip(
                                self._rounds[ours.name][measure], self._rounds[theirs.name][measure], strict=True
                            )
                        )
                    )
                    for measure in MEASURES
                }
                for theirs in self._rows
                if theirs != ours
            }
        return ratios


def _check_lengths(name: str, answers: Sequence[Sequence[int]]) -> None:
    wrong = sorted({len(answer) for answer in answers} - {NUM_TARGET_TOKENS})
    if wrong:
        raise SystemExit(f"{name} gave answers of {wrong} tokens, not {NUM_TARGET_TOKENS}")


def _rounded(value: float) -> float:
    """To four digits."""
    return float(f"{value:.4g}")


def describe_machine(num_threads: int) -> dict[str, Any]:
    """Processor, threads and versions."""
    processor: dict[str, str] = {}
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        key, _, value = line.partition(":")
        processor.setdefault(key.strip(), value.strip())
    flags = processor.get("flags", "").split()
    versions = {"python": platform.python_version()}
    for package in ("torch", "transformers", "ctranslate2", "numpy", "sentencepiece", "tokenizers", "verso"):
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            versions[package] = "not installed, run from source"
    return {
        "processor": processor.get("model name", platform.processor()),
        "family_and_model": f"{processor.get('cpu family', '?')}/{processor.get('model', '?')}",
        "instructions": [
            flag for flag in ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_int8") if flag in flags
        ],
        "cores": len(os.sched_getaffinity(0)),
        "threads": num_threads,
        "load_at_start": os.getloadavg()[0],
        "system": platform.platform(),
        "versions": versions,
    }


def table(figures: dict[str, Any]) -> str:
    """The figures of a shape as two Markdown tables."""
    lines = [
        "| engine | one sentence, greedy | beam 4 | many, greedy | of peak | beam 4 | of peak | memory |",
        "|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for name, row in figures["engines"].items():
        lines.append(
            f"| {name} | {row['latency_greedy_ms']:.1f} ms | {row['latency_beam_4_ms']:.1f} ms "
            f"| {row['greedy_tokens_per_s']:,.0f} tokens/s | {row['greedy_share_of_peak']:.0%} "
            f"| {row['beam_4_tokens_per_s']:,.0f} tokens/s | {row['beam_4_share_of_peak']:.0%} "
            f"| {row['peak_memory_mb']:,.0f} MB |"
        )
    lines += [
        "",
        "| Verso is faster by (below 1: slower) | one sentence, greedy | beam 4 | many, greedy | beam 4 |",
        "|---|--:|--:|--:|--:|",
    ]
    for ours, others in figures["verso_is_faster_by"].items():
        for theirs, ratios in others.items():
            values = " | ".join(f"{ratios[measure]:.2f}" for measure in MEASURES)
            lines.append(f"| {ours.removeprefix('Verso ')} than {theirs} | {values} |")
    return _aligned(lines)


def _aligned(lines: Sequence[str]) -> str:
    """Markdown tables with their columns under each other."""
    out: list[str] = []
    block: list[list[str]] = []
    for line in [*lines, ""]:
        if line:
            block.append([cell.strip() for cell in line.strip("|").split("|")])
            continue
        widths = [max(len(row[place]) for row in block) for place in range(len(block[0]))] if block else []
        for number, row in enumerate(block):
            cells = []
            for place, (cell, width) in enumerate(zip(row, widths, strict=True)):
                if number == 1:
                    cells.append("-" * (width - 1) + ":" if place else "-" * width)
                else:
                    cells.append(cell.rjust(width) if place else cell.ljust(width))
            out.append("| " + " | ".join(cells) + " |")
        out.append("")
        block = []
    return "\n".join(out)


def report(name: str, figures: dict[str, Any]) -> str:
    """All that is printed of a shape."""
    engines = figures["engines"]
    agreeing = ", ".join(
        f"{engine} {row['same_answers_as_verso_float32']['greedy']} and "
        f"{row['same_answers_as_verso_float32']['beam_4']}"
        for engine, row in engines.items()
        if engine != "Verso float32"
    )
    batches = ", ".join(
        f"{engine} {row['batch_size']['greedy']} and {row['batch_size']['beam_4']}"
        for engine, row in engines.items()
        if "batch_size" in row
    )
    peaks, others = figures["peaks_gops"], figures["other_programs"]
    return "\n".join(
        [
            f"{name}: {Shape(**figures['shape'])}; {figures['parameters'] / 1e6:.1f} M parameters",
            "",
            table(figures),
            f"Peak: {peaks['float32']:.0f} GFLOPS float32, {peaks['int8']:.0f} GOPS int8.",
            f"{figures['source_tokens']:,} source tokens; every engine gave {figures['target_tokens']:,} target "
            "tokens, greedy and beam 4.",
            f"Other programs used {others['median_share']:.0%} of the processors (median of the turns; at most "
            f"{others['largest_share']:.0%}); {others['repeated_turns']} turns were repeated.",
            f"Sentences a batch, greedy and beam 4: {batches}.",
            f"Of {figures['target_tokens'] // NUM_TARGET_TOKENS} answers the same as Verso's in float32, greedy and "
            f"beam 4: {agreeing}.",
            "",
        ]
    )


def plot(figures: dict[str, Any], path: Path) -> None:
    """Throughput and latency as bars, a row of panels for each shape.

    Args:
        figures: As written to JSON.
        path: The PNG file to write.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    shapes = figures["shapes"]
    figure = Figure(figsize=(11.0, 0.9 + 2.9 * len(shapes)), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(len(shapes), 2, squeeze=False)
    for (name, measured), (throughput, latency) in zip(shapes.items(), panels, strict=True):
        engines = measured["engines"]
        for panel, title, keys in (
            (throughput, "target tokens a second", ("greedy_tokens_per_s", "beam_4_tokens_per_s")),
            (latency, "milliseconds for one sentence", ("latency_greedy_ms", "latency_beam_4_ms")),
        ):
            for number, (key, label) in enumerate(zip(keys, ("greedy", "beam 4"), strict=True)):
                places = [place + 0.2 - 0.4 * number for place in range(len(engines), 0, -1)]
                bars = panel.barh(places, [row[key] for row in engines.values()], 0.38, color=f"C{number}", label=label)
                panel.bar_label(bars, fmt="{:,.0f}" if panel is throughput else "{:.1f}", fontsize=7, padding=2)
            panel.set_yticks(range(len(engines), 0, -1), list(engines) if panel is throughput else [""] * len(engines))
            panel.set_title(f"{name}: {title}", fontsize=10)
            panel.grid(axis="x", alpha=0.3)
            panel.set_axisbelow(True)
            panel.margins(x=0.12)
            panel.tick_params(labelsize=8)
    handles, labels = panels[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=2, fontsize=9)
    figure.savefig(path, format="png")


def main() -> int:
    """Make the models, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", nargs="+", choices=SHAPES, default=["small"], metavar="SHAPE",
                        help="tiny, small, base; default small")  # fmt: skip
    parser.add_argument("--rounds", type=int, default=5, help="besides the warm-up; default 5")
    parser.add_argument("--sentences", type=int, default=512, help="for throughput; default 512")
    parser.add_argument("--threads", type=int, default=2, help="for each engine; default 2")
    parser.add_argument("--json", type=Path, help="also write the figures there")
    parser.add_argument("--plot", type=Path, help="also draw them there, as PNG")
    parser.add_argument("--quick", action="store_true", help="one round of 32 sentences, to see whether it runs")
    arguments = parser.parse_args()
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")  # it warns of deprecations in every process
    if min(arguments.rounds, arguments.sentences, arguments.threads) < 1:
        parser.error("--rounds, --sentences and --threads must be at least 1")
    if not Path("/proc/self/status").exists():
        parser.error("memory is read from /proc: this needs Linux")
    plan = Plan(arguments.rounds, arguments.sentences, arguments.threads)
    if arguments.quick:
        plan = Plan(
            1,
            min(32, arguments.sentences),
            arguments.threads,
            latency_repeats=2,
            batch_sizes=(32,),
            pause_s=0.0,
            patience=0,
        )
    figures: dict[str, Any] = {
        "machine": describe_machine(plan.num_threads),
        "rounds": plan.num_rounds,
        "sentences": plan.num_sentences,
        "tokens_an_answer": NUM_TARGET_TOKENS,
        "shapes": {},
    }
    machine = figures["machine"]
    print(
        f"{machine['processor']} (family/model {machine['family_and_model']}; {', '.join(machine['instructions'])}), "
        f"{machine['cores']} cores, {machine['threads']} threads, load {machine['load_at_start']:.1f} at the start"
    )
    print(", ".join(f"{package} {version}" for package, version in machine["versions"].items()))
    print(
        f"{plan.num_rounds} rounds after a warm-up, {plan.num_sentences} sentences of {SOURCE_TOKENS[0]} to "
        f"{SOURCE_TOKENS[1]} tokens, one of {LATENCY_TOKENS}; {NUM_TARGET_TOKENS} tokens an answer\n",
        flush=True,
    )
    names = list(dict.fromkeys(arguments.shape))
    with tqdm(total=len(names) * Measurement.num_turns(plan), unit="turn", file=sys.stderr) as bar:
        for name in names:

            def advance(what: str, name: str = name) -> None:
                bar.set_description(f"{name}, {what}")
                bar.update()

            bar.set_description(f"{name}, making the models")
            with tempfile.TemporaryDirectory() as folder:
                num_parameters = make_models(Path(folder), SHAPES[name])
                measured = Measurement(SHAPES[name], plan, Path(folder), advance).run()
            figures["shapes"][name] = {"parameters": num_parameters, **measured}
            bar.clear()
            print(report(name, figures["shapes"][name]), flush=True)
            if arguments.json:
                arguments.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    if arguments.plot:
        plot(figures, arguments.plot)
    return 0


if __name__ == "__main__":
    sys.exit(main())
