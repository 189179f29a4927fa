"""What becomes of odd inputs.

    python -m benchmarks.quality.stress --test DATA/eval/tatoeba-test-v2020-07-28 --json stress.json

Makes 5,000 odd inputs out of the test set: upper and lower case, no punctuation, typos, names of people, places and
companies, numbers, long chains of sentences, fragments, single words, headings, lists, emoji, characters of every
Unicode block, repeated marks, code, the wrong language, two languages, stuttering. Columns:
  U+FFFD          outputs that hold this sign for an unreadable character although their input does not
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
            [one.text for one in odd],
            options,
            source,
            target,
            progress=lambda items, _, total, label=f"{source}-{target}": with_progress(  # type: ignore[misc]
                items, label, total
            ),
        )
        pair = f"{source}-{target}"
        results[pair] = [
            _figures(name, *_of_kind(name, odd, translations)) for name in (one.name for one in PERTURBATIONS)
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
    places = [place for place, one in enumerate(odd) if one.perturbation.name == name]
    return [odd[place] for place in places], [translations[place] for place in places]


def _figures(
    name: str, odd: Sequence[PerturbedInput], translations: Sequence[Translation], with_bleu: bool = True
) -> dict[str, Any]:
    """What became of some inputs."""
    from model.scores import score

    both = list(zip(odd, translations, strict=True))
    kept = [count_kept(one, translation.text) for one, translation in both]
    known = [(translation.text, one.reference) for one, translation in both if one.reference is not None]
    bleu = None
    if with_bleu and known:
        texts, references = zip(*known, strict=True)
        bleu = round(score(texts, references, lowercase=odd[0].perturbation.ignore_case).bleu, 1)
    return {
        "kind": name,
        "inputs": len(odd),
        "empty": sum(is_empty(translation.text, one.text) for one, translation in both),
        "loops": sum(loops(translation.text, one.text) for one, translation in both),
        "cut": sum(translation.finish_reason == "length" for _, translation in both),
        "replacement_characters": sum(
            has_replacement_character(translation.text, one.text) for one, translation in both
        ),
        "invented_names": sum(bool(invented_names(translation.text, one.text)) for one, translation in both),
        "kept": sum(found for found, _ in kept),
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
    """Bad answers, for a look."""
    for kind in PERTURBATIONS:
        shown = 0
        for one, translation in zip(*_of_kind(kind.name, odd, translations), strict=True):
            if shown < number and _is_bad(one, translation.text):
                print(f"{kind.name}: {one.text!r} -> {translation.text!r}")
                shown += 1


def _is_bad(one: PerturbedInput, text: str) -> bool:
    found, put_in = count_kept(one, text)
    wrong = (is_empty, loops, has_replacement_character, invented_names)
    return found < put_in or any(is_wrong(text, one.text) for is_wrong in wrong)


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
