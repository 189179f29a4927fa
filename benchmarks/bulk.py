"""Throughput of ``verso translate --ray`` compared with ``verso translate`` on the same lines and processors.

    python -m benchmarks.bulk --text DATA/eval/tatoeba-test-v2020-07-28.en --rounds 3

It translates the lines with the plain command, with one worker that has all processors, and with a worker for each
processor, in interleaved rounds, and compares their outputs. Each command is also run with a single line; that time is
its start and is subtracted. From the rate follows how long a billion sentences take. Needs the extra ``ray``.
"""

from __future__ import annotations

import argparse
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.processes import describe_machine
from benchmarks.tables import markdown, percentile, write_json
from model.process.threads import available_threads

_VERSO = [sys.executable, "-c", "import sys; from app.commands.main import main; sys.exit(main())", "translate"]
_BILLION = 1_000_000_000
_SECONDS_OF_A_DAY = 86_400


@dataclass
class Contender:
    """One way to translate a file.

    Args:
        name: Name in the table.
        options: Options of the command; none for the plain one.
        starts_s: Seconds for one line, of each round.
        seconds: Seconds for all lines, of each round.
    """

    name: str
    options: list[str]
    starts_s: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    def translate(self, text: Path, out: Path, common: list[str]) -> tuple[float, bytes]:
        """The seconds that a file takes, and its translation."""
        began = time.perf_counter()
        if "--ray" not in self.options:
            with text.open("rb") as source:
                done = subprocess.run([*_VERSO, *self.options, *common], stdin=source, capture_output=True, check=True)
            return time.perf_counter() - began, done.stdout
        files = [str(text), "--file-type", "text", "--out", str(out)]
        subprocess.run([*_VERSO, *self.options, *files, *common], stderr=subprocess.PIPE, check=True)
        return time.perf_counter() - began, (out / text.name).read_bytes()

    def rate(self, num_sentences: int) -> float:
        """Sentences per second without the start, the median of all rounds."""
        return percentile(
            [num_sentences / (one - start) for one, start in zip(self.seconds, self.starts_s, strict=True)], 0.5
        )


def measure(contenders: Sequence[Contender], lines: Sequence[str], rounds: int, common: list[str]) -> bool:
    """Let contenders translate in turn.

    Args:
        contenders: They get the times.
        lines: The lines.
        rounds: How often.
        common: Options of all.

    Returns:
        Whether all outputs were equal.
    """
    outputs: set[bytes] = set()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "all").write_text("".join(lines), encoding="utf-8")
        (folder / "one").write_text(lines[0], encoding="utf-8")
        for number in range(1, rounds + 1):
            for one in contenders:
                out = Path(tempfile.mkdtemp(dir=folder))
                one.starts_s.append(one.translate(folder / "one", out, common)[0])
                seconds, output = one.translate(folder / "all", out, common)
                one.seconds.append(seconds)
                outputs.add(output)
                report = f"round {number}: {one.name}: {seconds:.1f} s, of these {one.starts_s[-1]:.1f} s to start"
                print(report, file=sys.stderr)
    return len(outputs) == 1


def table(contenders: Sequence[Contender], num_sentences: int) -> str:
    """The rates of contenders, compared with the first, and what they mean for a billion sentences."""
    rates = [one.rate(num_sentences) for one in contenders]
    rows = [
        [
            one.name,
            f"{rate:.1f}",
            f"{rate / rates[0]:.2f}",
            f"{percentile(one.starts_s, 0.5):.1f}",
            f"{_BILLION / rate / 3600:,.0f}",
            f"{math.ceil(_BILLION / rate / _SECONDS_OF_A_DAY):,}",
        ]
        for one, rate in zip(contenders, rates, strict=True)
    ]
    return markdown(["", "sentences/s", "ratio", "start, s", "a billion: hours", "machines for one day"], rows)


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", type=Path, required=True, help="a sentence for each line")
    parser.add_argument("--sentences", type=int, default=5_000, help="lines that are translated; default 5000")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--model", default="auto", help="a bundle; default: the one that ships")
    parser.add_argument("--target", default="de")
    parser.add_argument("--out", type=Path, help="file for the figures (JSON)")
    arguments = parser.parse_args()
    processors = available_threads()
    contenders = [Contender("verso translate", ["--threads", str(processors)])]
    for workers in sorted({1, processors}):
        threads = processors // workers
        options = ["--ray", "--workers", str(workers), "--threads", str(threads)]
        contenders.append(Contender(f"--ray --workers {workers} --threads {threads}", options))
    lines = arguments.text.read_text(encoding="utf-8").splitlines(keepends=True)[: arguments.sentences]
    common = ["--model", arguments.model, "--target", arguments.target, "--device", "cpu", "--quiet"]
    are_equal = measure(contenders, lines, arguments.rounds, common)
    print(f"{len(lines):,} lines, {processors} processors, {arguments.rounds} rounds; outputs are ", end="")
    print("equal" if are_equal else "not equal", end="\n\n")
    print(table(contenders, len(lines)))
    if arguments.out:
        figures = {one.name: {"seconds": one.seconds, "starts_s": one.starts_s} for one in contenders}
        write_json({"machine": describe_machine(processors), "sentences": len(lines), **figures}, arguments.out)


if __name__ == "__main__":
    main()
