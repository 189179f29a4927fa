"""The cost of a vocabulary shortlist in BLEU, on every test set, and what it gains.

    python -m benchmarks.shortlist --test DATA/eval/tatoeba-dev --test DATA/eval/flores-dev
    python -m benchmarks.shortlist --model mine.pt --table larger.npz --test DATA/eval/mine

Translates each set in both directions with a beam of 4, without a shortlist and with it, on one thread. For each set:
BLEU without, the difference that the shortlist makes, the share of answers that are equal, and how many times as fast
it is in processor time. Ends with status 1 if a set costs more than ``--most``.

It decides whether a shortlist may be the default (docs/decisions/0011).
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.tables import markdown

if TYPE_CHECKING:
    from model.translator import Translator

MOST_BLEU = 0.05
"""Largest cost in BLEU, on any set, with which a shortlist may be the default."""


@dataclass(frozen=True)
class Cost:
    """What a shortlist does to a test set.

    Args:
        name: The set and the direction.
        num_sentences: Its sentences.
        bleu: BLEU without a shortlist.
        difference: BLEU with it, less that; negative if it costs something.
        equal: Share of equal answers.
        faster: How many times as fast it is, in processor time.
    """

    name: str
    num_sentences: int
    bleu: float
    difference: float
    equal: float
    faster: float


def cost_of(
    name: str, references: Sequence[str], without: Sequence[str], shortened: Sequence[str], faster: float
) -> Cost:
    """The cost, from the answers without and with a shortlist.

    Args:
        name: The set and the direction.
        references: The reference translations.
        without: The answers without a shortlist.
        shortened: The answers with it.
        faster: How many times as fast it was.
    """
    import sacrebleu

    bleu, other = (sacrebleu.corpus_bleu(list(texts), [list(references)]).score for texts in (without, shortened))
    equal = sum(one == two for one, two in zip(without, shortened, strict=True)) / len(references)
    return Cost(name, len(references), bleu, other - bleu, equal, faster)


def passes(costs: Sequence[Cost], most: float = MOST_BLEU) -> bool:
    """Whether no set costs more than that many points of BLEU."""
    return all(cost.difference > -most for cost in costs)


def table(costs: Sequence[Cost]) -> str:
    """The costs as a table in Markdown."""
    header = ["set", "sentences", "BLEU", "with shortlist", "equal", "times as fast"]
    rows = [
        [
            one.name,
            f"{one.num_sentences:,}",
            f"{one.bleu:.2f}",
            f"{one.difference:+.3f}",
            f"{one.equal:.1%}",
            f"{one.faster:.2f}",
        ]
        for one in costs
    ]
    return markdown(header, rows)


def _translated(translator: Translator, sources: list[str], pair: tuple[str, str]) -> tuple[list[str], float]:
    began = time.process_time()
    texts = [one.text for one in translator.translate(sources, source=pair[0], target=pair[1])]
    return texts, time.process_time() - began


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and print the table."""
    import torch

    from model.artifacts.bundle import load_bundle
    from model.artifacts.pretrained import build_pretrained
    from model.decoding.shortlist import Shortlist
    from model.training.corpus import read_parallel
    from model.translator import Translator

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, metavar="FILE", help="a bundle; the translator that ships by default")
    parser.add_argument("--table", type=Path, metavar="NPZ", help="a shortlist instead of the bundle's own")
    parser.add_argument(
        "--test", type=Path, action="append", required=True, metavar="BASE", help="test set; repeatable"
    )
    parser.add_argument("--limit", type=int, metavar="N", help="only the first N sentences of each set")
    parser.add_argument("--most", type=float, default=MOST_BLEU, help=f"points of BLEU; default {MOST_BLEU}")
    chosen = parser.parse_args(arguments)
    bundle = load_bundle(chosen.model or build_pretrained("cpu"))
    if chosen.table is not None:
        bundle = replace(bundle, shortlist=Shortlist.from_bytes(chosen.table.read_bytes()))
    if bundle.shortlist is None:
        parser.error("the bundle has no shortlist; name one with --table")
    torch.set_num_threads(1)
    plain, shortened = Translator(bundle), Translator(bundle, shortlist=True)
    costs = []
    for base in chosen.test:
        for pair in bundle.manifest.directions.pairs:
            lines = read_parallel(base, pair)[: chosen.limit]
            sources = [source for source, _ in lines]
            (without, plain_s), (found, short_s) = (_translated(one, sources, pair) for one in (plain, shortened))
            name = f"{base.name} {'-'.join(pair)}"
            costs.append(cost_of(name, [target for _, target in lines], without, found, plain_s / short_s))
            print(costs[-1], file=sys.stderr, flush=True)
    print(table(costs))
    return 0 if passes(costs, chosen.most) else 1


if __name__ == "__main__":
    sys.exit(main())
