"""Writes a corpus without the pairs that a model finds least probable.

Free translations and wrongly aligned pairs are among them. The score of a pair is the mean log-probability of the
tokens of each side given the other, averaged over both directions. BASE.dropped.tsv has the dropped pairs with their
scores, the worst first, to be looked at.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from tqdm import tqdm

from model.artifacts.bundle import Bundle
from model.commands.models import add_model_arguments, load_translator
from model.decoding.eager.teacher_forcing import logits_by_torch
from model.errors import ConfigError
from model.training.corpus import Pair, read_parallel, write_lines, write_parallel
from model.translation.evidence import target_log_probs
from scripts.shipped.command import LANGUAGES, start

_TOKENS_AT_ONCE = 4096
"""Padded target tokens of a batch."""


def pair_scores(bundle: Bundle, pairs: Sequence[Pair], languages: tuple[str, str]) -> list[float]:
    """The score of each pair, in nats: 0 if the model is sure of all tokens, negative otherwise.

    Args:
        bundle: A model of both directions.
        pairs: Sentence pairs.
        languages: The languages of their sides.
    """
    forward = mean_log_probs(bundle, pairs, languages)
    backward = mean_log_probs(bundle, [(second, first) for first, second in pairs], languages[::-1])
    return [(first + second) / 2 for first, second in zip(forward, backward, strict=True)]


def mean_log_probs(bundle: Bundle, pairs: Sequence[Pair], direction: tuple[str, str]) -> list[float]:
    """The mean log-probability of the target tokens of each pair, end tokens included.

    Args:
        bundle: A model of this direction.
        pairs: Sources and targets; what is longer than the model accepts is cut.
        direction: Source and target language.
    """
    source, target = direction
    tokenizer, manifest = bundle.tokenizer, bundle.manifest
    sources = [tokenizer.encode(text, target, source)[: manifest.max_source_tokens] for text, _ in pairs]
    targets = [tokenizer.encode_target(text)[: manifest.max_target_tokens] for _, text in pairs]
    forced_ids = tokenizer.forced_ids(target)
    means = [0.0] * len(pairs)
    # None: no bar if standard error is not a terminal.
    with tqdm(desc=f"{source}-{target}", total=len(pairs), unit=" pairs", disable=None, dynamic_ncols=True) as bar:
        for chosen in _batches([(len(source), len(target)) for source, target in zip(sources, targets, strict=True)]):
            logits = partial(
                logits_by_torch,
                bundle.module,
                pad_id=tokenizer.pad_id,
                device=bundle.device,
                vocab_size=int(manifest.architecture["target_vocab_size"]),
                sentences_at_once=len(chosen),
            )
            token_log_probs = target_log_probs(
                logits,
                tokenizer.start_id,
                [sources[index] for index in chosen],
                [targets[index] for index in chosen],
                forced_ids,
            )
            for index, log_probs in zip(chosen, token_log_probs, strict=True):
                means[index] = float(log_probs.mean())
            bar.update(len(chosen))
    return means


def _batches(lengths: Sequence[tuple[int, int]]) -> Iterator[list[int]]:
    """Indices of pairs of similar length, by their numbers of source and target tokens."""
    batch: list[int] = []
    # The longest first: if a batch does not fit into memory, it is the first one.
    for index in sorted(range(len(lengths)), key=lambda index: lengths[index][::-1], reverse=True):
        if batch and (len(batch) + 1) * lengths[batch[0]][1] > _TOKENS_AT_ONCE:
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch


def worst(scores: Sequence[float], share: float) -> list[int]:
    """The indices of the lowest scores, the lowest first.

    Args:
        scores: The scores.
        share: How many of them, as a share, rounded down.
    """
    return sorted(range(len(scores)), key=lambda index: scores[index])[: int(share * len(scores))]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the script's arguments."""
    add_model_arguments(parser)
    parser.add_argument("--corpus", type=Path, required=True, metavar="BASE", help="a corpus, without language ending")
    parser.add_argument("--share", type=float, default=0.1, help="share of the pairs to drop; default 0.1")
    parser.add_argument("--out", type=Path, required=True, metavar="BASE", help="the corpus to write")


def run(arguments: argparse.Namespace) -> int:
    """Score, drop and write."""
    out: Path = arguments.out
    if not 0 < arguments.share < 1:
        raise ConfigError(f"--share is {arguments.share:g}; it must be above 0 and below 1.")
    pairs = read_parallel(arguments.corpus, LANGUAGES)
    translator = load_translator(arguments)
    for direction in (LANGUAGES, LANGUAGES[::-1]):
        translator.resolve_pair(*direction)
    scores = pair_scores(translator.bundle, pairs, LANGUAGES)
    dropped = worst(scores, arguments.share)
    without = set(dropped)
    write_lines(
        out.with_name(f"{out.name}.dropped.tsv"),
        (f"{scores[index]:.3f}\t{pairs[index][0]}\t{pairs[index][1]}" for index in dropped),
    )
    write_parallel(out, LANGUAGES, [pair for index, pair in enumerate(pairs) if index not in without])
    print(f"{out}: {len(pairs) - len(dropped):,} of {len(pairs):,} pairs")
    return 0


if __name__ == "__main__":
    sys.exit(start("drop_worst", __doc__, add_arguments, run))
