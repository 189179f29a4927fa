"""Runs the tests of the C++ decoder under AddressSanitizer and UndefinedBehaviorSanitizer.

The library is compiled into a temporary folder and handed to pytest, so that no file stays behind. The first report
of a sanitizer ends the run. What is not checked, and why:

- leaks (``detect_leaks=0``): Python and torch keep memory until the process ends;
- the code of torch and Python, which is not compiled with the sanitizers.

No finding in this project's code is suppressed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from model.decoding.native.compiler import FLAGS, Unavailable, compile_library, find_compiler

ROOT = Path(__file__).parents[1]
# Policies are tried with one scoring rule only: a rule is data, and each rule is tried with the model's own policy.
SELECTION = ("-k", "not ((forced or lend) and (-ct2- or -wu- or -marian-))")
TESTS = (
    *SELECTION,
    "tests/model/test_native.py",
    "tests/model/test_shortlist.py",
    "tests/model/test_instruction_sets.py",
)
SANITIZED = (
    *FLAGS,
    *("-O1", "-g", "-fno-omit-frame-pointer"),
    *("-fsanitize=address,undefined,float-cast-overflow", "-fno-sanitize-recover=all"),
)
PRELOADED = ("libasan.so", "libstdc++.so")
"""AddressSanitizer must be the first library of a process; it needs the functions of C++ exceptions at its start."""


def main() -> int:
    """Compile, test, and return pytest's exit status."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            library = compile_library(Path(folder) / "decoder-sanitized.so", SANITIZED)
            preloaded = [runtime_library(name) for name in PRELOADED]
        except Unavailable as error:
            print(error, file=sys.stderr)
            return 1
        environment = {
            **os.environ,
            "LD_PRELOAD": " ".join(preloaded),
            "ASAN_OPTIONS": "detect_leaks=0:strict_string_checks=1:check_initialization_order=1",
            "UBSAN_OPTIONS": "print_stacktrace=1",
            # Arrays of Python then lie in memory of their own, whose bounds are checked.
            "PYTHONMALLOC": "malloc",
            "PYTHONDONTWRITEBYTECODE": "1",
            "HYPOTHESIS_STORAGE_DIRECTORY": f"{folder}/hypothesis",
        }
        # The sanitizers write to the process's standard error, which pytest would keep from view.
        side_by_side = ["-n", "logical", "--maxprocesses=8", "--max-worker-restart=0"]
        pytest = [sys.executable, "-m", "pytest", "-q", *side_by_side, "--capture=sys", "-p", "tests.sanitized_library"]
        tests = sys.argv[1:] or TESTS
        command = [*pytest, f"--native-library={library}", f"--basetemp={folder}/pytest", *tests]
        return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode


def runtime_library(name: str) -> str:
    """The path of a library of the compiler's.

    Raises:
        Unavailable: The compiler does not have it.
    """
    compiler = find_compiler()
    command = [*compiler, f"-print-file-name={name}"]
    path = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    if not Path(path).is_absolute():
        raise Unavailable(f"{compiler[0]} has no {name}; the sanitizers need GCC and its sanitizer libraries")
    return path


if __name__ == "__main__":
    raise SystemExit(main())
