"""Everyday sentences whose translation has words that are certain: 300 of them, graded by patterns.

Salutations, closings, weekdays, months, greetings, restaurants, "How do I ...?", times and amounts, names of places:
half from English, half from German. ``python -m tests.quality.everyday`` prints the share that is right, by kind, and
the translations that are not.
"""

from __future__ import annotations

import argparse
import csv
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from model import TranslationOptions, Translator
from model.artifacts.pretrained import build_pretrained
from model.commands.models import say
from model.training.corpus import bare_words, find_text, read_lines

FILE = Path(__file__).with_name("everyday.tsv")


@dataclass(frozen=True)
class Check:
    """A sentence and what its translation must and must not contain.

    Args:
        kind: The kind of sentence.
        source: Its language.
        text: The sentence.
        reference: A right translation.
        right: Regular expressions that all must be found in the translation.
        wrong: A regular expression that must not be found; empty for none.
    """

    kind: str
    source: str
    text: str
    reference: str
    right: tuple[str, ...]
    wrong: str

    @property
    def target(self) -> str:
        """The language of the translation."""
        return "de" if self.source == "en" else "en"

    def passes(self, translation: str) -> bool:
        """Whether a translation is right as far as the patterns can tell."""
        return all(re.search(pattern, translation) for pattern in self.right) and not (
            self.wrong and re.search(self.wrong, translation)
        )


def read_checks(path: Path = FILE) -> list[Check]:
    """Read the checks from a file with a header and tabs between its columns."""
    with path.open(encoding="utf-8", newline="") as lines:
        return [
            Check(
                row["kind"], row["from"], row["text"], row["reference"], tuple(row["right"].split(" && ")), row["wrong"]
            )
            for row in csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
        ]


def translate_checks(translator: Translator, checks: Sequence[Check], options: TranslationOptions) -> dict[Check, str]:
    """The translations of all checks."""
    result: dict[Check, str] = {}
    for source in ("en", "de"):
        some = [check for check in checks if check.source == source]
        translations = translator.translate([check.text for check in some], options, source, some[0].target)
        result.update((check, translation.text) for check, translation in zip(some, translations, strict=True))
    return result


def print_table(result: Mapping[Check, str], observed: Sequence[Check]) -> None:
    """Print the share that is right by kind and direction, and each translation that is not."""
    print("| kind | en-de | de-en |\n|---|---|---|")
    for kind in dict.fromkeys(check.kind for check in result):
        print(f"| {kind} | {_share(result, kind=kind, source='en')} | {_share(result, kind=kind, source='de')} |")
    print(f"| all | {_share(result, source='en')} | {_share(result, source='de')} |")
    right = sum(check.passes(text) for check, text in result.items())
    print(f"\n{right} of {len(result)} right, {100 * right / len(result):.1f} %")
    if observed:
        seen_right = sum(check.passes(result[check]) for check in observed)
        print(
            f"of the {len(observed)} that the training text contains {seen_right}; of the others {right - seen_right}"
        )
    for check, text in result.items():
        if not check.passes(text):
            print(f"  {check.kind} {check.source}: {check.text} -> {text}  (for example: {check.reference})")


def _share(result: Mapping[Check, str], *, source: str, kind: str | None = None) -> str:
    graded = [
        check.passes(text) for check, text in result.items() if check.source == source and kind in (None, check.kind)
    ]
    return f"{sum(graded)}/{len(graded)}"


def _in_text(checks: Sequence[Check], bases: Sequence[Path]) -> list[Check]:
    """The checks whose sentence is a line of a training text, up to case and punctuation."""
    lines = {
        language: {bare_words(line) for base in bases for line in read_lines(find_text(Path(f"{base}.{language}")))}
        for language in ("en", "de")
    }
    return [check for check in checks if bare_words(check.text) in lines[check.source]]


def main() -> int:
    """Grade a model."""
    parser = argparse.ArgumentParser(prog="python -m tests.quality.everyday", description=__doc__)
    parser.add_argument("--model", type=Path, metavar="FILE", help="a bundle; default: the translator that ships")
    parser.add_argument("--decoding", choices=["greedy", "beam"], default="beam")
    parser.add_argument(
        "--text",
        type=Path,
        action="append",
        default=[],
        metavar="BASE",
        help="training text without language ending; counts the sentences that it contains apart from the others",
    )
    arguments = parser.parse_args()
    checks = read_checks()
    path = arguments.model or build_pretrained("cpu", report=say)
    result = translate_checks(Translator.load(path), checks, TranslationOptions(decoding=arguments.decoding))
    print_table(result, _in_text(checks, arguments.text) if arguments.text else [])
    return 0


if __name__ == "__main__":
    sys.exit(main())
