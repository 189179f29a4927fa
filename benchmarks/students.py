"""A model of Firefox or Marian, in Verso and in the engines it was made for: the same file, the same sentences.

    python -m benchmarks.students FOLDER --sentences FILE --pymarian PYTHON --fxtranslate PYTHON --bergamot PYTHON

The folder has the model as Mozilla publishes it (.bin and .spm), and the same weights as .npz for pymarian. The
interpreters have pymarian 1.12, fxtranslate 0.5 and bergamot 0.4.5 installed; each is optional. Every engine has a
process of its own and reads and writes text. In each round the engines take turns in a random order: all sentences at
once ("many"), and the first 40 sentences one after the other ("one", the median). pymarian gets the fastest of three
batch sizes; the others form batches themselves, or none. Ratios are medians of the rounds' ratios. All engines decode
greedily, as Firefox does.

The last column compares the lengths of all answers with those of Verso in int8: engines that write more do more work.
"""

from __future__ import annotations

import json
import random
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.command_line import parser, positive, progress
from benchmarks.processes import Turns, describe_machine, machine_line
from benchmarks.tables import markdown, write_json

ENGINE = Path(__file__).parent / "rivals" / "student_engine.py"
BATCH_SIZES = (16, 64, 128)
NUM_ALONE = 40


@dataclass(frozen=True)
class Engine:
    """A row of the table.

    Args:
        name: The engine, as ``student_engine.py`` calls it.
        precision: Of its weights.
        interpreter: What runs it.
        num_threads: Its threads.
    """

    name: str
    precision: str
    interpreter: str
    num_threads: int

    @property
    def title(self) -> str:
        """Its name in the table."""
        return f"{self.name} {self.precision}, {self.num_threads} thread{'s' if self.num_threads > 1 else ''}"


class Process:
    """A running engine.

    Args:
        engine: Which one.
        folder: The folder of the model.
    """

    def __init__(self, engine: Engine, folder: Path) -> None:
        command = [engine.interpreter, str(ENGINE), engine.name, engine.precision, str(folder), str(engine.num_threads)]
        # Verso is imported from this folder.
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={"PYTHONPATH": str(Path(__file__).parents[1])} if engine.name == "verso" else None,
        )
        self.engine = engine
        self.batch_size = BATCH_SIZES[1]

    @property
    def pid(self) -> int:
        """Its id."""
        return self._process.pid

    def receive(self) -> Any:
        """The next answer; some engines write other lines to standard output."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith(('{"seconds', '"ready')):
                return json.loads(line)
        raise SystemExit(f"{self.engine.title} ended with code {self._process.wait()}")

    def run(self, sentences: Sequence[str], *, alone: bool) -> Any:
        """Translate sentences."""
        assert self._process.stdin is not None
        job = {"sentences": sentences, "batch_size": self.batch_size, "alone": alone}
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()
        return self.receive()

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.communicate()


@contextmanager
def running(engine: Engine, folder: Path) -> Iterator[Process]:
    """An engine that is ended on exit."""
    process = Process(engine, folder)
    try:
        process.receive()
        yield process
    finally:
        process.close()


def choose_batch_size(process: Process, sentences: Sequence[str]) -> None:
    """Give an engine the fastest batch size, which is also its warm-up."""
    seconds = {}
    for batch_size in BATCH_SIZES if process.engine.name == "pymarian" else BATCH_SIZES[:1]:
        process.batch_size = batch_size
        process.run(sentences[:NUM_ALONE], alone=False)
        seconds[batch_size] = sum(process.run(sentences, alone=False)["seconds"])
    process.batch_size = min(seconds, key=lambda size: seconds[size])


def measure(
    engines: Sequence[Engine], folder: Path, sentences: Sequence[str], num_rounds: int
) -> dict[str, dict[str, Any]]:
    """The times of all rounds, by engine."""
    rng = random.Random(0)
    turns = Turns(patience=2, pause_s=0.3)
    measured: dict[str, dict[str, Any]] = {engine.title: {"many": [], "one": []} for engine in engines}
    with ExitStack() as stack, progress(len(engines) * (1 + num_rounds)) as (advance, _):
        processes = [stack.enter_context(running(engine, folder)) for engine in engines]
        for process in processes:
            choose_batch_size(process, sentences)
            advance(f"{process.engine.title}, warm-up")
        for number in range(num_rounds):
            for process in rng.sample(processes, len(processes)):
                figures = measured[process.engine.title]
                own = [process.pid]
                many = turns.run(lambda: process.run(sentences, alone=False), own, counts=True)  # noqa: B023
                one = turns.run(lambda: process.run(sentences[:NUM_ALONE], alone=True), own, counts=True)  # noqa: B023
                figures["many"].append(many["seconds"][0])
                figures["one"].append(statistics.median(one["seconds"]))
                figures["texts"] = many["texts"]
                advance(f"{process.engine.title}, round {number + 1}")
    measured["other programs"] = turns.figures()
    return measured


def report(measured: dict[str, dict[str, Any]], engines: Sequence[Engine], num_sentences: int) -> str:
    """The table; Verso in int8 with as many threads is the measure."""
    rows = []
    for engine in engines:
        figures = measured[engine.title]
        ours = measured[Engine("verso", "int8", "", engine.num_threads).title]
        ratios = [
            statistics.median(theirs / own for theirs, own in zip(figures[way], ours[way], strict=True))
            for way in ("many", "one")
        ]
        length = sum(map(len, figures["texts"])) / max(1, sum(map(len, ours["texts"])))
        same = sum(one == other for one, other in zip(figures["texts"], ours["texts"], strict=True))
        rows.append(
            [
                engine.title,
                f"{num_sentences / statistics.median(figures['many']):.0f}",
                f"{ratios[0]:.2f}",
                f"{1000 * statistics.median(figures['one']):.1f} ms",
                f"{ratios[1]:.2f}",
                f"{same} of {num_sentences}",
                f"{length:.2f}",
            ]
        )
    header = [
        "engine",
        "many: sentences/s",
        "Verso int8 is x as fast",
        "one",
        "Verso int8 is x as fast",
        "equal answers",
        "length",
    ]
    return markdown(header, rows)


def main() -> int:
    """Measure and print."""
    options = parser(__doc__, rounds=5, out=True)
    options.add_argument("folder", type=Path, metavar="FOLDER", help="the model's folder")
    options.add_argument("--sentences", type=Path, required=True, metavar="FILE", help="source sentences, one a line")
    options.add_argument("--limit", type=positive(int), default=300, metavar="N", help="sentences; default %(default)s")
    options.add_argument("--threads", type=positive(int), nargs="+", default=[1, 2], help="threads; default 1 2")
    rivals = {"pymarian": ("float32", "int8"), "fxtranslate": ("int8",), "bergamot": ("int8",)}
    options.add_argument("--pymarian", metavar="PYTHON", help="an interpreter that has pymarian")
    options.add_argument("--fxtranslate", metavar="PYTHON", help="an interpreter that has fxtranslate")
    options.add_argument("--bergamot", metavar="PYTHON", help="an interpreter that has bergamot")
    arguments = options.parse_args()
    sentences = arguments.sentences.read_text(encoding="utf-8").splitlines()[: arguments.limit]
    engines = [
        Engine(name, precision, interpreter, num_threads)
        for num_threads in arguments.threads
        for name, precisions in {"verso": ("float32", "int8"), **rivals}.items()
        for precision in precisions
        if (interpreter := sys.executable if name == "verso" else getattr(arguments, name)) is not None
    ]
    print(machine_line(describe_machine(max(arguments.threads))), flush=True)
    measured = measure(engines, arguments.folder, sentences, arguments.rounds)
    print(report(measured, engines, len(sentences)))
    print(f"other programs: {measured['other programs']}")
    write_json(measured, arguments.out / f"students-{arguments.folder.name}.json")
    return 0


if __name__ == "__main__":
    sys.exit(main())
