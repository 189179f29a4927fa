"""Whether translations gain by a lexicon: entries with a single translation, given as glossary terms.

    python -m benchmarks.quality.lexicon --data DATA [--model FILE]

DATA is the folder of a training: ``mix/`` has the entries (dictionary, titles, terms, names) and the running text, and
``dev/`` and ``eval/`` the development sets. Source words that running text has at most N times get the translation of
their entry, in several variants: all of them, those whose translation agrees with the parallel text, nouns, names, and
those that the translation without a lexicon lacks or copies. ``reference`` takes the entries that the reference has and
the translation lacks, which is what a perfect choice would gain. Intervals of gains are from a paired bootstrap.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.quality.command_line import add_arguments as add_shared_arguments
from benchmarks.quality.command_line import main as run_program
from benchmarks.quality.command_line import write_results
from model.commands.models import chosen_pairs, decoding_options, load_translator, say, with_progress
from model.languages import plain_code
from model.text.glossary import Glossary, term_in
from model.training.corpus import Pair, read_parallel, spread
from model.translation.options import MAX_TERMS, TranslationOptions
from model.translator import Translator
from scripts.shipped.command import LANGUAGES
from scripts.shipped.lexicon import (
    AGREEMENT,
    ENTRIES,
    Entry,
    EntryIndex,
    Evidence,
    count_entries,
    read_entries,
    running_text,
)

_SETS = ("eval/flores-dev", "eval/tatoeba-dev", "eval/bcontrast-dev", "dev/encyclopaedia-news", "dev/passages")
_COUNTS = (15, 50, 200)
_SAMPLES = 1000
_STRICT_AGREEMENT = 0.6


@dataclass(frozen=True)
class Use:
    """An entry in a sentence of a development set.

    Args:
        entry: The entry.
        source: The words of the sentence.
        evidence: How often running text has the entry.
        plain: The translation without a lexicon.
        reference: The reference.
    """

    entry: Entry
    source: str
    evidence: Evidence
    plain: str
    reference: str

    @property
    def is_missing(self) -> bool:
        """Whether the translation without a lexicon lacks the entry."""
        return term_in(self.plain, self.entry.term.target) is None

    @property
    def is_copied(self) -> bool:
        """Whether it has the source word instead."""
        return self.is_missing and self.source.lower() in self.plain.lower()

    @property
    def is_name(self) -> bool:
        """Whether both sides begin with a capital, or it is an entry of names."""
        return "names" in self.entry.corpora or (
            self.entry.term.source[0].isupper() and self.entry.term.target[0].isupper()
        )

    @property
    def is_noun(self) -> bool:
        """Whether the German side begins with a capital."""
        return self.entry.term.source[0].isupper() or self.entry.term.target[0].isupper()


_VARIANTS: Mapping[str, Callable[[Use], bool]] = {
    "all": lambda use: True,
    "agreeing": lambda use: use.evidence.agreement >= AGREEMENT,
    "mostly agreeing": lambda use: use.evidence.agreement >= _STRICT_AGREEMENT,
    "seen, agreeing": lambda use: use.evidence.num_pairs > 0 and use.evidence.agreement >= AGREEMENT,
    "nouns, agreeing": lambda use: use.is_noun and use.evidence.agreement >= AGREEMENT,
    "names": lambda use: use.is_name,
    "missing, agreeing": lambda use: use.is_missing and use.evidence.agreement >= AGREEMENT,
    "missing, mostly agreeing": lambda use: use.is_missing and use.evidence.agreement >= _STRICT_AGREEMENT,
    "copied, agreeing": lambda use: use.is_copied and use.evidence.agreement >= AGREEMENT,
    "reference": lambda use: use.is_missing and term_in(use.reference, use.entry.term.target) is not None,
}


class CachedTranslator:
    """Translates with terms and keeps the translations, so that equal ones of several variants are made once.

    Args:
        translator: The translator.
        options: How to translate.
        file: Translations of earlier calls with the same model and options, and where to add new ones; None for none.
    """

    def __init__(self, translator: Translator, options: TranslationOptions, file: Path | None) -> None:
        self._translator = translator
        self._options = options
        self._file = file
        self._texts: dict[str, str] = {}
        if file is not None and file.exists():
            self._texts = json.loads(file.read_text(encoding="utf-8"))

    def translate(self, inputs: Sequence[tuple[str, Glossary]], pair: tuple[str, str]) -> list[str]:
        """The translations of texts with their terms."""
        keys = [json.dumps([*pair, text, [[term.source, term.target] for term in terms]]) for text, terms in inputs]
        new = {key: item for key, item in zip(keys, inputs, strict=True) if key not in self._texts}
        if new:
            translations = self._translator.translate(
                [text for text, _ in new.values()],
                [replace(self._options, glossary=terms) for _, terms in new.values()],
                *pair,
                progress=partial(_progress, "-".join(pair)),
            )
            self._texts |= {key: translation.text for key, translation in zip(new, translations, strict=True)}
            if self._file is not None:
                self._file.write_text(json.dumps(self._texts), encoding="utf-8")
        return [self._texts[key] for key in keys]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command."""
    add_shared_arguments(parser, 10_000, "sentences of each set, at most")
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="folder with mix/, dev/ and eval/")
    parser.add_argument("--set", action="append", metavar="BASE", help="another set than the five, below DATA")
    parser.add_argument("--with-nouns", action="store_true", help="take entries of nouns as well, without articles")
    parser.add_argument("--count", type=int, action="append", metavar="N", help="another bound than 15, 50 and 200")
    parser.add_argument(
        "--cache", type=Path, metavar="FILE", help="keep translations there, for one model and decoding"
    )
    parser.add_argument("--changed", type=Path, metavar="FILE", help="write the sentences that a variant changes there")


def run(arguments: argparse.Namespace) -> int:
    """Translate with each variant, score and print."""
    from tabulate import tabulate

    options = replace(decoding_options(arguments), lexicon=False)
    translator = load_translator(arguments)
    cached = CachedTranslator(translator, options, arguments.cache)
    bases = arguments.set or _SETS
    rows: list[dict[str, Any]] = []
    changed: list[str] = []
    for pair in chosen_pairs(arguments.pair, translator.manifest.directions):
        codes = plain_code(pair[0]), plain_code(pair[1])
        if sorted(codes) != sorted(LANGUAGES):
            continue
        sets = {base: spread(read_parallel(arguments.data / base, codes), arguments.number) for base in bases}
        uses = _uses(arguments, sets, codes, cached, pair)
        for base, pairs in sets.items():
            rows += _rows(base, pairs, uses, cached, pair, arguments, changed)
            print(tabulate(rows[-1:], headers="keys", tablefmt="pipe", floatfmt=".2f"), file=sys.stderr, flush=True)
    print(tabulate(rows, headers="keys", tablefmt="pipe", floatfmt=".2f"), flush=True)
    write_results({"lexicon": rows}, arguments)
    if arguments.changed:
        arguments.changed.write_text("\n".join(changed) + "\n", encoding="utf-8")
    return 0


def _uses(
    arguments: argparse.Namespace,
    sets: Mapping[str, Sequence[Pair]],
    codes: tuple[str, str],
    cached: CachedTranslator,
    pair: tuple[str, str],
) -> dict[Pair, list[Use]]:
    """The rare entries in the sentences of all sets, by the sentence and its reference."""
    folder: Path = arguments.data / "mix"
    entries = read_entries(folder, codes, (*ENTRIES, "nouns") if arguments.with_nouns else ENTRIES)
    index = EntryIndex(entries, codes[0])
    sentences = [item for pairs in sets.values() for item in pairs]
    mentioned = {entry for source, _ in sentences for entry in index.mentioned(source)}
    evidence = count_entries(mentioned, codes[0], running_text(folder, codes), max(arguments.count or _COUNTS))
    say(f"{'-'.join(codes)}: {len(entries):,} entries; {len(mentioned):,} in the sets, {len(evidence):,} of them rare")
    index = EntryIndex(evidence, codes[0])
    plain = cached.translate([(source, ()) for source, _ in sentences], pair)
    return {
        item: [
            Use(entry, item[0][slice(*span)], evidence[entry], text, item[1])
            for entry, span in index.find(item[0]).items()
        ]
        for item, text in zip(sentences, plain, strict=True)
    }


def _rows(
    base: str,
    pairs: Sequence[Pair],
    uses: Mapping[Pair, Sequence[Use]],
    cached: CachedTranslator,
    pair: tuple[str, str],
    arguments: argparse.Namespace,
    changed: list[str],
) -> list[dict[str, Any]]:
    """The figures of a set, without a lexicon and with each variant."""
    references = [reference for _, reference in pairs]
    plain = cached.translate([(source, ()) for source, _ in pairs], pair)
    systems = {"without": plain}
    numbers = {"without": (0, 0)}
    for count in arguments.count or _COUNTS:
        for name, is_taken in _VARIANTS.items():
            chosen = [
                [use for use in uses[item] if use.evidence.num_pairs <= count and is_taken(use)][:MAX_TERMS]
                for item in pairs
            ]
            glossaries = [tuple(sorted({use.entry.term for use in items}, key=str)) for items in chosen]
            answers = cached.translate([(item[0], terms) for item, terms in zip(pairs, glossaries, strict=True)], pair)
            systems[f"{name}, {count}"] = answers
            others = [index for index, (answer, old) in enumerate(zip(answers, plain, strict=True)) if answer != old]
            numbers[f"{name}, {count}"] = sum(map(len, glossaries)), len(others)
            changed += [
                "\t".join(
                    (
                        f"{'-'.join(pair)} {base} {name}, {count}",
                        "; ".join(
                            f"{use.source} = {use.entry.term.target} ({use.evidence.num_pairs})"
                            for use in chosen[index]
                        ),
                        *pairs[index],
                        plain[index],
                        answers[index],
                    )
                )
                for index in others
            ]
    return [
        {
            "direction": "-".join(pair),
            "set": base,
            "variant": name,
            "terms": numbers[name][0],
            "changed": numbers[name][1],
        }
        | scores
        for name, scores in _compare(systems, references).items()
    ]


def _compare(systems: Mapping[str, Sequence[str]], references: Sequence[str]) -> dict[str, dict[str, float | str]]:
    """BLEU and chrF2 of systems, their gains over the first one, and the 95 % intervals of these (paired bootstrap)."""
    from sacrebleu.metrics import BLEU, CHRF

    rows: dict[str, dict[str, float | str]] = {name: {} for name in systems}
    resamples = np.random.default_rng(1).multinomial(len(references), [1 / len(references)] * len(references), _SAMPLES)
    for metric_name, metric in (("BLEU", BLEU()), ("chrF2", CHRF())):
        statistics: dict[tuple[str, str], list[int]] = {}
        first: list[float] = []
        for name, answers in systems.items():
            keys = list(zip(answers, references, strict=True))
            for answer, reference in keys:
                if (answer, reference) not in statistics:
                    statistics[answer, reference] = metric._extract_corpus_statistics([answer], [[reference]])[0]
            matrix = np.array([statistics[key] for key in keys])
            totals = [matrix.sum(axis=0), *(resamples @ matrix)]
            scores = [metric._compute_score_from_stats(total.tolist()).score for total in totals]
            first = first or scores
            gains = np.subtract(scores, first)
            low, high = np.quantile(gains[1:], [0.025, 0.975])
            rows[name] |= {
                metric_name: scores[0],
                f"+{metric_name}": gains[0],
                f"95 % {metric_name}": f"{low:+.2f} {high:+.2f}",
            }
    return rows


def _progress(name: str, items: Iterable[Any], label: str, total: int) -> Iterable[Any]:
    return with_progress(items, name, total)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; the exit status is 1 after an error, which is printed to standard error."""
    return run_program(__doc__, add_arguments, run, argv)


if __name__ == "__main__":
    sys.exit(main())
