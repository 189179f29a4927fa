"""The command lines of the benchmarks: options that several share, progress, and the environment of their processes."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from tqdm import tqdm

from benchmarks.tables import RESULTS

Number = TypeVar("Number", int, float)


def positive(kind: type[Number]) -> Callable[[str], Number]:
    """The type of an option whose value is a number above 0."""

    def convert(text: str) -> Number:
        value = kind(text)
        if value <= 0:
            raise argparse.ArgumentTypeError(f"{text} is not above 0")
        return value

    convert.__name__ = f"positive {kind.__name__}"  # argparse names it in errors
    return convert


def parser(
    description: str | None,
    *,
    rounds: int | None = None,
    threads: int | None = None,
    out: bool = False,
    quick: bool = False,
) -> argparse.ArgumentParser:
    """A parser with the options that several benchmarks share.

    Args:
        description: The docstring of the module.
        rounds: Default of ``--rounds``; None omits the option.
        threads: Default of ``--threads``; None omits the option.
        out: Whether there is ``--out``, the folder of figures and plots.
        quick: Whether there is ``--quick``.
    """
    result = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    if rounds is not None:
        help_ = "rounds after the warm-up; default %(default)s"
        result.add_argument("--rounds", type=positive(int), default=rounds, metavar="N", help=help_)
    if threads is not None:
        help_ = "threads of each engine or server; default %(default)s"
        result.add_argument("--threads", type=positive(int), default=threads, metavar="N", help=help_)
    if out:
        help_ = "folder for figures and plots; default %(default)s"
        result.add_argument("--out", type=Path, default=RESULTS, metavar="FOLDER", help=help_)
    if quick:
        result.add_argument("--quick", action="store_true", help="the shortest run, which only shows that it works")
    return result


def prepare_environment(*, quick: bool = False) -> None:
    """Set variables for this process and the ones that it starts.

    Args:
        quick: Whether threads wait passively, so that they do not slow down other processes.
    """
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")  # torch warns of deprecations in every process
    if quick:
        os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


@contextmanager
def progress(total: int, unit: str = "turn") -> Iterator[tuple[Callable[[str], None], Callable[[str], None]]]:
    """A progress bar on standard error.

    Args:
        total: Number of turns.
        unit: Name of a turn.

    Yields:
        A function that counts a turn, with its description, and one that prints text beside the bar.
    """
    with tqdm(total=total, unit=unit, file=sys.stderr) as bar:

        def advance(description: str) -> None:
            bar.set_description(description)
            bar.update()

        def show(text: str) -> None:
            bar.clear()
            print(text, flush=True)

        yield advance, show
