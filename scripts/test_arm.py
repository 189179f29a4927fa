"""Tests the compiled decoder's ARM kernels on any machine under an emulator.

The decoder on this machine answers questions, which are recorded with all that it was given. Then
``tests/native/replay.cpp`` is cross-compiled with the same units and flags as the library for ARM, and run by qemu as
several processors: each must find its instruction sets, and give the same answers with every one of them. What an
emulator cannot show is speed, and what the memory of a processor with many cores does.

Exit status: 0 all answers are equal, 1 some are not or a processor does not find its sets, 3 something is not
installed; standard error says what.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from model.decoding.native.compiler import Unavailable
from tests.native.answers import record
from tests.native.replay import SETS_OF_MODELS, CannotReplay, build, find_arm_tools, replay


def main(arguments: Sequence[str] | None = None) -> int:
    """Record, build, replay, and return the exit status."""
    parser = argparse.ArgumentParser(description="Test the ARM kernels of the compiled decoder under qemu.")
    parser.add_argument("--shipped", action="store_true", help="ask the shipped translator as well (minutes)")
    parser.add_argument("--isa", default="auto", help="the instruction set of this machine that answers (auto)")
    options = parser.parse_args(arguments)
    try:
        compiler, emulator = find_arm_tools()
        program = build("aarch64", compiler)
        with tempfile.TemporaryDirectory() as folder:
            equal = True
            for shipped in (False, True) if options.shipped else (False,):
                recording = Path(folder) / "recording"
                record(recording, options.isa, shipped)
                for model in SETS_OF_MODELS:
                    equal &= _replayed(program, recording, emulator, model)
    except (CannotReplay, Unavailable, RuntimeError) as error:
        print(f"The ARM kernels are not tested: {error}.", file=sys.stderr)
        return 3
    return 0 if equal else 1


def _replayed(program: Path, recording: Path, emulator: str, model: str) -> bool:
    start = time.monotonic()
    process = replay(program, recording, emulator, model)
    print(f"{model}, {time.monotonic() - start:.0f} s:", *process.lines, process.errors, sep="\n  ", flush=True)
    if process.sets != SETS_OF_MODELS[model]:
        print(f"  This processor has {', '.join(SETS_OF_MODELS[model])}, and {', '.join(process.sets)} answered.")
    return process.status == 0 and process.sets == SETS_OF_MODELS[model]


if __name__ == "__main__":
    raise SystemExit(main())
