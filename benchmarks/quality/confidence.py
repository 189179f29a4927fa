"""Whether the confidence of a model is what readers find: the share of translations that are right in meaning.

    python -m benchmarks.quality.confidence --plot reliability.png
    python -m benchmarks.quality.confidence --model new.pt --translate new.tsv
    python -m benchmarks.quality.confidence --measures

The first command measures the scores that a model gives to graded translations (``data/graded``; those for ``test``,
which no calibration is fitted to): the area under the ROC curve, the calibration error, and how many of the
translations with a score of 0.9 or more are right (aims: 0.80 and 85 %). The second one writes the file again with the
translations of another model. Grades of translations that did not change are kept; the others are left empty, for a
reader. The third one compares measures that need a reference with the grades.
"""

from __future__ import annotations

import argparse
import math
import re
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.quality.command_line import main as run_program
from model.commands.calibrate import graded_by_pair, report_quality
from model.commands.models import (
    add_decoding_arguments,
    add_model_arguments,
    decoding_options,
    load_translator,
    output_file,
    with_progress,
)
from model.training.calibration import fit, roc_auc
from model.training.graded import GradedTranslation, read_graded, write_graded
from model.translation.options import TranslationOptions
from model.translator import Translator

FILE = Path(__file__).parents[2] / "data" / "graded" / "en-de.tsv"

_LONG = 5
"""Characters of a word that carries meaning, in a measure."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command."""
    add_model_arguments(parser)
    parser.add_argument("--graded", type=Path, default=FILE, metavar="FILE", help="graded translations")
    parser.add_argument("--plot", type=output_file, metavar="FILE", help="also draw the reliability diagram (.png)")
    parser.add_argument(
        "--translate", type=output_file, metavar="FILE", help="write the model's own translations there"
    )
    parser.add_argument("--measures", action="store_true", help="compare measures of a reference with the grades")
    add_decoding_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Measure and print, or write a file to grade."""
    rows = read_graded(arguments.graded)
    if arguments.measures:
        _print_measures([row for row in rows if row.right])
        return 0
    options = decoding_options(arguments)
    translator = load_translator(arguments)
    rows = [row for row in rows if row.pair in translator.manifest.directions]
    if arguments.translate:
        translated = translate_again(translator, rows, options)
        write_graded(translated, arguments.translate)
        print(f"{sum(not row.right for row in translated)} of {len(rows)} translations are to be graded")
        return 0
    examples = graded_by_pair(translator, options, rows)
    report_quality(translator.manifest.name, translator.manifest.calibration, examples, arguments.plot)
    return 0


def translate_again(
    translator: Translator, rows: Sequence[GradedTranslation], options: TranslationOptions
) -> list[GradedTranslation]:
    """The rows with a model's translations; a grade is kept if its translation is the same.

    Args:
        translator: The model.
        rows: Graded translations.
        options: How to translate.
    """
    plans = [translator.prepare(row.source, *row.pair, options) for row in rows]
    translator.decode(plans, lambda finished, label, total: with_progress(finished, "sentences", total))
    return [
        row if row.translation == text else replace(row, translation=text, right="")
        for row, text in zip(rows, [plan.complete().text for plan in plans], strict=True)
    ]


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def _covered(row: GradedTranslation) -> float:
    """The share of the reference's words that the translation has."""
    words, reference = Counter(_words(row.translation)), Counter(_words(row.reference))
    return sum((words & reference).values()) / max(1, sum(reference.values()))


def _num_missing(row: GradedTranslation) -> float:
    """Minus the logarithm of the number of the reference's long words that the translation lacks."""
    missing = Counter(_words(row.reference)) - Counter(_words(row.translation))
    return -math.log1p(sum(count for word, count in missing.items() if len(word) >= _LONG))


def _print_measures(rows: Sequence[GradedTranslation]) -> None:
    """Compare measures with grades: each is fitted to the rows for ``fit``, and measured on those for ``test``."""
    from sacrebleu.metrics import BLEU, CHRF
    from tabulate import tabulate

    def similarity(metric: BLEU | CHRF) -> Callable[[GradedTranslation], float]:
        return lambda row: metric.sentence_score(row.translation, [row.reference]).score / 100

    def length(row: GradedTranslation) -> float:
        return math.log1p(len(row.reference))

    chrf, chrf_words = similarity(CHRF()), similarity(CHRF(word_order=2))
    measures: Mapping[str, tuple[Callable[[GradedTranslation], float], ...]] = {
        "chrF2": (chrf,),
        "chrF2++": (chrf_words,),
        "BLEU": (similarity(BLEU(effective_order=True)),),
        "words of the reference covered": (_covered,),
        "long words missing": (_num_missing,),
        "length of the reference": (length,),
        "chrF2, length": (chrf, length),
        "root of chrF2, length": (lambda row: math.sqrt(chrf(row)), length),
        "chrF2++, length": (chrf_words, length),
        "chrF2, length, long words missing": (chrf, length, _num_missing),
    }
    table = []
    for name, features in measures.items():
        values = {use: [[feature(row) for feature in features] for row in rows if row.use == use] for use in _USES}
        right = {use: [row.right == "yes" for row in rows if row.use == use] for use in _USES}
        intercept, weights = fit(values["fit"], right["fit"])
        areas = [
            roc_auc(
                [sum(weight * value for weight, value in zip(weights, row, strict=True)) for row in values[use]],
                right[use],
            )
            for use in _USES
        ]
        coefficients = ", ".join(f"{weight:.3f}" for weight in (intercept, *weights))
        table.append([name, *(f"{area:.3f}" for area in areas), coefficients])
    header = ["measure", "area under ROC, fitted", "held out", "intercept and coefficients"]
    print(tabulate(table, header, tablefmt="pipe", disable_numparse=True))


_USES = ("fit", "test")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; the exit status is 1 after an error, which is printed to standard error."""
    return run_program(__doc__, add_arguments, run, argv)


if __name__ == "__main__":
    sys.exit(main())
