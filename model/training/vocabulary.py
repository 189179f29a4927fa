"""The vocabulary of a run, learned from its training text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path

from model.process.files import write_file
from model.text.tokenizer import VersoTokenizer
from model.text.tokenizer_training import learn_tokenizer
from model.training.corpus import LoadedCorpus
from model.training.settings import TrainingSettings


def learn_vocabulary(
    settings: TrainingSettings,
    corpora: Sequence[LoadedCorpus],
    more_sentences: Iterable[str] = (),
    required_characters: str = "",
) -> VersoTokenizer:
    """Learn one vocabulary for both languages, or one for each, as the settings say.

    Args:
        settings: The settings of the run: kind, size, seed and directions.
        corpora: The training text; text produced by models is left out of a shared vocabulary.
        more_sentences: Further sentences for a shared vocabulary.
        required_characters: Characters that get their own piece, however rare they are.

    Raises:
        ConfigError: The text is too small for a vocabulary of this size.
    """

    def learn(sentences: Iterable[str], languages: Sequence[str]) -> VersoTokenizer:
        return learn_tokenizer(
            sentences,
            settings.vocab_size,
            languages,
            seed=settings.seed,
            kind=settings.tokenizer_kind,
            normalisation=settings.normalisation,
            reserve_symbols=settings.reserve_symbols,
            required_characters=required_characters,
        )

    # Only target languages have a marker.
    targets = sorted({target for _, target in settings.direction_pairs})
    if not settings.separate_vocabularies:
        natural = (side for corpus in corpora for side in corpus.natural_sides(settings.languages))
        return learn(chain(natural, more_sentences), targets)
    ((source_language, _),) = settings.direction_pairs
    source = settings.languages.index(source_language)
    pairs = [pair for corpus in corpora for pair in corpus.pairs]
    sources = learn((pair[source] for pair in pairs), targets)
    # Targets contain no markers, so their vocabulary needs none.
    return VersoTokenizer(sources.model_proto, learn((pair[1 - source] for pair in pairs), ()).model_proto)


def write_vocabulary(tokenizer: VersoTokenizer, folder: Path) -> None:
    """Write ``tokenizer.model``, and ``target-tokenizer.model`` if there is a separate target vocabulary."""
    write_file(folder / "tokenizer.model", tokenizer.model_proto)
    if tokenizer.target_proto is not None:
        write_file(folder / "target-tokenizer.model", tokenizer.target_proto)
