"""What a training run needs before its first update: a vocabulary, an architecture, and text in batches."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from model.artifacts.checkpoint import Checkpoint, load_checkpoint
from model.errors import ConfigError
from model.network.config import ModelConfig
from model.process.files import make_folder, remove_abandoned
from model.text.tokenizer import Tokenizer, VersoTokenizer
from model.training.batches import BatchMaker
from model.training.controlled_pairs import ControlledPairs
from model.training.corpus import LoadedCorpus, Pair, load_dev_pairs, load_training_pairs, spread
from model.training.distributed import Processes
from model.training.initial import IMPORTED, Initial, check_origin, fine_tuning_config, load_initial, with_vocabulary
from model.training.settings import TrainingSettings
from model.training.vocabulary import learn_vocabulary, write_vocabulary
from model.training.word_lexicon import WordLexicon

LAST = "last.pt"
"""The checkpoint from which a run resumes."""

LEXICON = "word-lexicon.json.gz"
"""Which words of the training text translate each other."""

ENCODED = "encoded"
"""Folder with the token ids of the training text, for resumed runs."""

ORIGIN = "initialised_from"
"""Key in the settings of checkpoints and manifests: name and SHA-256 of the model a run was initialised from."""

_VOCABULARY_SETTINGS = ("languages", "vocab_size", "tokenizer", "tokenizer_kind", "separate_vocabularies")
"""Settings that cannot be changed once the vocabulary exists."""


@dataclass(frozen=True)
class RunModel:
    """The model of a run, without its weights.

    Args:
        tokenizer: Its vocabulary.
        config: Its architecture.
        origin: Name and SHA-256 of the model it was initialised from, if any.
        files: Vocabulary files of an imported model.
        imported: Metadata of an imported model.
    """

    tokenizer: Tokenizer
    config: ModelConfig
    origin: dict[str, str] | None = None
    files: dict[str, bytes] | None = None
    imported: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class RunSetup:
    """What a run needs before its first update.

    Args:
        model: The model, without its weights.
        batches: Makes the batches.
        dev: Held-out pairs by the name of their corpus.
        initial: The model with the initial weights, if it is not a new one.
        resumed: The checkpoint from which the run resumes, if any.
    """

    model: RunModel
    batches: BatchMaker
    dev: dict[str, list[Pair]]
    initial: Initial | None
    resumed: Checkpoint | None


def set_up(
    settings: TrainingSettings,
    data_dir: Path,
    run_dir: Path,
    tokenizer_dir: Path | None,
    init_from: Path | None,
    processes: Processes,
    report: Callable[[str], None],
) -> RunSetup:
    """Read the text and the checkpoint or initial model of a run. Arguments: see :func:`model.training.loop.train`.

    Raises:
        ConfigError: The settings do not fit the run's checkpoint or the initial model.
        DataError: A corpus is unusable.
        ArtifactError: A checkpoint cannot be read.
    """
    make_folder(run_dir)
    if processes.is_first:
        remove_abandoned(run_dir)
    tokenizer_dir = tokenizer_dir or Path()
    # Checked before the text is read, because that takes longer.
    resumed = load_checkpoint(run_dir / LAST) if (run_dir / LAST).exists() else None
    initial = model = None
    if resumed:
        origin = resumed.facts["settings"].get(ORIGIN)
        check_origin(run_dir, origin, init_from)
        model = _inherited(settings, resumed, origin) if origin else _own(settings, resumed.own_tokenizer)
        _check_resumed(settings, run_dir, model, resumed, report)
    elif init_from:
        initial = load_initial(init_from)
        if settings.tokenizer:
            initial = with_vocabulary(initial, VersoTokenizer.load(tokenizer_dir / settings.tokenizer))
        model = _inherited(settings, initial, initial.origin)
    report("reading the training text")
    corpora, left_out = load_training_pairs(data_dir, settings.train, settings.languages)
    dev = {
        name: spread(pairs, settings.dev_sentences)
        for name, pairs in load_dev_pairs(data_dir, settings.dev, settings.languages).items()
    }
    if model is None:
        model = _own(settings, _make_tokenizer(settings, corpora, run_dir, tokenizer_dir, processes))
    batches = BatchMaker(
        corpora,
        settings.languages,
        settings.direction_pairs,
        model.tokenizer,
        batch_tokens=settings.batch_tokens,
        max_tokens=settings.max_tokens_per_sentence,
        seed=settings.seed,
        subword_sampling=settings.subword_sampling,
        target_subword_sampling=settings.target_subword_sampling,
        augmentation=settings.augment,
        controlled=_controlled_pairs(settings, corpora, run_dir, processes),
        kept_in=run_dir / ENCODED,
    )
    report(
        f"{sum(len(corpus.pairs) for corpus in corpora)} pairs, {batches.num_examples} examples in "
        f"{len(settings.pairs)} directions; left out {left_out}, too long {batches.num_too_long}"
    )
    return RunSetup(model, batches, dev, initial, resumed)


def recorded_settings(settings: TrainingSettings, origin: dict[str, str] | None) -> dict[str, Any]:
    """The settings and the initial model of a run, as stored in checkpoints."""
    # The detour through JSON leaves plain lists and numbers, which can be loaded without unpickling other types.
    recorded: dict[str, Any] = json.loads(json.dumps({**settings.to_dict(), **({ORIGIN: origin} if origin else {})}))
    return recorded


def _own(settings: TrainingSettings, tokenizer: VersoTokenizer) -> RunModel:
    """The model of a run that was not initialised from another model."""
    return RunModel(tokenizer, settings.model_config(tokenizer.vocab_size, tokenizer.target_vocab_size))


def _inherited(settings: TrainingSettings, source: Checkpoint | Initial, origin: dict[str, str]) -> RunModel:
    """The model of a run that was initialised from another model."""
    directions = source.directions if isinstance(source, Initial) else None
    return RunModel(
        source.tokenizer,
        fine_tuning_config(settings, source.config, source.tokenizer, directions),
        origin,
        source.files,
        {key: source.facts[key] for key in IMPORTED if key in source.facts},
    )


def _check_resumed(
    settings: TrainingSettings,
    run_dir: Path,
    model: RunModel,
    checkpoint: Checkpoint,
    report: Callable[[str], None],
) -> None:
    """Check that a run can resume with these settings; report settings that have changed.

    Raises:
        ConfigError: It cannot; the message names what differs.
    """
    before, now = checkpoint.config.to_dict(), model.config.to_dict()
    different = [f"{name} {before[name]!r}, not {now[name]!r}" for name in now if now[name] != before[name]]
    if different:
        raise ConfigError(
            f"{run_dir} has a run of another architecture, with {', '.join(different)}; set it back, or give this "
            "configuration a folder of its own."
        )
    before, now = checkpoint.facts["settings"], recorded_settings(settings, model.origin)
    changed = [name for name in now if name in before and before[name] != now[name]]
    for name in changed:
        if name in _VOCABULARY_SETTINGS and (name == "tokenizer" or not model.origin):
            raise ConfigError(
                f"{name} is {now[name]!r}, but {run_dir} has a run that began with {before[name]!r} and has its "
                "vocabulary; set it back, or give this configuration a folder of its own."
            )
        if name == "optimizer":
            raise ConfigError(
                f"optimizer is {now[name]!r}, but {run_dir} has a run that was trained with {before[name]!r}; set it "
                "back, or give this configuration a folder of its own."
            )
    for name in changed:
        report(f"{name} was {before[name]!r} and is {now[name]!r} from here on")


def _make_tokenizer(
    settings: TrainingSettings, corpora: list[LoadedCorpus], run_dir: Path, tokenizer_dir: Path, processes: Processes
) -> VersoTokenizer:
    if settings.tokenizer:
        return VersoTokenizer.load(tokenizer_dir / settings.tokenizer)

    def learn() -> tuple[bytes, bytes | None]:
        tokenizer = learn_vocabulary(settings, corpora)
        write_vocabulary(tokenizer, run_dir)
        return tokenizer.model_proto, tokenizer.target_proto

    return VersoTokenizer(*processes.from_first(learn))


def _controlled_pairs(
    settings: TrainingSettings, corpora: Sequence[LoadedCorpus], run_dir: Path, processes: Processes
) -> ControlledPairs | None:
    """The maker of pairs with placeholders, terms and forms of address, if the settings have any."""
    if not settings.controls.changes_pairs:
        return None
    # Words are aligned in text that people translated.
    pairs = [pair for corpus in corpora if corpus.tag is None for pair in corpus.pairs]
    lexicon = processes.from_first(lambda: WordLexicon.load_or_learn(run_dir / LEXICON, pairs))
    return ControlledPairs(settings.controls, lexicon, settings.languages)
