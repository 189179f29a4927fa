"""How often a translator complies with the options of a request.

    python -m benchmarks.quality.compliance --test DATA/eval/tatoeba-dev --test DATA/eval/flores-dev \\
        --lexicon runs/mine/word-lexicon.json.gz

Makes sentences out of the test sets and counts what the translator does with them:
  placeholders  N sentences of each direction, in which one to six aligned words, or the tags around them, are
                replaced on both sides by variables, URLs, tags and the like. Three counts: sentences with every span
                exactly once; sentences in which the model placed all spans and alignment restored none (aim: 99.5 %);
                sentences with the spans in the order of the reference. chrF2 counts the spans as text.
  formality     N / 4 English sentences with "you" whose German reference says du or Sie, translated without the option
                and with each form of address. A translation complies if it has the requested form and not the other
                one (aim: 97 %). Imperatives and sentences without an address count as not clear.
  glossary      N / 2 sentences with one or two terms. The targets are words of the reference, half of them in
                dictionary form, or other translations from the lexicon, which a translator would not choose by itself.
                The count: terms that occur in the translation, in any inflection (aim: 92 %).
The lexicon is a file of a training run. A model without support for an option has "not supported" in its row; its
figures are those of the substitutes: placeholders are placed, and terms replaced, by alignment.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from benchmarks.quality.command_line import add_arguments as add_shared_arguments
from benchmarks.quality.command_line import main as run_program
from benchmarks.quality.command_line import write_results
from model.commands.models import (
    add_test_argument,
    chosen_pairs,
    decoding_options,
    load_translator,
    with_progress,
)
from model.errors import ConfigError
from model.languages import plain_code
from model.translation.options import Formality, TranslationOptions
from model.translation.results import Translation
from model.translator import Translator

if TYPE_CHECKING:
    from model.training.corpus import Pair
    from model.training.word_lexicon import WordLexicon

Row = dict[str, Any]
"""Figures by name."""

_SECTIONS = {
    "placeholders": {
        "direction": "pair",
        "sentences": "sentences",
        "spans": "spans",
        "each once, %": "exactly_once",
        "all placed by the model, %": "placed_by_model",
        "order of the reference, %": "in_order",
        "chrF2": "chrf",
        "chrF2 without spans": "chrf_without_spans",
    },
    "formality": {
        "direction": "pair",
        "requested": "requested",
        "sentences": "sentences",
        "formal": "formal",
        "informal": "informal",
        "not clear": "not_clear",
        "complies, %": "complies",
    },
    "glossary": {
        "direction": "pair",
        "terms": "terms_are",
        "sentences": "sentences",
        "number of terms": "terms",
        "supported": "supported",
        "found without glossary, %": "without_glossary",
        "with it, %": "with_glossary",
        "of all, put in by alignment, %": "replaced",
    },
}
"""Headings of the columns of each table, and what they show."""

_TEXT_COLUMNS = ("pair", "requested", "terms_are", "supported")
_NEEDS_SUPPORT = ("placed_by_model", "complies")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command."""
    counts = "sentences with placeholders; half as many with terms, a quarter with forms of address"
    add_shared_arguments(parser, 2000, counts)
    add_test_argument(parser)
    parser.add_argument("--lexicon", type=Path, required=True, metavar="FILE",
                        help="word-lexicon.json.gz of a training run with the same languages")  # fmt: skip


def run(arguments: argparse.Namespace) -> int:
    """Make the sentences, translate, count and print."""
    from benchmarks.quality.compliance_inputs import is_swapped
    from model.training.corpus import read_parallel
    from model.training.word_lexicon import WordLexicon

    if arguments.number < 4:
        raise ConfigError(f"--number is {arguments.number}; it must be at least 4.")
    options = decoding_options(arguments)
    lexicon = WordLexicon.load(arguments.lexicon)
    translator = load_translator(arguments)
    results: dict[str, list[Row]] = {section: [] for section in _SECTIONS}
    for languages in chosen_pairs(arguments.pair, translator.manifest.directions):
        pairs = [pair for base in arguments.test for pair in read_parallel(base, languages)]
        swapped = is_swapped(lexicon, pairs)
        direction = _Direction(translator, options, languages, np.random.default_rng(arguments.seed), arguments.show)
        results["placeholders"] += direction.placeholders(pairs, lexicon, swapped, arguments.number)
        results["formality"] += direction.formality(pairs, arguments.number // 4)
        results["glossary"] += direction.glossary(pairs, lexicon, swapped, arguments.number // 2)
    print("\n\n".join(_table(section, rows) for section, rows in results.items() if rows), flush=True)
    write_results(results, arguments)
    return 0


class _Direction:
    """Tests one direction of a translator.

    Args:
        translator: The translator.
        options: How it decodes.
        languages: Source and target language.
        rng: Random number generator that chooses the sentences.
        show: Number of failures of each kind to print.
    """

    def __init__(
        self,
        translator: Translator,
        options: TranslationOptions,
        languages: tuple[str, str],
        rng: np.random.Generator,
        show: int,
    ) -> None:
        self._translator = translator
        self._options = options
        self._languages = languages
        self._rng = rng
        self._show = show
        self._name = "-".join(languages)

    def placeholders(self, pairs: Sequence[Pair], lexicon: WordLexicon, swapped: bool, number: int) -> list[Row]:
        """Sentences with protected spans."""
        from benchmarks.quality.compliance_figures import placed_by_model, span_figures
        from benchmarks.quality.compliance_inputs import span_cases

        cases = span_cases(pairs, lexicon, swapped, number, self._rng)
        protected = self._translate("placeholders", [case.source for case in cases])
        plain = self._translate("placeholders: without", [case.plain[0] for case in cases])
        supported = bool(self._translator.capabilities.placeholders)
        failures = [
            (case.source, translation.text)
            for case, translation in zip(cases, protected, strict=True)
            if not (case.in_order(translation.text) and case.has_all_once(translation.text))
            or (supported and not placed_by_model(translation))
        ]
        self._print_failures("placeholders", failures)
        return [{"pair": self._name, **span_figures(cases, protected, plain, supported)}]

    def formality(self, pairs: Sequence[Pair], number: int) -> list[Row]:
        """Sentences with "you", without the option and with each form of address; only for English to German."""
        from benchmarks.quality.compliance_figures import address_figures
        from benchmarks.quality.compliance_inputs import address_cases, address_in

        if [plain_code(language) for language in self._languages] != ["en", "de"]:
            return []
        cases = address_cases(pairs, number, self._rng)
        sources = [source for source, _ in cases]
        supported = plain_code(self._languages[1]) in self._translator.capabilities.formality
        rows: list[Row] = []
        for formality in (None, *get_args(Formality)):
            translations = None
            if formality is None or supported:
                options = replace(self._options, formality=formality)
                translations = self._translate(f"formality: {formality or 'not requested'}", sources, options)
                failures = [
                    (source, translation.text)
                    for source, translation in zip(sources, translations, strict=True)
                    if formality and address_in(translation.text, source) != formality
                ]
                self._print_failures(f"formality: {formality}", failures)
            rows.append({"pair": self._name, **address_figures(formality, cases, translations)})
        return rows

    def glossary(self, pairs: Sequence[Pair], lexicon: WordLexicon, swapped: bool, number: int) -> list[Row]:
        """Sentences with terms from their references, and with other translations."""
        from benchmarks.quality.compliance_figures import term_figures
        from benchmarks.quality.compliance_inputs import term_cases

        cases = term_cases(pairs, lexicon, self._languages, swapped, number, self._rng)
        sources = [case.source for case in cases]
        plain = self._translate("glossary: without", sources)
        options = [replace(self._options, glossary=case.glossary) for case in cases]
        with_terms = self._translate("glossary", sources, options)
        failures = [
            (
                f"{case.source} [{', '.join(f'{term.source} = {term.target}' for term in case.glossary)}]",
                translation.text,
            )
            for case, translation in zip(cases, with_terms, strict=True)
            if case.num_used(translation.text) < len(case.glossary)
        ]
        self._print_failures("glossary", failures)
        supported = self._translator.capabilities.glossary
        num_others = sum(case.other for case in cases)
        parts = {
            "the reference's words": slice(0, len(cases) - num_others),
            "other translations": slice(len(cases) - num_others, None),
            "all": slice(None),
        }
        return [
            {
                "pair": self._name,
                "terms_are": name,
                **term_figures(cases[part], with_terms[part], plain[part], supported),
            }
            for name, part in parts.items()
        ]

    def _translate(
        self, label: str, texts: Sequence[str], options: TranslationOptions | Sequence[TranslationOptions] | None = None
    ) -> list[Translation]:
        return self._translator.translate(
            texts,
            self._options if options is None else options,
            *self._languages,
            progress=lambda items, _, total: with_progress(items, f"{self._name} {label}", total),
        )

    def _print_failures(self, label: str, failures: Sequence[tuple[str, str]]) -> None:
        for source, text in failures[: self._show]:
            print(f"{self._name} {label}: {source!r} -> {text!r}")


def _table(section: str, rows: Sequence[Row]) -> str:
    from tabulate import tabulate

    columns = _SECTIONS[section]
    cells = [[_cell(row, key) for key in columns.values()] for row in rows]
    alignment = ["left" if key in _TEXT_COLUMNS else "right" for key in columns.values()]
    table = tabulate(cells, list(columns), tablefmt="pipe", colalign=alignment, disable_numparse=True)
    return f"{section}:\n{table}"


def _cell(row: Row, key: str) -> str:
    value = row.get(key)
    if key == "requested":
        return value or "nothing"
    if key == "supported" or (key in _NEEDS_SUPPORT and not row["supported"]):
        return "yes" if row["supported"] else "not supported"
    if value is None:
        return ""
    return f"{value:.1f}" if isinstance(value, float) else str(value)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; the exit status is 1 after an error, which is printed to standard error."""
    return run_program(__doc__, add_arguments, run, argv)


if __name__ == "__main__":
    sys.exit(main())
