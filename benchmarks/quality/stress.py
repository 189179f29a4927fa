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
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.quality.perturbations import PERTURBATIONS
from benchmarks.quality.perturbed_inputs import (
    PerturbedInput,
    count_kept,
    has_replacement_character,
    invented_names,
    make_perturbed_inputs,
)
from model.commands.models import (
    add_decoding_arguments,
    add_model_arguments,
    chosen_pairs,
    decoding_options,
    load_translator,
    output_file,
    with_progress,
)
from model.commands.table import run as run_command
from model.decoding.repetition_guard import is_empty, loops
from model.errors import ConfigError
from model.translation.results import Translation


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command."""
    add_model_arguments(parser)
    parser.add_argument("--test", type=Path, required=True, metavar="BASE", help="test set without language ending")
    parser.add_argument("--pair", action="append", metavar="XX-YY", help="only this pair; may be given several times")
    parser.add_argument("--number", type=int, default=5000, metavar="N", help="odd inputs, of all kinds; default 5000")
    parser.add_argument("--seed", type=int, default=1, help="other inputs for another number; default 1")
    parser.add_argument("--json", type=output_file, metavar="FILE", help="also write the figures there")
    parser.add_argument("--show", type=int, default=0, metavar="N", help="print up to N bad answers of each kind")
    add_decoding_arguments(parser)


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
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
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
    from tabulate import tabulate

    header = [pair, "inputs", "empty", "loops", "cut", "U+FFFD", "invented names", "kept", "BLEU"]
    lines = []
    for row in rows:
        kept = f"{100 * row['kept'] / row['put_in']:.1f} % of {row['put_in']}" if row["put_in"] else ""
        bleu = "" if row["bleu"] is None else f"{row['bleu']:.1f}"
        counts = [row[key] for key in ("inputs", "empty", "loops", "cut", "replacement_characters", "invented_names")]
        lines.append([row["kind"], *counts, kept, bleu])
    alignment = ["left", *["right"] * (len(header) - 1)]
    return tabulate(lines, header, tablefmt="pipe", colalign=alignment, disable_numparse=True)


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
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.quality.stress",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_arguments(parser)
    return run_command(parser.parse_args(argv, argparse.Namespace(do=run)))


if __name__ == "__main__":
    sys.exit(main())
