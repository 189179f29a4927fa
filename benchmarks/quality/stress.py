"""The translations of perturbed inputs.

    python -m benchmarks.quality.stress --test DATA/eval/tatoeba-test-v2020-07-28 --json stress.json

Makes 5,000 odd inputs out of the test set: upper and lower case, no punctuation, typos, names of people, places and
companies, numbers, long chains of sentences, fragments, single words, headings, lists, emoji, characters of every
Unicode block, repeated marks, code, the wrong language, two languages, stuttering. Columns:
  U+FFFD          outputs that contain this sign for an unreadable character although their input does not
  invented names  outputs with a frequent first name that resembles no word of the input; a lower bound
  kept            inserted names, numbers, emoji, characters and code that are in the output unchanged
  BLEU            where the translation is still known
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.quality.command_line import add_arguments as add_shared_arguments
from benchmarks.quality.command_line import main as run_program
from benchmarks.quality.command_line import write_results
from benchmarks.quality.perturbations import PERTURBATIONS
from benchmarks.quality.perturbed_inputs import (
    PerturbedInput,
    count_kept,
    has_replacement_character,
    invented_names,
    make_perturbed_inputs,
)
from benchmarks.tables import markdown
from model.commands.models import (
    chosen_pairs,
    decoding_options,
    load_translator,
    with_progress,
)
from model.decoding.repetition_guard import is_empty, loops
from model.errors import ConfigError
from model.translation.results import Translation


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command."""
    add_shared_arguments(parser, 5000, "perturbed inputs, of all kinds")
    parser.add_argument("--test", type=Path, required=True, metavar="BASE", help="test set without language ending")


def run(arguments: argparse.Namespace) -> int:
    """Translate, count and print."""
    from model.training.corpus import read_parallel

    if arguments.number < len(PERTURBATIONS):
        raise ConfigError(f"--number is {arguments.number}; there are {len(PERTURBATIONS)} kinds, so at least as many.")
    options = decoding_options(arguments)
    translator = load_translator(arguments)
    results: dict[str, Any] = {}
    for source, target in chosen_pairs(arguments.pair, translator.manifest.directions):
        lines = read_parallel(arguments.test, (source, target))
        odd = make_perturbed_inputs(lines, arguments.number, arguments.seed)
        translations = translator.translate(
            [perturbed.text for perturbed in odd],
            options,
            source,
            target,
            progress=lambda items, _, total, label=f"{source}-{target}": with_progress(  # type: ignore[misc]
                items, label, total
            ),
        )
        pair = f"{source}-{target}"
        results[pair] = [
            _figures(name, *_of_kind(name, odd, translations))
            for name in (perturbation.name for perturbation in PERTURBATIONS)
        ]
        results[pair].append(_figures("all", odd, translations, with_bleu=False))
        print(_table(pair, results[pair]), flush=True)
        if arguments.show:
            _show(odd, translations, arguments.show)
    write_results(results, arguments)
    return 0


def _of_kind(
    name: str, odd: Sequence[PerturbedInput], translations: Sequence[Translation]
) -> tuple[list[PerturbedInput], list[Translation]]:
    indices = [index for index, perturbed in enumerate(odd) if perturbed.perturbation.name == name]
    return [odd[index] for index in indices], [translations[index] for index in indices]


def _figures(
    name: str, odd: Sequence[PerturbedInput], translations: Sequence[Translation], with_bleu: bool = True
) -> dict[str, Any]:
    """The figures of some inputs."""
    from model.scores import score

    both = list(zip(odd, translations, strict=True))
    kept = [count_kept(perturbed, translation.text) for perturbed, translation in both]
    with_reference = [
        (translation.text, perturbed.reference) for perturbed, translation in both if perturbed.reference is not None
    ]
    bleu = None
    if with_bleu and with_reference:
        texts, references = zip(*with_reference, strict=True)
        bleu = round(score(texts, references, lowercase=odd[0].perturbation.ignore_case).bleu, 1)
    return {
        "kind": name,
        "inputs": len(odd),
        "empty": sum(is_empty(translation.text, perturbed.text) for perturbed, translation in both),
        "loops": sum(loops(translation.text, perturbed.text) for perturbed, translation in both),
        "cut": sum(translation.finish_reason == "length" for _, translation in both),
        "replacement_characters": sum(
            has_replacement_character(translation.text, perturbed.text) for perturbed, translation in both
        ),
        "invented_names": sum(
            bool(invented_names(translation.text, perturbed.text)) for perturbed, translation in both
        ),
        "kept": sum(num_kept for num_kept, _ in kept),
        "put_in": sum(number for _, number in kept),
        "bleu": bleu,
    }


def _table(pair: str, rows: Sequence[dict[str, Any]]) -> str:
    header = [pair, "inputs", "empty", "loops", "cut", "U+FFFD", "invented names", "kept", "BLEU"]
    lines = []
    for row in rows:
        kept = f"{100 * row['kept'] / row['put_in']:.1f} % of {row['put_in']}" if row["put_in"] else ""
        bleu = "" if row["bleu"] is None else f"{row['bleu']:.1f}"
        counts = [
            str(row[key]) for key in ("inputs", "empty", "loops", "cut", "replacement_characters", "invented_names")
        ]
        lines.append([row["kind"], *counts, kept, bleu])
    return markdown(header, lines)


def _show(odd: Sequence[PerturbedInput], translations: Sequence[Translation], number: int) -> None:
    """Print bad translations."""
    for kind in PERTURBATIONS:
        shown = 0
        for perturbed, translation in zip(*_of_kind(kind.name, odd, translations), strict=True):
            if shown < number and _is_bad(perturbed, translation.text):
                print(f"{kind.name}: {perturbed.text!r} -> {translation.text!r}")
                shown += 1


def _is_bad(perturbed: PerturbedInput, text: str) -> bool:
    num_kept, num_inserted = count_kept(perturbed, text)
    wrong = (is_empty, loops, has_replacement_character, invented_names)
    return num_kept < num_inserted or any(is_wrong(text, perturbed.text) for is_wrong in wrong)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; the exit status is 1 after an error that standard error names."""
    return run_program(__doc__, add_arguments, run, argv)


if __name__ == "__main__":
    sys.exit(main())
