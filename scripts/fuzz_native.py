"""Fuzzes the C++ decoder: libFuzzer with address and undefined-behaviour sanitizers calls its C interface.

What is called, and what is promised of every answer, is in ``tests/fuzz/native/targets.cpp``. Inputs that reached new
code are kept in the corpus, so that a later run continues where this one stopped. Without clang, g++ builds the same
targets with a driver that changes inputs blindly (``tests/fuzz/native/standalone.cpp``).

Exit status: 0 nothing was found, 1 a crash or a broken promise (its input is named), 2 wrong arguments, 3 nothing can
be built or run here (0 with ``--if-possible``); standard error says what is missing.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from model.decoding.native.compiler import (
    CHECKED,
    DECODER,
    FLAGS,
    CompilerFailed,
    Unavailable,
    Unit,
    compile_units,
    digest,
    units,
)
from model.decoding.native.library import processor_reason

ROOT = Path(__file__).parents[1]
HARNESS = ROOT / "tests" / "fuzz" / "native"
FOLDER = ROOT / "build" / "fuzz-native"
"""Programs, corpus and crashes; git ignores it."""

TARGETS = ("model", "cohort", "forced", "threads", "pool")
LONGEST_INPUT = 1024
_NUM_SEEDS = 48
_RUN_LIMIT_S = 60
_SLOW_S = 20
"""One input that takes longer is reported like a crash."""

_CLANGS = ("clang++", *(f"clang++-{version}" for version in range(22, 13, -1)))
_FOR_A_PROGRAM = (*FLAGS, *CHECKED)
_SANITIZED = (
    "-fsanitize=address,undefined,float-cast-overflow",
    "-fno-sanitize-recover=all",
    "-fno-omit-frame-pointer",
)
# memory.h knows AddressSanitizer by GCC's macro.
_CLANG_FLAGS = ("-O2", "-gline-tables-only", "-D__SANITIZE_ADDRESS__", "-fsanitize=fuzzer")
_GCC_FLAGS = ("-O1",)  # without line numbers, which double the time


class CannotFuzz(Exception):
    """Something is missing on this machine; the message names it."""


@dataclass(frozen=True)
class Program:
    """The compiled targets.

    Args:
        path: The program; ``VERSO_FUZZ_TARGET`` chooses what it runs.
        guided: Whether it is libFuzzer, which looks for inputs that reach new code.
    """

    path: Path
    guided: bool


@dataclass(frozen=True)
class Result:
    """The result of one target.

    Args:
        target: Its name.
        executions: Inputs run.
        seconds: Time taken.
        edges: Edges of the program that inputs reached; None if they are not counted.
        crash: The input that ended it, if one did.
        report: The end of what it printed, if it failed.
    """

    target: str
    executions: int
    seconds: float
    edges: int | None
    crash: Path | None
    report: str


def main(arguments: Sequence[str] | None = None) -> int:
    """Build, fuzz, print a table, and return the exit status."""
    options = _parser().parse_args(arguments)
    targets: list[str] = options.target or list(TARGETS)
    try:
        program = build(options.compiler)
    except CannotFuzz as error:
        print(f"The C++ decoder is not fuzzed: {error}.", file=sys.stderr)
        return 0 if options.if_possible else 3
    with ThreadPoolExecutor(max_workers=options.jobs) as jobs:
        results = list(jobs.map(lambda name: fuzz(program, name, options.seconds, options.corpus), targets))
    print(f"{'target':8} {'executions':>11} {'per second':>11} {'edges':>7} {'seconds':>8} {'crashes':>8}")
    for result in results:
        rate = result.executions / max(result.seconds, 1e-9)
        edges = "-" if result.edges is None else result.edges
        print(
            f"{result.target:8} {result.executions:11,} {rate:11,.0f} {edges:>7} {result.seconds:8.0f} "
            f"{int(bool(result.report)):8}"
        )
    for result in results:
        if result.report:
            print(f"\n{result.target}:\n{result.report}")
            print(f"Again: VERSO_FUZZ_TARGET={result.target} {program.path} {result.crash or '(no input was kept)'}")
    return int(any(result.report for result in results))


def build(compiler: str = "auto") -> Program:
    """Compile the targets unless these sources were compiled already.

    Args:
        compiler: ``clang``, ``gcc``, or ``auto``: clang if it can, else gcc.

    Raises:
        CannotFuzz: The processor or a compiler with its sanitizers is missing.
    """
    reason = processor_reason()
    if reason is not None:
        raise CannotFuzz(reason)
    reasons = []
    if compiler != "gcc":
        for clang in filter(None, map(shutil.which, _CLANGS)):
            try:
                return Program(_compiled(clang, _CLANG_FLAGS, ["targets.cpp"]), guided=True)
            except CannotFuzz as error:
                reasons.append(str(error))
        reasons = reasons or ["there is no clang++; Debian has it in clang-14 and libclang-rt-14-dev"]
    if compiler != "clang":
        if gcc := shutil.which("g++"):
            if reasons:
                print(f"{'; '.join(reasons)}: g++ fuzzes, without looking at coverage", file=sys.stderr)
            return Program(_compiled(gcc, _GCC_FLAGS, ["targets.cpp", "standalone.cpp"]), guided=False)
        reasons.append("there is no g++")
    raise CannotFuzz("; ".join(reasons))


def _compiled(compiler: str, flags: tuple[str, ...], sources: Sequence[str]) -> Path:
    """The program of these sources, which is kept.

    Raises:
        CannotFuzz: The compiler lacks the sanitizers' libraries.
        SystemExit: The sources have an error or a warning.
    """
    arguments = [*_FOR_A_PROGRAM, *flags, *_SANITIZED, f"-I{ROOT}"]
    command = [compiler, *arguments]
    key = hashlib.sha256(digest(command).encode())
    for path in sorted(HARNESS.iterdir()):
        key.update(path.read_bytes())
    program = FOLDER / f"targets-{key.hexdigest()[:16]}"
    if program.is_file():
        return program
    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=FOLDER) as folder:
        # Whether the sanitizers are installed shows when a program is linked; the targets take half a minute.
        empty = Path(folder, "empty.cpp")
        empty.write_text('extern "C" int LLVMFuzzerTestOneInput(const unsigned char*, unsigned long) { return 0; }\n')
        main_of_gcc = [] if "-fsanitize=fuzzer" in flags else ["-shared", "-fPIC"]
        trial = subprocess.run(
            [*command, *main_of_gcc, "-o", f"{folder}/empty", str(empty)], capture_output=True, text=True, check=False
        )
        if trial.returncode:
            raise CannotFuzz(f"{compiler} has no libraries of the sanitizers (libclang-rt-14-dev for clang-14)")
        built = Path(folder, program.name)
        # The targets include decoder.cpp, so that they can call what its interface hides.
        kernels = [unit for unit in units() if unit.source != DECODER]
        targets = [Unit(name, HARNESS / name) for name in sources]
        try:
            objects = compile_units((compiler,), [*targets, *kernels], arguments, Path(folder))
        except CompilerFailed as error:
            raise SystemExit(error.output) from error
        except Unavailable as error:
            raise CannotFuzz(str(error)) from error
        linked = subprocess.run(
            [*command, "-o", str(built), *map(str, objects)], capture_output=True, text=True, check=False
        )
        if linked.returncode:
            raise SystemExit(linked.stderr)
        for old in FOLDER.glob("targets-*"):
            if time.time() - old.stat().st_mtime > 7 * 24 * 3600:
                old.unlink()
        built.replace(program)
    return program


def fuzz(program: Program, target: str, seconds: float, corpus: Path) -> Result:
    """Run one target for some time."""
    inputs = corpus / target
    crashes = FOLDER / "crashes"
    for folder in (inputs, crashes):
        folder.mkdir(parents=True, exist_ok=True)
    if not any(inputs.iterdir()):
        _write_seeds(inputs, target)
    crash = crashes / f"{target}-{os.getpid()}-{time.time_ns()}"
    if program.guided:
        command = [
            *(str(program.path), f"-max_total_time={max(1, round(seconds))}", f"-max_len={LONGEST_INPUT}"),
            *("-len_control=0", f"-timeout={_SLOW_S}", "-rss_limit_mb=2048", "-print_final_stats=1"),
            *(f"-exact_artifact_path={crash}", str(inputs)),
        ]
    else:
        command = [str(program.path), str(inputs), str(seconds), str(crash)]
    environment = {
        **os.environ,
        "VERSO_FUZZ_TARGET": target,
        # abort() then writes the input; freed memory is watched for a while, but does not fill up the machine.
        "ASAN_OPTIONS": "handle_abort=1:quarantine_size_mb=32",
        "UBSAN_OPTIONS": "print_stacktrace=1",
    }
    start = time.monotonic()
    try:
        limit = seconds + 5 * _RUN_LIMIT_S
        process = subprocess.run(
            command, env=environment, capture_output=True, text=True, errors="replace", timeout=limit, check=False
        )
        output, failed = process.stdout + process.stderr, process.returncode != 0
    except subprocess.TimeoutExpired:
        output, failed = f"It did not end within {limit:.0f} s.", True
    covered = re.findall(r"\bcov: (\d+)", output)
    return Result(
        target,
        int(next(iter(re.findall(r"^stat::number_of_executed_units: *(\d+)", output, re.MULTILINE)), "0")),
        time.monotonic() - start,
        int(covered[-1]) if covered else None,
        crash if crash.is_file() else None,
        _report(output) if failed else "",
    )


def _report(output: str) -> str:
    """What a failed run said, without the progress before."""
    lines = output.strip().splitlines()
    telling = re.compile(r"broken promise|runtime error|ERROR: |did not end")
    first = next((number for number, line in enumerate(lines) if telling.search(line)), max(0, len(lines) - 30))
    return "\n".join(lines[first : first + 30]) or "It failed without a word."


def _write_seeds(folder: Path, target: str) -> None:
    """Start a corpus: random bytes already are a model and a sequence of calls."""
    generator = random.Random(target)
    for number in range(_NUM_SEEDS):
        length = LONGEST_INPUT // 2 * (1 + number % 16) // 16
        (folder / f"seed-{number:02d}").write_bytes(generator.randbytes(length))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="example: scripts/fuzz_native.py --seconds 600 --target cohort --corpus /var/tmp/fuzz",
    )
    parser.add_argument("--seconds", type=float, default=60, help="time of each target; default 60")
    parser.add_argument(
        "--target", action="append", choices=TARGETS, help="only this one; may be given again; default all"
    )
    parser.add_argument("--jobs", type=int, default=1, help="targets that run at a time; default 1")
    parser.add_argument(
        "--corpus", type=Path, default=FOLDER / "corpus", help="folder of inputs, one folder each; default %(default)s"
    )
    parser.add_argument(
        "--compiler", choices=("auto", "clang", "gcc"), default="auto", help="default: clang if there is one, else gcc"
    )
    parser.add_argument("--if-possible", action="store_true", help="succeed where nothing can be built or run")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
