"""Verso, CTranslate2 and transformers with the same weights on the same tokens: one table from one interleaved run.

    python -m benchmarks.engines --shape base                          (make bench-engines measures all shapes)
    python -m benchmarks.engines --merge benchmarks/results/engines-*.json

For ``tiny``, ``small`` and ``base`` a random checkpoint of OPUS-MT's architecture is made with transformers, imported
by Verso and converted for CTranslate2; ``shipped`` is the shipped translator, which transformers cannot load. Every
engine has its own process. In each round each engine, in random order, translates one sentence several times and then
all sentences at once, greedy and with a beam of 4, while the others sleep. Input and output are token ids, not texts.
Outputs of random weights have a fixed length of 20 tokens, which is checked for all engines; the shipped translator
gets English sentences and ends its outputs itself, after at most 60 tokens.

A turn in which other programs use more than 5 % of the processors is repeated, at most twice; their share in the turns
that count is printed.

Columns are medians over the rounds; a ratio is the median of the rounds' ratios. Memory is the peak (VmHWM) of the
engine's process, minus the peak of importing its library. The last table contains the project's targets: there, the
ratio of a round is that to the best of the rivals in the round.

Throughput is also given as a share of the processor's peak, measured in the same rounds. It counts
the multiply-adds with weights, in a model of width d, feed-forward width f, E + D layers and a vocabulary of V:

    a source token     E (4 d^2 + 2 d f)  +  D 2 d^2        encoder; keys and values of the decoder's cross-attention
    a target token     D (6 d^2 + 2 d f)  +  d V            decoder and output, for each of the beam's rows

    share  =  2 (source tokens x first  +  target tokens x beam size x second) / seconds / peak

Padding, attention between positions, norms, softmax and search are not counted, so the share is below 1. The peak of
float32 is that of torch.mm. The peak of int8 is the higher one of the packed fbgemm kernel, which Verso uses, and of
oneDNN's, which CTranslate2 uses on processors not made by Intel. Each is the best of several sizes, with equal threads.

Needs Linux and the packages of the ``test`` extra.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from tqdm import tqdm

from benchmarks.checkpoints import SHAPES, SHIPPED, Shape, make_models, make_sources
from benchmarks.contenders import Job, Result, Row, rows_for, serve_engine, serve_peaks
from benchmarks.processes import OtherPrograms, Worker, describe_machine, machine_line, started
from benchmarks.shipped import make_shipped, make_shipped_sources
from benchmarks.tables import RESULTS, markdown, rounded, write_json
from benchmarks.targets import BLEU_LOSS, judge, verdicts_table

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
"""Candidates for the best batch size of CTranslate2."""

SEARCH_SENTENCES = 256
"""Sentences of that search: two workers get one batch of the largest size each."""

TRANSFORMERS_BATCH = 32

WARM_UP_SENTENCES = 128
"""Sentences of the warm-up round."""

DISTURBANCE = 0.05
"""Maximal share of the processors that other programs may use in a turn."""

SAME_ANSWERS = 0.9
"""Minimal share of outputs of a float32 engine that equal Verso's; ties may differ."""

MEASURES = ("latency_greedy_ms", "latency_beam_4_ms", "greedy_tokens_per_s", "beam_4_tokens_per_s")


@dataclass(frozen=True)
class Plan:
    """The extent of the measurement.

    Args:
        num_rounds: Number of rounds after the warm-up.
        num_sentences: Number of sentences for throughput.
        num_threads: Threads of each engine.
        latency_repeats: Repetitions of the single sentence in a round.
        batch_sizes: Candidates for the best batch size of CTranslate2.
        pause_s: Pause between two engines, in seconds.
        patience: Maximal repetitions of a disturbed turn.
        torch_too: Whether Verso is also measured without its compiled decoder.
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
    test_sets: tuple[Path, ...] = ()
    test_limit: int | None = None

    def rows(self, name: str) -> list[Row]:
        """The rows of the table for a shape."""
        return rows_for(self.num_threads, torch_too=self.torch_too, with_transformers=name != SHIPPED)

    def num_turns(self, name: str) -> int:
        """The number of turns for a shape: batch sizes, the warm-up and the rounds, each with the matrix peak."""
        rows = len(self.rows(name))
        return rows + (rows + 1) * (1 + self.num_rounds)


class Measurement:
    """Measures all engines with one shape.

    Args:
        name: Name of the shape.
        plan: The extent of the measurement.
        folder: Folder of the models.
        advance: Called after each engine's turn with a description.
    """

    def __init__(self, name: str, plan: Plan, folder: Path, advance: Callable[[str], None]) -> None:
        self._plan = plan
        self._shape = SHAPES[name]
        self._folder = folder
        self._advance = advance
        self._rows = plan.rows(name)
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
        self._rounds: dict[str, dict[str, list[float]]] = {
            row.name: {measure: [] for measure in MEASURES} for row in self._rows
        }
        self._peaks: dict[str, list[float]] = {"float32": [], "int8": []}
        self._memory: dict[str, float] = {}
        self._disturbances: list[float] = []
        self._num_repeated = 0

    def run(self) -> dict[str, Any]:
        """Measure everything; returns the figures, ready for JSON."""
        rng = random.Random(0)
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
                rng.shuffle(turns)
                for turn in turns:
                    self._turn(turn, workers[turn.name] if turn else peaks, counts=number > 0)
                    self._advance(f"round {number}" if number else "warm-up")
        return self._figures()

    def _job(self, sources: list[list[int]], beam_size: int, batch_size: int) -> Job:
        return Job(sources, beam_size, batch_size, *self._answer_tokens)

    def _find_batch_sizes(self, row: Row) -> None:
        """Find CTranslate2's best batch sizes, in a separate process; the others need no search."""
        self._batch_sizes[row.name] = dict.fromkeys(BEAM_SIZES, TRANSFORMERS_BATCH)
        if row.library != "CTranslate2" or len(self._plan.batch_sizes) < 2:
            return
        sources = self._sentences[:SEARCH_SENTENCES]
        with started(row.name, serve_engine, row, self._folder) as worker:
            worker.wait_until_loaded()
            for way, beam_size in BEAM_SIZES.items():
                worker.run(self._job(sources[:WARM_UP_SENTENCES], beam_size, WARM_UP_SENTENCES))
                seconds = {
                    batch_size: worker.run(self._job(sources, beam_size, batch_size)).seconds[0]
                    for batch_size in self._plan.batch_sizes
                }
                self._batch_sizes[row.name][way] = min(seconds, key=lambda batch_size: seconds[batch_size])

    def _turn(self, row: Row | None, worker: Worker, *, counts: bool) -> None:
        """The turn of an engine, or of the matrix peak if None; repeated if it was disturbed."""
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
            alone = replace(self._job(self._sentence, beam_size, batch_size), repeats=self._plan.latency_repeats)
            one: Result = worker.run(alone)
            many: Result = worker.run(self._job(sentences, beam_size, batch_size))
            _check_lengths(row.name, [*one.answers, *many.answers], *self._answer_tokens)
            found[f"latency_{way}_ms"] = 1000 * statistics.median(one.seconds)
            found[f"{way}_tokens_per_s"] = sum(map(len, many.answers)) / many.seconds[0]
            self._answers[row.name][way] = many.answers
            self._memory[row.name] = many.peak_bytes / 1e6
        return found

    def _figures(self) -> dict[str, Any]:
        peaks = {precision: statistics.median(values) for precision, values in self._peaks.items()}
        num_source_tokens = sum(map(len, self._sentences))
        ours = self._answers[self._rows[0].name]
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
            same = {
                way: sum(one == other for one, other in zip(answers, ours[way], strict=True))
                for way, answers in self._answers[row.name].items()
            }
            engines[row.name] = {
                **{measure: rounded(value) for measure, value in medians.items()},
                **shares,
                "peak_memory_mb": round(self._memory[row.name], 1),
                "target_tokens": num_target_tokens,
                "same_answers_as_verso_float32": same,
                **({} if row.library == "Verso" else {"batch_size": self._batch_sizes[row.name]}),
                "rounds": {
                    measure: [rounded(value) for value in values] for measure, values in self._rounds[row.name].items()
                },
            }
            if row.precision == "float32" and min(same.values()) < SAME_ANSWERS * len(self._sentences):
                raise SystemExit(f"{row.name} answers otherwise than Verso float32: the weights are not the same")
        return {
            "shape": asdict(self._shape),
            "multiply_adds": {
                "source_token": self._shape.source_multiply_adds,
                "target_token": self._shape.target_multiply_adds,
            },
            "machine": describe_machine(self._plan.num_threads),
            "num_rounds": self._plan.num_rounds,
            "sentences": len(self._sentences),
            "source_tokens": num_source_tokens,
            "answer_tokens": self._answer_tokens,
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
        """The speed-up of Verso by its precision, the other engine and the measure; below 1 Verso is slower."""
        ratios: dict[str, dict[str, dict[str, float]]] = {}
        for ours in self._rows:
            if ours.library != "Verso" or not ours.native:
                continue
            ratios[ours.name] = {
                theirs.name: {
                    measure: rounded(
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


def _check_lengths(name: str, answers: Sequence[Sequence[int]], fewest: int, most: int) -> None:
    wrong = sorted(length for length in {len(answer) for answer in answers} if not fewest <= length <= most)
    if wrong:
        raise SystemExit(f"{name} gave answers of {wrong} tokens, not {fewest} to {most}")


def serve_bleu(connection: Connection[Any, Any], folder: Path, plan: Plan) -> None:
    """Main function of a worker process: BLEU of Verso in each received precision, on each test set and pair."""
    try:
        warnings.simplefilter("ignore")
        from model.decoding.options import DecodingOptions
        from model.scores import score
        from model.training.corpus import read_parallel
        from model.translator import Translator

        connection.send(None)
        while (precision := connection.recv()) is not None:
            translator = Translator.load(folder / f"Verso {precision}", num_threads=plan.num_threads)
            found: dict[str, dict[str, Any]] = {}
            for base in plan.test_sets:
                for source, target in translator.manifest.pairs:
                    lines = read_parallel(base, (source, target))[: plan.test_limit]
                    texts = translator.translate([line[0] for line in lines], DecodingOptions(), source, target)
                    scored = score([text.text for text in texts], [line[1] for line in lines])
                    found[f"{base.name} {source}-{target}"] = {
                        "bleu": round(scored.bleu, 2),
                        "signature": scored.bleu_signature,
                        "sentences": scored.num_sentences,
                    }
            connection.send(found)
    except Exception:  # noqa: BLE001
        connection.send(traceback.format_exc())


def measure_bleu(folder: Path, plan: Plan) -> dict[str, Any]:
    """BLEU (beam 4, over texts) by precision, then test set and pair."""
    with started("BLEU", serve_bleu, folder, plan) as worker:
        worker.wait_until_loaded()
        return {precision: worker.run(precision) for precision in ("float32", "int8")}


def tables(figures: dict[str, Any]) -> str:
    """The figures of a shape as Markdown tables."""
    rows = [
        [
            name,
            f"{row['latency_greedy_ms']:.1f} ms",
            f"{row['latency_beam_4_ms']:.1f} ms",
            f"{row['greedy_tokens_per_s']:,.0f} tokens/s",
            f"{row['greedy_share_of_peak']:.0%}",
            f"{row['beam_4_tokens_per_s']:,.0f} tokens/s",
            f"{row['beam_4_share_of_peak']:.0%}",
            f"{row['peak_memory_mb']:,.0f} MB",
        ]
        for name, row in figures["engines"].items()
    ]
    ratios = [
        [f"{ours.removeprefix('Verso ')} than {theirs}", *(f"{found[measure]:.2f}" for measure in MEASURES)]
        for ours, others in figures["verso_is_faster_by"].items()
        for theirs, found in others.items()
    ]
    parts = [
        markdown(
            ["engine", "one sentence, greedy", "beam 4", "many, greedy", "of peak", "beam 4", "of peak", "memory"], rows
        ),
        markdown(
            ["Verso is faster by (below 1: slower)", "one sentence, greedy", "beam 4", "many, greedy", "beam 4"], ratios
        ),
    ]
    if "bleu" in figures:
        full, small = figures["bleu"]["float32"], figures["bleu"]["int8"]
        lost = {name: full[name]["bleu"] - small[name]["bleu"] for name in full}
        parts.append(
            markdown(
                ["BLEU", "sentences", "Verso float32", "Verso int8", f"int8 loses (at most {BLEU_LOSS})"],
                [
                    [
                        name,
                        f"{full[name]['sentences']:,}",
                        f"{full[name]['bleu']:.2f}",
                        f"{small[name]['bleu']:.2f}",
                        f"{lost[name]:.2f} {'reached' if lost[name] <= BLEU_LOSS else 'MISSED'}",
                    ]
                    for name in full
                ],
            )
            + "\n\n"
            + "\n".join(sorted({f"BLEU|{row['signature']}" for row in full.values()}))
        )
    return "\n\n".join(parts)


def report(name: str, figures: dict[str, Any]) -> str:
    """The printed report of a shape."""
    engines, machine = figures["engines"], figures["machine"]

    def both(values: dict[str, int]) -> str:
        return f"{values['greedy']:,} and {values['beam_4']:,}"

    counts = {both(row["target_tokens"]): None for row in engines.values()}
    batches = [f"{engine} {both(row['batch_size'])}" for engine, row in engines.items() if "batch_size" in row]
    agreeing = [
        f"{engine} {both(row['same_answers_as_verso_float32'])}"
        for engine, row in engines.items()
        if engine != "Verso float32"
    ]
    tokens = (
        f"every engine generated {next(iter(counts))} target tokens, greedy and beam 4"
        if len(counts) == 1
        else "target tokens, greedy and beam 4: "
        + ", ".join(f"{engine} {both(row['target_tokens'])}" for engine, row in engines.items())
    )
    peaks, others = figures["peaks_gops"], figures["other_programs"]
    return "\n".join(
        [
            f"{name}: {Shape(**figures['shape'])}; {figures['parameters'] / 1e6:.1f} M parameters",
            f"{figures['num_rounds']} rounds after a warm-up, {figures['sentences']} sentences, "
            f"{machine['threads']} threads",
            "",
            tables(figures),
            "",
            f"Peak: {peaks['float32']:.0f} GFLOPS float32, {peaks['int8']:.0f} GOPS int8.",
            f"{figures['source_tokens']:,} source tokens; {tokens}.",
            f"Other programs used {others['median_share']:.0%} of the processors (median of the turns; at most "
            f"{others['largest_share']:.0%}); {others['repeated_turns']} turns were repeated.",
            f"Sentences per batch, greedy and beam 4: {', '.join(batches)}.",
            f"Of {figures['sentences']} outputs equal to Verso's in float32, greedy and beam 4: {', '.join(agreeing)}.",
            "",
        ]
    )


def merge(parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Merge the figures of several runs.

    Args:
        parts: Figures as written to JSON.

    Raises:
        ValueError: Two of them have the same shape.
    """
    shapes: dict[str, Any] = {}
    for part in parts:
        for name, measured in part["shapes"].items():
            if name in shapes:
                raise ValueError(f"two of the files have figures for the shape {name!r}")
            shapes[name] = measured
    # From small to large, independent of the order of measurement.
    return {"shapes": {name: shapes[name] for name in SHAPES if name in shapes}}


def finish(figures: dict[str, Any], out: Path) -> None:
    """Print the targets, write all figures and draw them."""
    print(verdicts_table({name: judge(measured["engines"]) for name, measured in figures["shapes"].items()}))
    write_json(figures, out / "engines.json")
    plot(figures, out / "engines.png")


def plot(figures: dict[str, Any], path: Path) -> None:
    """Draw throughput and latency as bars, with a row of panels for each shape.

    Args:
        figures: Figures as written to JSON.
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


def measure_shape(name: str, plan: Plan, bar: Any) -> dict[str, Any]:
    """Make the models of a shape and measure all engines with them.

    Args:
        name: Name of the shape.
        plan: The extent of the measurement.
        bar: Progress bar.
    """

    def advance(what: str) -> None:
        bar.set_description(f"{name}, {what}")
        bar.update()

    bar.set_description(f"{name}, making the models")
    with tempfile.TemporaryDirectory() as folder_name:
        folder = Path(folder_name)
        num_parameters = make_shipped(folder) if name == SHIPPED else make_models(folder, SHAPES[name])
        measured = Measurement(name, plan, folder, advance).run()
        if name == SHIPPED and plan.test_sets:
            bar.set_description(f"{name}, BLEU")
            measured["bleu"] = measure_bleu(folder, plan)
    return {"parameters": num_parameters, **measured}


def main() -> int:
    """Make the models, measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", nargs="+", choices=SHAPES, metavar="SHAPE",
                        help="tiny, small, base, shipped; default: all")  # fmt: skip
    parser.add_argument("--rounds", type=int, default=5, help="rounds after the warm-up; default %(default)s")
    parser.add_argument("--sentences", type=int, default=512, help="sentences for throughput; default %(default)s")
    parser.add_argument("--threads", type=int, default=2, help="threads of each engine; default %(default)s")
    parser.add_argument("--torch", action="store_true", help="also Verso without its compiled decoder")
    parser.add_argument("--test", type=Path, nargs="+", default=[], metavar="BASE",
                        help="test sets without language ending, for BLEU of the shape shipped")  # fmt: skip
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder for figures and plot; default %(default)s")
    parser.add_argument("--quick", action="store_true",
                        help="one round of 32 sentences, as a test; default shapes: toy and shipped")  # fmt: skip
    parser.add_argument("--merge", type=Path, nargs="+", metavar="FILE",
                        help="measure nothing: merge, print and draw the figures of earlier runs")  # fmt: skip
    arguments = parser.parse_args()
    if arguments.merge:
        try:
            figures = merge([json.loads(path.read_text(encoding="utf-8")) for path in arguments.merge])
        except (OSError, ValueError, KeyError) as error:
            parser.error(f"--merge: {error}")
        for name, measured in figures["shapes"].items():
            print(machine_line(measured["machine"]))
            print(report(name, measured))
        finish(figures, arguments.out)
        return 0
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")  # torch warns of deprecations in every process
    if min(arguments.rounds, arguments.sentences, arguments.threads) < 1:
        parser.error("--rounds, --sentences and --threads must be at least 1")
    if not Path("/proc/self/status").exists():
        parser.error("memory is read from /proc: this needs Linux")
    plan = Plan(
        arguments.rounds,
        arguments.sentences,
        arguments.threads,
        torch_too=arguments.torch,
        test_sets=tuple(arguments.test),
    )
    if arguments.quick:
        os.environ.setdefault(
            "OMP_WAIT_POLICY", "PASSIVE"
        )  # threads that wait actively would slow down other processes
        plan = replace(
            plan,
            num_rounds=1,
            num_sentences=min(32, arguments.sentences),
            latency_repeats=2,
            batch_sizes=(32,),
            pause_s=0.0,
            patience=0,
            test_limit=32,
        )
    default = ["toy", SHIPPED] if arguments.quick else ["tiny", "small", "base", SHIPPED]
    names = list(dict.fromkeys(arguments.shape or default))
    print(machine_line(describe_machine(plan.num_threads)), flush=True)
    figures = {"shapes": {}}
    with tqdm(total=sum(map(plan.num_turns, names)), unit="turn", file=sys.stderr) as bar:
        for name in names:
            figures["shapes"][name] = measure_shape(name, plan, bar)
            bar.clear()
            print(f"\n{report(name, figures['shapes'][name])}", flush=True)
            # An interrupted run keeps the finished shapes.
            write_json({"shapes": {name: figures["shapes"][name]}}, arguments.out / f"engines-{name}.json")
    finish(merge([figures]), arguments.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
