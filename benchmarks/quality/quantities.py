"""Whether translations keep numbers, amounts, dates and times, and spell them as their language does.

    python -m benchmarks.quality.quantities --number 2500

Generates N sentences of each direction between English and German, in 16 kinds: integers and decimals, amounts,
percentages, dates with and without the names of months and days, times, units, ordinals, ranges, and numbers that stay
as they are. A translation is right in value if it has all values of its sentence, each as a whole and in a form that a
reader of its language reads as this value, and no other number. It is right in spelling if the forms are those of CLDR
and of common use in this language (aims: 99.5 and 97 %). The forms are in :mod:`benchmarks.quality.quantity_forms`.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np

from benchmarks.quality.command_line import add_arguments as add_shared_arguments
from benchmarks.quality.command_line import main as run_program
from benchmarks.quality.command_line import write_results
from model.commands.models import chosen_pairs, decoding_options, load_translator, with_progress
from model.languages import plain_code

_LANGUAGES = ("de", "en")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command."""
    add_shared_arguments(parser, 2500, "sentences of each direction")
    parser.add_argument("--kind", action="append", metavar="NAME", help="only this kind; may be given several times")


def run(arguments: argparse.Namespace) -> int:
    """Generate, translate, grade and print."""
    from tabulate import tabulate

    from benchmarks.quality.quantity_cases import quantity_cases

    options = decoding_options(arguments)
    translator = load_translator(arguments)
    rows: list[dict[str, str | int | float]] = []
    totals: list[tuple[bool, bool]] = []
    for pair in chosen_pairs(arguments.pair, translator.manifest.directions):
        source, target = map(plain_code, pair)
        if {source, target} != set(_LANGUAGES):
            continue
        cases = quantity_cases(source, target, arguments.number, np.random.default_rng(arguments.seed))
        cases = [case for case in cases if not arguments.kind or case.kind in arguments.kind]
        translations = translator.translate(
            [case.source for case in cases],
            options,
            *pair,
            progress=partial(_progress, "-".join(pair)),
        )
        grades: dict[str, list[tuple[bool, bool]]] = defaultdict(list)
        for case, translation in zip(cases, translations, strict=True):
            grade = case.grade(translation.text)
            grades[case.kind].append(grade)
            totals.append(grade)
            if not all(grade) and len([item for item in grades[case.kind] if not all(item)]) <= arguments.show:
                print(f"{'spelling' if grade[0] else 'VALUE'} {case.kind}: {case.source!r} -> {translation.text!r}")
        rows += [_row("-".join(pair), kind, of_kind) for kind, of_kind in grades.items()]
    rows.append(_row("all", "all", totals))
    print(tabulate(rows, headers="keys", tablefmt="pipe", floatfmt=".1f"), flush=True)
    write_results({"quantities": rows}, arguments)
    return 0


def _progress(name: str, items: Iterable[Any], label: str, total: int) -> Iterable[Any]:
    return with_progress(items, name, total)


def _row(pair: str, kind: str, grades: Sequence[tuple[bool, bool]]) -> dict[str, str | int | float]:
    right = [100 * sum(grade[index] for grade in grades) / max(len(grades), 1) for index in (0, 1)]
    return {"direction": pair, "kind": kind, "sentences": len(grades), "value, %": right[0], "spelling, %": right[1]}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; the exit status is 1 after an error, which is printed to standard error."""
    return run_program(__doc__, add_arguments, run, argv)


if __name__ == "__main__":
    sys.exit(main())
