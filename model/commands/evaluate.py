"""The command ``evaluate``: sacreBLEU and chrF on a test set."""

from __future__ import annotations

import argparse
import json
import random
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from model.commands.models import (
    add_decoding_arguments,
    add_model_arguments,
    add_shortlist_argument,
    add_test_argument,
    chosen_pairs,
    decoding_options,
    load_translator,
    output_file,
    say,
    with_progress,
)
from model.errors import DataError
from model.translation.options import TranslationOptions

if TYPE_CHECKING:
    from model.translator import Translator

Lines = list[tuple[str, str]]
"""Sentences and their translations."""

EPILOG = """\
example:
  verso evaluate --test DATA/eval/tatoeba-test-v2020-07-28 --json scores.json
reads DATA/eval/tatoeba-test-v2020-07-28.en and .de (plain, .gz or .xz) and scores every pair the model has.
  verso evaluate --model runs/multi30k/averaged.pt --test DATA/eval/multi30k-test2016 --pair en-de \\
      --beam-size 5 --lowercase
also prints the published metric of that benchmark, over lower-cased and tokenised text.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command."""
    add_model_arguments(parser)
    add_shortlist_argument(parser)
    add_test_argument(parser)
    parser.add_argument("--pair", action="append", metavar="XX-YY", help="only this pair; may be given several times")
    parser.add_argument(
        "--lowercase",
        action="store_true",
        help="also print BLEU of the lower-cased, tokenised texts (lowercase=True, tokenize=13a), the published metric "
        "of Multi30k, which ignores capitals",
    )
    parser.add_argument(
        "--unseen",
        type=Path,
        metavar="BASE",
        help="leave out pairs with a side in this training text, up to case and punctuation",
    )
    parser.add_argument(
        "--min-words",
        type=int,
        default=0,
        metavar="N",
        help="leave out pairs with a side of fewer words: greetings of a test set may be in the training text",
    )
    parser.add_argument("--limit", type=int, metavar="N", help="only the first N sentences")
    parser.add_argument("--json", type=output_file, metavar="FILE", help="also write the scores there")
    parser.add_argument("--save", type=Path, metavar="DIR", help="also write the translations there")
    parser.add_argument(
        "--examples", type=int, default=0, metavar="N", help="also print N translations, drawn at random, as a table"
    )
    add_decoding_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Translate the test sets and print their scores."""
    from model.training.corpus import read_parallel

    options = decoding_options(arguments)
    translator = load_translator(arguments)
    pairs = chosen_pairs(arguments.pair, translator.manifest.directions)
    training = {pair: read_parallel(arguments.unseen, pair) for pair in pairs} if arguments.unseen else {}
    results: dict[str, dict[str, Any]] = {}
    for base in arguments.test:
        for pair in pairs:
            lines, left_out = _test_lines(arguments, base, pair, training.get(pair))
            scores = _evaluate_pair(arguments, translator, options, base, pair, lines, left_out)
            results.setdefault(base.name, {})["-".join(pair)] = scores
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    return 0


def _test_lines(
    arguments: argparse.Namespace, base: Path, pair: tuple[str, str], training: Lines | None
) -> tuple[Lines, int]:
    """The sentence pairs of a test set, and how many were left out because a side is in the training text or too short.

    Raises:
        DataError: The files cannot be read, or every pair is left out.
    """
    from model.training.corpus import bare_words, read_parallel, unseen

    all_lines = read_parallel(base, pair)
    lines = [
        sides for sides in all_lines if min(len(bare_words(side).split()) for side in sides) >= arguments.min_words
    ]
    if arguments.min_words:
        say(f"{len(all_lines) - len(lines)} of {len(all_lines)} pairs have fewer than {arguments.min_words} words")
    if training is not None:
        before, lines = len(lines), unseen(lines, training)
        say(f"{before - len(lines)} of {before} pairs have a side in {arguments.unseen.name}")
    if not lines:
        raise DataError(f"Nothing of {base} is left; --unseen and --min-words leave out every pair.")
    return lines[: arguments.limit], len(all_lines) - len(lines)


def _evaluate_pair(
    arguments: argparse.Namespace,
    translator: Translator,
    options: TranslationOptions,
    base: Path,
    pair: tuple[str, str],
    lines: Lines,
    left_out: int,
) -> dict[str, Any]:
    """Translate one test set in one direction; print its scores, and return them."""
    from model.scores import score

    name = "-".join(pair)
    began = time.monotonic()
    translations = translator.translate(
        [source for source, _ in lines],
        options,
        *pair,
        progress=lambda items, _, total: with_progress(items, f"{base.name} {name}", total),
    )
    elapsed = time.monotonic() - began
    texts = [translation.text for translation in translations]
    references = [target for _, target in lines]
    scores = score(texts, references)
    results = {
        **asdict(scores),
        "decoding": options.decoding,
        "beam_size": options.width,
        "precision": translator.manifest.precision,
        "shortlist": arguments.shortlist,
        "left_out": left_out,
        "seconds": round(elapsed, 1),
    }
    with_shortlist = ", shortlist" if arguments.shortlist else ""
    print(
        f"{base.name} {name}: BLEU {scores.bleu:.1f}, chrF {scores.chrf:.1f} "
        f"({scores.num_sentences} sentences, {options.decoding} {options.width}, "
        f"{translator.manifest.precision}{with_shortlist}, {len(lines) / elapsed:.1f} sentences/s)\n"
        f"  BLEU|{scores.bleu_signature}\n  chrF2|{scores.chrf_signature}",
        flush=True,
    )
    if arguments.lowercase:
        lowered = score(texts, references, lowercase=True)
        results["lowercase"] = asdict(lowered)
        print(f"  lower-cased: BLEU {lowered.bleu:.2f}, BLEU|{lowered.bleu_signature}", flush=True)
    if arguments.save:
        arguments.save.mkdir(parents=True, exist_ok=True)
        saved = arguments.save / f"{base.name}.{name}.{pair[1]}"
        saved.write_text("".join(text + "\n" for text in texts), encoding="utf-8")
    if arguments.examples:
        _print_examples(lines, texts, arguments.examples)
    return results


def _print_examples(lines: Lines, translations: list[str], number: int) -> None:
    """Print translations beside sources and references, as a Markdown table; the same ones for every model."""
    chosen = random.Random(number).sample(range(len(lines)), min(number, len(lines)))
    print("| source | translation | reference |\n|---|---|---|")
    for index in sorted(chosen):
        source, reference = lines[index]
        print(
            f"| {' | '.join(text.replace('|', chr(92) + '|') for text in (source, translations[index], reference))} |"
        )
