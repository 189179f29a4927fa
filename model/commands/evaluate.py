"""The command ``evaluate``: sacreBLEU and chrF on a test set."""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from model.commands.models import (
    add_decoding_arguments,
    add_model_arguments,
    add_shortlist_argument,
    chosen_pairs,
    decoding_options,
    load_translator,
    output_file,
    say,
    with_progress,
)
from model.errors import DataError

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
    parser.add_argument(
        "--test",
        type=Path,
        required=True,
        action="append",
        metavar="BASE",
        help="test set without language ending; may be given several times",
    )
    parser.add_argument("--pair", action="append", metavar="XX-YY", help="only this pair; may be given several times")
    parser.add_argument(
        "--lowercase",
        action="store_true",
        help="also print BLEU of the lower-cased, tokenised texts (lowercase=True, tokenize=13a), the published metric "
        "of Multi30k; a model's capitals then count for nothing",
    )
    parser.add_argument(
        "--unseen",
        type=Path,
        metavar="BASE",
        help="leave out pairs of which a side is in this training text, whatever its case and punctuation",
    )
    parser.add_argument("--limit", type=int, metavar="N", help="only the first N sentences")
    parser.add_argument("--json", type=output_file, metavar="FILE", help="also write the scores there")
    parser.add_argument("--save", type=Path, metavar="DIR", help="also write the translations there")
    add_decoding_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Translate the test sets and print their scores."""
    from model.scores import score
    from model.training.corpus import read_parallel, unseen

    options = decoding_options(arguments)
    translator = load_translator(arguments)
    pairs = chosen_pairs(arguments.pair, translator.manifest.directions)
    with_shortlist = ", shortlist" if arguments.shortlist else ""
    known = {pair: read_parallel(arguments.unseen, pair) for pair in pairs} if arguments.unseen else {}
    results: dict[str, dict[str, Any]] = {}
    for base in arguments.test:
        for source, target in pairs:
            pair = f"{source}-{target}"
            lines = all_lines = read_parallel(base, (source, target))
            if known:
                lines = unseen(all_lines, known[source, target])
                say(f"{len(all_lines) - len(lines)} of {len(all_lines)} pairs have a side in {arguments.unseen.name}")
                if not lines:
                    raise DataError(f"Nothing of {base} is left without {arguments.unseen}.")
            left_out = len(all_lines) - len(lines)
            lines = lines[: arguments.limit]
            began = time.monotonic()
            translations = translator.translate(
                [line[0] for line in lines],
                options,
                source,
                target,
                progress=lambda items, total, label=f"{base.name} {pair}": with_progress(  # type: ignore[misc]
                    items, label, total
                ),
            )
            elapsed = time.monotonic() - began
            texts = [translation.text for translation in translations]
            references = [line[1] for line in lines]
            found = score(texts, references)
            results.setdefault(base.name, {})[pair] = {
                **asdict(found),
                "decoding": options.decoding,
                "beam_size": options.width,
                "precision": translator.manifest.precision,
                "shortlist": arguments.shortlist,
                "left_out": left_out,
                "seconds": round(elapsed, 1),
            }
            print(
                f"{base.name} {pair}: BLEU {found.bleu:.1f}, chrF {found.chrf:.1f} "
                f"({found.num_sentences} sentences, {options.decoding} {options.width}, "
                f"{translator.manifest.precision}{with_shortlist}, {len(lines) / elapsed:.1f} sentences/s)\n"
                f"  BLEU|{found.bleu_signature}\n  chrF2|{found.chrf_signature}",
                flush=True,
            )
            if arguments.lowercase:
                lowered = score(texts, references, lowercase=True)
                results[base.name][pair]["lowercase"] = asdict(lowered)
                print(f"  lower-cased: BLEU {lowered.bleu:.2f}, BLEU|{lowered.bleu_signature}", flush=True)
            if arguments.save:
                arguments.save.mkdir(parents=True, exist_ok=True)
                saved = arguments.save / f"{base.name}.{pair}.{target}"
                saved.write_text("".join(text + "\n" for text in texts), encoding="utf-8")
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    return 0
