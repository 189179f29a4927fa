"""A lexicon of source tokens and their target tokens, learned from sentence pairs: IBM Model 1 (Brown et al. 1993).

Each target token is attributed to the source tokens of its sentence, with probabilities that are estimated by
expectation-maximisation. The markers and the end token, which all sources contain, act as Model 1's empty word.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, replace
from typing import Annotated

import numpy as np
import numpy.typing as npt
from pydantic import Field

from model.artifacts.manifest import Manifest
from model.configuration import Count, NonNegative, configuration
from model.decoding.shortlist import Shortlist
from model.errors import ConfigError, DataError
from model.network.config import ModelConfig
from model.process.progress import Progress, no_progress
from model.text.pieces import WORD_START
from model.text.tokenizer import Tokenizer
from model.training.corpus import Pair

Links = tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]
"""Indices of (source token, target token) pairs, grouped by target position, and the start of each group."""

_LINKS_AT_ONCE = 4_000_000


@configuration("The shortlist")
class ShortlistSettings:
    """Settings for learning a shortlist.

    Args:
        per_token: Number of most probable target tokens kept for each source token.
        min_probability: Translations with a smaller probability are left out.
        frequent: Number of most frequent target tokens that every sentence may use.
        iterations: Iterations of expectation-maximisation.
        max_links: Bound of the token pairs used; further sentences are left out. A pair takes about 30 bytes of memory.

    Raises:
        ConfigError: A value is out of bounds.
    """

    per_token: Count = 100
    min_probability: Annotated[float, Field(strict=True, ge=0, lt=1)] = 1e-4
    frequent: NonNegative = 500
    iterations: Count = 5
    max_links: Count = 60_000_000


def learn_for_model(
    manifest: Manifest,
    tokenizer: Tokenizer,
    pairs: Sequence[Pair],
    languages: tuple[str, str],
    settings: ShortlistSettings = ShortlistSettings(),  # noqa: B008  (frozen)
    progress: Progress = no_progress,
) -> Shortlist:
    """Learn a shortlist for a model from text, for all its directions between two languages.

    One table is used for both directions: most tokens occur in one language only, and the candidates of the others
    cover both.

    Args:
        manifest: The model's manifest.
        tokenizer: The model's tokenizer.
        pairs: Sentences in the two languages.
        languages: The two languages.
        settings: The size of the shortlist.
        progress: Wraps an iterable in a progress bar.

    Raises:
        ConfigError: The model translates neither language into the other.
        DataError: There are no pairs.
    """
    directions = [pair for pair in (languages, languages[::-1]) if pair in manifest.directions]
    if not directions:
        raise ConfigError(
            f"The corpora are in {languages[0]} and {languages[1]}; the model has {manifest.directions.describe()}."
        )
    encoded: list[tuple[list[int], list[int]]] = []
    for first, second in progress(pairs, "encoding", len(pairs)):
        for source, target in directions:
            texts = (first, second) if (source, target) == languages else (second, first)
            encoded.append((tokenizer.encode(texts[0], target, source), tokenizer.encode_target(texts[1])))
    target_ids = sorted({token for _, target in encoded for token in target})
    pieces = tokenizer.target_pieces(target_ids)
    # Single letters can spell every word, for example an inflected name.
    letters = [
        token for token, piece in zip(target_ids, pieces, strict=True) if len(piece.removeprefix(WORD_START)) <= 1
    ]
    config = ModelConfig.from_dict(manifest.architecture)
    shortlist = learn_shortlist(
        encoded,
        config.source_vocab_size,
        config.target_vocab_size,
        end_id=tokenizer.end_id,
        never=manifest.policy.suppressed_ids(tokenizer.never_generated),
        always=letters,
        shared=config.source_vocab_size == config.target_vocab_size and tokenizer.pieces(target_ids) == pieces,
        settings=settings,
        progress=progress,
    )
    sample = encoded[:: max(1, len(encoded) // 1000)]
    candidates = sum(len(shortlist.candidates(source)) for source, _ in sample) / len(sample)
    facts = {"directions": [list(pair) for pair in directions], "candidates": round(candidates, 1)}
    return replace(shortlist, facts={**shortlist.facts, **facts})


def learn_shortlist(
    pairs: Sequence[tuple[Sequence[int], Sequence[int]]],
    source_vocab_size: int,
    target_vocab_size: int,
    *,
    end_id: int,
    never: Collection[int] = (),
    always: Collection[int] = (),
    shared: bool = False,
    settings: ShortlistSettings = ShortlistSettings(),  # noqa: B008  (frozen)
    progress: Progress = no_progress,
) -> Shortlist:
    """Learn a shortlist.

    Args:
        pairs: Source and target tokens of each sentence pair, in every direction of the model.
        source_vocab_size: Size of the source vocabulary.
        target_vocab_size: Size of the target vocabulary.
        end_id: The end token, which every sentence may use.
        never: Tokens that are never generated.
        always: Tokens that every sentence may use, besides the most frequent tokens.
        shared: Whether source and target share a vocabulary. Each token is then a candidate for itself, so that names,
            numbers and bytes can be copied.
        settings: The size of the shortlist.
        progress: Wraps an iterable in a progress bar.

    Raises:
        DataError: There are no pairs.
    """
    pairs = [pair for pair in pairs if pair[0] and pair[1]]
    if not pairs:
        raise DataError("There are no sentence pairs to learn a shortlist from.")
    counts = np.bincount(np.concatenate([np.asarray(target, np.int32) for _, target in pairs]))
    num_links = np.cumsum([len(source) * len(target) for source, target in pairs])
    pairs = pairs[: max(1, int(np.searchsorted(num_links, settings.max_links, side="right")))]
    sources, targets, shares = translation_shares(pairs, target_vocab_size, settings.iterations, progress)

    eligible = np.ones(target_vocab_size, dtype=bool)
    eligible[[*never, end_id]] = False
    frequent = [int(token) for token in np.argsort(-counts, kind="stable") if counts[token] and eligible[token]]
    everywhere = {token for token in (*frequent[: settings.frequent], *always) if eligible[token]} | {end_id}
    eligible[list(everywhere)] = False

    likely = (shares >= settings.min_probability) & _among_largest(sources, shares, settings.per_token)
    likely &= eligible[targets]
    keys = sources[likely].astype(np.int64) * target_vocab_size + targets[likely]
    if shared:
        copied = np.flatnonzero(eligible)
        keys = np.concatenate([keys, copied * target_vocab_size + copied])
    keys = np.unique(keys)
    lengths = np.bincount(keys // target_vocab_size, minlength=source_vocab_size)
    return Shortlist(
        np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32),
        (keys % target_vocab_size).astype(np.int32),
        np.array(sorted(everywhere), dtype=np.int32),
        {"sentence_pairs": len(pairs), "always": len(everywhere), **asdict(settings)},
    )


def translation_shares(
    pairs: Sequence[tuple[Sequence[int], Sequence[int]]],
    target_vocab_size: int,
    iterations: int,
    progress: Progress = no_progress,
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32], npt.NDArray[np.float64]]:
    """All token pairs that occur together, sorted by source token, and the probability of each target."""
    keys, widths = [], []
    for source, target in progress(pairs, "pairing tokens", len(pairs)):
        links = np.asarray(source, np.int64) * target_vocab_size + np.asarray(target, np.int64)[:, np.newaxis]
        keys.append(links.ravel())
        widths.append(np.full(len(target), len(source), np.int32))
    together, numbers = np.unique(np.concatenate(keys), return_inverse=True)
    del keys
    chunks = list(_chunks(numbers.astype(np.int32), np.concatenate(widths)))
    del numbers
    sources = (together // target_vocab_size).astype(np.int32)
    shares = np.ones(len(together))
    for _ in range(iterations):
        counts = np.zeros(len(together))
        for links, begins in progress(chunks, "expectation-maximisation", len(chunks)):
            explained = shares[links]
            totals = np.add.reduceat(explained, begins)
            explained /= np.repeat(totals, np.diff(begins, append=len(links)))
            counts += np.bincount(links, weights=explained, minlength=len(together))
        shares = counts / np.bincount(sources, weights=counts)[sources]
    return sources, (together % target_vocab_size).astype(np.int32), shares


def _chunks(numbers: npt.NDArray[np.int32], widths: npt.NDArray[np.int32]) -> Iterable[Links]:
    """Split the links into chunks of whole target positions, which bounds the memory for intermediate results."""
    ends = np.cumsum(widths, dtype=np.int64)
    first = 0
    while first < len(widths):
        begin = int(ends[first] - widths[first])
        last = max(first + 1, int(np.searchsorted(ends, begin + _LINKS_AT_ONCE, side="right")))
        yield numbers[begin : int(ends[last - 1])], ends[first:last] - widths[first:last] - begin
        first = last


def _among_largest(
    sources: npt.NDArray[np.int32], shares: npt.NDArray[np.float64], number: int
) -> npt.NDArray[np.bool_]:
    """Whether each share is among the ``number`` largest of its source token."""
    order = np.lexsort((-shares, sources))
    lengths = np.bincount(sources)
    begins = np.cumsum(lengths) - lengths
    ranks = np.empty(len(sources), np.int64)
    ranks[order] = np.arange(len(sources)) - begins[sources[order]]
    among: npt.NDArray[np.bool_] = ranks < number
    return among
