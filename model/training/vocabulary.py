"""The vocabulary of a run, learned from its training text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from model.text.tokenizer import Tokenizer, learn_tokenizer
from model.training.corpus import Pair
from model.training.settings import TrainingSettings


def learn_vocabulary(settings: TrainingSettings, pairs: Sequence[Pair]) -> Tokenizer:
    """Learn what the settings ask for: one vocabulary for both languages, or one for each.

    Args:
        settings: Give kind, size and seed, and the languages a source can ask for.
        pairs: The training text.

    Raises:
        ConfigError: The text is too small for a vocabulary of this size.
    """

    def learn(sentences: Iterable[str], languages: Sequence[str]) -> Tokenizer:
        return learn_tokenizer(
            sentences, settings.vocab_size, languages, seed=settings.seed, kind=settings.tokenizer_kind
        )

    # Only the languages a source can ask for get a marker.
    targets = sorted({target for _, target in settings.direction_pairs})
    if not settings.separate_vocabularies:
        return learn((side for pair in pairs for side in pair), targets)
    ((source_language, _),) = settings.direction_pairs
    source = settings.languages.index(source_language)
    sources = learn((pair[source] for pair in pairs), targets)
    # Nobody asks for a language in a target.
    return Tokenizer(sources.model_proto, learn((pair[1 - source] for pair in pairs), ()).model_proto)


def write_vocabulary(tokenizer: Tokenizer, folder: Path) -> None:
    """Write ``tokenizer.model``, and ``target-tokenizer.model`` where targets have a vocabulary of their own."""
    (folder / "tokenizer.model").write_bytes(tokenizer.model_proto)
    if tokenizer.target_proto is not None:
        (folder / "target-tokenizer.model").write_bytes(tokenizer.target_proto)
