"""The command ``calibrate``: learn what a model's confidence is worth, and store that with the model."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import islice, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from model.commands.models import (
    add_decoding_arguments,
    add_model_arguments,
    chosen_pairs,
    decoding_options,
    device_of,
    load_translator,
    output_file,
    say,
    with_progress,
)
from model.errors import ConfigError, SourceTooLong
from model.process.progress import Progress
from model.training.calibration import SURE, UNGRADED_SCALE, Bin, Quality, coverage_bound, fit, measure
from model.training.graded import GradedTranslation, given_plan, read_graded
from model.translation.confidence import FITTED, Calibration, Evidence
from model.translation.options import TranslationOptions
from model.translation.plan import Plan

if TYPE_CHECKING:
    from model.translator import Translator

_NUM_JOINED = 500
"""Pairs of sentences in which words without translation are looked for."""

EPILOG = """\
example:
  verso calibrate --model mine.pt --dev DATA/eval/dev --dev DATA/eval/chat-dev --graded graded.tsv \\
      --plot reliability.png --out mine-calibrated.pt
Fits the score of 'return_confidence': the probability that a careful reader calls a translation right in meaning. The
development text is translated in all directions, and the references show how much each feature of the model's
probabilities tells. Grades of a reader, some hundred of this model's translations, set the scale; without --graded it
is that of the shipped translator. A file of graded translations has a header and tabs between its columns: use (fit or
test), kind, source_language, target_language, source, reference, translation, right (yes or no). The coefficients are
written into a copy of the model: into the manifest of a bundle, or into a checkpoint, from which all its bundles get
them. What is measured was not used to fit: the graded translations for 'test', and test sets, of which references say
what is right. For each of them the command prints the area under the ROC curve (the probability that a wrong
translation has a lower score than a right one), the expected calibration error, and the share of right translations by
score.
"""


class Example(NamedTuple):
    """A translated line of text, or a graded translation.

    Args:
        plan: The line and its translation.
        evidence: What the model says about each of its sentences.
        right: The probability that the translation is right: by its reference, or 0 or 1 by its grade.
    """

    plan: Plan
    evidence: list[Evidence]
    right: float

    @property
    def is_right(self) -> bool:
        """Whether it is right, more probably than not."""
        return self.right >= 0.5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command."""
    add_model_arguments(parser)
    base: dict[str, Any] = {"type": Path, "action": "append", "metavar": "BASE"}
    also = "without language ending; may be given several times"
    parser.add_argument("--dev", required=True, help=f"parallel text to fit to, {also}", **base)
    parser.add_argument("--test", default=[], help=f"parallel text to measure on, {also}", **base)
    parser.add_argument("--graded", type=Path, metavar="FILE", help="translations of this model, graded by a reader")
    parser.add_argument("--pair", action="append", metavar="XX-YY", help="only this pair; may be given several times")
    parser.add_argument("--limit", type=int, metavar="N", help="at most N lines of each text, spread over it")
    parser.add_argument("--out", type=output_file, required=True, metavar="FILE", help="the calibrated model to write")
    parser.add_argument("--plot", type=output_file, metavar="FILE", help="also draw the reliability diagram (.png)")
    add_decoding_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Fit, measure and write it."""
    if arguments.plot and arguments.plot.suffix != ".png":
        raise ConfigError(f"--plot is {str(arguments.plot)!r}; it must end in .png.")
    options = decoding_options(arguments)
    translator = load_translator(arguments)
    pairs = chosen_pairs(arguments.pair, translator.manifest.directions)
    rows = [] if arguments.graded is None else [row for row in read_graded(arguments.graded) if row.pair in pairs]
    dev = _translated(translator, options, arguments.dev, pairs, arguments.limit)
    examples = [example for text in dev.values() for example in text]
    scale, calibration = _rescaled(_fitted(examples), graded_examples(translator, options, rows, "fit"))
    tests = _translated(translator, options, arguments.test, pairs, arguments.limit)
    tests |= graded_by_pair(translator, options, rows)
    if not tests:
        say("without --graded and --test, the development text is measured, which the score was fitted to")
    measured = report_quality(translator.manifest.name, calibration, tests or dev, arguments.plot)
    _print_coverage(translator, calibration, examples)
    facts = {
        **asdict(calibration),
        "estimates": "right",
        "scale": list(scale),
        "dev": {name: len(text) for name, text in dev.items()},
        "graded": sum(row.use == "fit" and bool(row.right) for row in rows),
        "test": {
            name: {
                "sentences": quality.num_sentences,
                "auc": quality.auc,
                "calibration_error": quality.calibration_error,
            }
            for name, quality in measured.items()
            if tests
        },
    }
    _write(arguments, facts)
    print(arguments.out)
    return 0


def graded_examples(
    translator: Translator, options: TranslationOptions, rows: Iterable[GradedTranslation], use: str
) -> list[Example]:
    """Graded translations with the evidence of a model for them; those without a grade are left out.

    Args:
        translator: The model.
        options: How it translates. A graded translation that it writes itself is read in the tokens it writes.
        rows: The translations.
        use: ``fit`` or ``test``: which of them.
    """
    chosen = [row for row in rows if row.use == use and row.right]
    own = [translator.pipeline.prepare(row.source, *row.pair, options) for row in chosen]
    translator.decode(own, _progress(f"graded translations for {use}"))
    plans = [
        plan if plan.complete().text == row.translation else given_plan(translator.pipeline, row)
        for row, plan in zip(chosen, own, strict=True)
    ]
    return [
        Example(plan, translator.confidence(plan), float(row.right == "yes"))
        for row, plan in zip(chosen, plans, strict=True)
    ]


def graded_by_pair(
    translator: Translator, options: TranslationOptions, rows: Sequence[GradedTranslation]
) -> dict[str, list[Example]]:
    """The graded translations that a score is measured by, by direction.

    Args:
        translator: The model.
        options: As for :func:`graded_examples`.
        rows: Graded translations.
    """
    pairs = sorted({row.pair for row in rows if row.use == "test"})
    return {
        f"graded, {'-'.join(pair)}": graded_examples(
            translator, options, [row for row in rows if row.pair == pair], "test"
        )
        for pair in pairs
    }


def _translated(
    translator: Translator,
    options: TranslationOptions,
    bases: Iterable[Path],
    pairs: Sequence[tuple[str, str]],
    limit: int | None,
) -> dict[str, list[Example]]:
    """The lines of parallel texts, translated in each direction, by the name of the text."""
    from model.training.adequacy import probabilities_right
    from model.training.corpus import read_parallel, spread

    examples: dict[str, list[Example]] = {}
    for base in bases:
        for pair in pairs:
            lines = read_parallel(base, pair)
            lines = lines if limit is None else spread(lines, limit)
            plans = [translator.pipeline.prepare(source, *pair, options) for source, _ in lines]
            translator.decode(plans, _progress(f"{base.name} {'-'.join(pair)}"))
            right = probabilities_right([plan.complete().text for plan in plans], [target for _, target in lines])
            examples.setdefault(base.name, []).extend(
                Example(plan, translator.confidence(plan), probability)
                for plan, probability in zip(plans, right, strict=True)
            )
    return examples


def _progress(label: str) -> Progress:
    return lambda finished, _, total: with_progress(finished, label, total)


def _fitted(examples: Sequence[Example]) -> Calibration:
    """A calibration fitted to references. Lines of several sentences are left out: their references are not split."""
    single = [example for example in examples if len(example.evidence) == 1]
    features = [example.evidence[0].features() for example in single]
    names = [name for name in FITTED if name in features[0]]
    right = [example.right for example in single]
    intercept, weights = fit([[row[name] for name in names] for row in features], right)
    gains = [gain for example in single if example.is_right for _, gain in example.plan.source_gains(example.evidence)]
    bound = coverage_bound(gains) if gains else 0.0
    return Calibration(intercept, dict(zip(names, weights, strict=True)), bound)


def _rescaled(calibration: Calibration, graded: Sequence[Example]) -> tuple[tuple[float, float], Calibration]:
    """The scale of grades, and the calibration on it."""
    scale = UNGRADED_SCALE
    if graded:
        single = [example for example in graded if len(example.evidence) == 1]
        logits = [[calibration.logit(example.evidence[0])] for example in single]
        intercept, (slope,) = fit(logits, [example.right for example in single])
        scale = intercept, slope
    return scale, calibration.rescaled(*scale)


def report_quality(
    name: str, calibration: Calibration, texts: Mapping[str, Sequence[Example]], plot: Path | None
) -> dict[str, Quality]:
    """Print how good the scores of translations are, and draw it; returns the measures by the name of the text.

    Args:
        name: The name of the model.
        calibration: Computes the scores.
        texts: The translations, by the name of their text.
        plot: The PNG file to write; None for none.
    """
    measured = {text: _measured(calibration, examples) for text, examples in texts.items()}
    together = _measured(calibration, [example for examples in texts.values() for example in examples])
    shown = {**measured, "all": together} if len(measured) > 1 else measured
    _print_quality(shown, together.bins)
    if plot:
        from model.plots import reliability_diagram  # matplotlib takes half a second to import

        reliability_diagram({text: quality.bins for text, quality in shown.items()}, f"confidence of {name}", plot)
    return measured


def _measured(calibration: Calibration, examples: Sequence[Example]) -> Quality:
    scores = [calibration.text_score(example.evidence) for example in examples]
    return measure(scores, [example.is_right for example in examples])


def _print_quality(measured: Mapping[str, Quality], bins: Sequence[Bin]) -> None:
    """Print measures by the name of the text, and the bins of all texts together, as tables."""
    from tabulate import tabulate

    rows = [
        [
            name,
            quality.num_sentences,
            f"{quality.right:.3f}",
            f"{quality.auc:.3f}",
            f"{quality.calibration_error:.3f}",
            quality.num_sure,
            f"{quality.sure_right:.3f}",
        ]
        for name, quality in measured.items()
    ]
    sure = f"score {SURE} or more"
    header = ["text", "translations", "right", "area under ROC", "calibration error", sure, "right of these"]
    print(tabulate(rows, header, tablefmt="pipe", disable_numparse=True), end="\n\n")
    rows = [[f"{bin.mean_score:.2f}", f"{bin.right:.2f}", bin.num_sentences] for bin in bins]
    print(tabulate(rows, ["mean score", "right", "translations"], tablefmt="pipe", disable_numparse=True))


def _print_coverage(translator: Translator, calibration: Calibration, examples: Sequence[Example]) -> None:
    """Join pairs of sentences, as if the translation of one had been left out, and count the uncovered words."""
    tallies = {True: [0, 0], False: [0, 0]}  # by whether a word's translation was left out: uncovered words, all words
    single = [example for example in examples if example.is_right and len(example.evidence) == 1]
    for number, (first, second) in enumerate(islice(pairwise(single), 0, 2 * _NUM_JOINED, 2)):
        if (first.plan.source, first.plan.target) != (second.plan.source, second.plan.target):
            continue
        translated = number % 2
        plan = _join(translator, first.plan, second.plan, translated)
        if plan is None:
            continue
        begin = len(first.plan.text) + 1
        for (start, _), gain in plan.source_gains(translator.confidence(plan)):
            counts = tallies[(start >= begin) != bool(translated)]
            counts[0] += gain < calibration.coverage_bound
            counts[1] += 1
    if tallies[True][1]:
        print(
            f"\nuncovered: {tallies[True][0]} of {tallies[True][1]} words of sentences that were left out, "
            f"{tallies[False][0]} of {tallies[False][1]} words of translated sentences beside them"
        )


def _join(translator: Translator, first: Plan, second: Plan, translated: int) -> Plan | None:
    """Two sentences as one, with the translation of one of them; None if they are too long together."""
    text = f"{first.text} {second.text}"
    try:
        plan = translator.pipeline.plan_sentence(text, first.source, first.target, TranslationOptions())
    except SourceTooLong:
        return None
    plan.settle([(first, second)[translated].hypotheses[0]])
    plan.drop_retries()  # an incomplete translation may lack a number; it is read all the same
    return plan


def _write(arguments: argparse.Namespace, confidence: dict[str, Any]) -> None:
    """Write a copy of the model with its calibration."""
    from model.artifacts.archive import add_calibration
    from model.artifacts.bundle import is_checkpoint
    from model.artifacts.checkpoint import load_checkpoint, save_checkpoint
    from model.artifacts.pretrained import build_pretrained

    auto = arguments.model == "auto"
    path = build_pretrained(device_of(arguments), report=say) if auto else Path(arguments.model)
    if is_checkpoint(path):
        checkpoint = load_checkpoint(path)
        save_checkpoint(replace(checkpoint, facts={**checkpoint.facts, "confidence": confidence}), arguments.out)
    else:
        add_calibration(path, confidence, arguments.out)
