"""A folder with a model of Marian: which file is the model, and everything that the folder says about it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import langcodes

from model.decoding.options import MAX_BEAM_SIZE
from model.decoding.policy import DecodingPolicy
from model.errors import ArtifactError
from model.importing.family import Family, Overrides
from model.importing.folder import CheckpointFolder
from model.importing.marian import directions, language_tokens
from model.importing.marian_nmt.binary import BinaryFile, is_binary_model
from model.importing.marian_nmt.description import Description, read_description
from model.importing.marian_nmt.flat_yaml import Value, read_flat_yaml
from model.importing.marian_nmt.items import MarianFile
from model.importing.marian_nmt.npz import NpzFile, is_npz_model
from model.importing.marian_nmt.vocabulary import Vocabulary, read_vocabulary_files
from model.importing.marian_nmt.weights import MarianWeights
from model.importing.values import shown
from model.languages import standard_code
from model.network.padding import NO_PAD_ID

_SUFFIXES = (".bin", ".npz")

_LONGEST_STUDENT_SOURCE = 128
"""Tokens of the longest sentence of a student, as in Firefox, which divides longer ones."""

_PAIR_IN_NAME = re.compile(r".*(?:model|vocab)\.(?:en([a-z]{2,3})|([a-z]{2,3})en)\..+")
"""Names of Firefox's files: ``model.ende.intgemm.alphas.bin``, ``srcvocab.jaen.spm``; one language is English."""

_MAX_OPTIONS_BYTES = 65_536


def find_model(path: Path) -> Path | None:
    """The Marian model of a folder, recognised by its content; None if there is none.

    Args:
        path: The folder, or the model itself.

    Raises:
        ArtifactError: A folder has several, or a file cannot be read.
    """
    if path.is_dir():
        candidates: Iterable[Path] = sorted(file for file in path.iterdir() if file.suffix in _SUFFIXES)
    else:
        candidates = [path]
    try:
        models = [file for file in candidates if file.is_file() and (is_binary_model(file) or is_npz_model(file))]
    except OSError as error:
        raise ArtifactError(f"{error.filename} cannot be read: {error.strerror}.") from error
    if len(models) > 1:
        names = ", ".join(model.name for model in models)
        raise ArtifactError(f"{path} contains several models: {names}. Name one of the files instead of the folder.")
    return models[0] if models else None


@dataclass(frozen=True)
class MarianCheckpoint:
    """A model of Marian.

    Args:
        description: Its architecture.
        weights: Its weights.
        family: What the folder says about it.
        max_source_tokens: Tokens of the longest sentence that it reads.
    """

    description: Description
    weights: MarianWeights
    family: Family
    max_source_tokens: int


def read_checkpoint(model: Path, overrides: Overrides) -> MarianCheckpoint:
    """Read the description and the vocabulary of a model.

    Args:
        model: The model; its vocabulary is in the same folder.
        overrides: The directions to serve.

    Raises:
        ArtifactError: A file is damaged or missing, or the model is of a kind that cannot be imported.
    """
    file: MarianFile = BinaryFile(model) if is_binary_model(model) else NpzFile(model)
    description = read_description(file)
    folder = CheckpointFolder(model.parent)
    options = _decoder_options(folder, model)
    named = _pair_in_names(model)
    stated = options.get("vocabs", [])
    pair = overrides.pairs[0] if len(overrides.pairs) == 1 else named
    vocabulary = read_vocabulary_files(folder, tuple(Path(name).name for name in stated), pair)
    _check_sizes(folder, vocabulary, description)
    pairs, tokens = directions(
        named,
        language_tokens(vocabulary.source_tokens),
        overrides,
        "the name of its model names no pair, as model.ende.bin",
    )
    tokenizer = vocabulary.tokenizer | ({"language_tokens": tokens} if tokens else {})
    policy, notes = _policy(options, model, vocabulary, description)
    family = Family(
        config=description.config,
        pad_id=NO_PAD_ID,
        position_skip=0,
        policy=policy,
        tokenizer=tokenizer,
        files=vocabulary.files,
        pairs=pairs,
        notes=notes,
    )
    max_source_tokens = _LONGEST_STUDENT_SOURCE if description.is_student else description.config.max_positions
    return MarianCheckpoint(description, MarianWeights(file, description), family, max_source_tokens)


def _pair_in_names(model: Path) -> tuple[str, str] | None:
    """The languages in the name of a model or of its vocabulary, such as ``model.ende.intgemm.alphas.bin``."""
    for path in [model, *sorted(model.parent.glob("*vocab.*.spm"))]:
        match = _PAIR_IN_NAME.fullmatch(path.name)
        if match is not None and langcodes.tag_is_valid(match[1] or match[2]):
            return ("en", standard_code(match[1])) if match[1] else (standard_code(match[2]), "en")
    return None


def _check_sizes(folder: CheckpointFolder, vocabulary: Vocabulary, description: Description) -> None:
    """Refuse a vocabulary of another size than its embedding."""
    config = description.config
    if vocabulary.sizes != (config.source_vocab_size, config.target_vocab_size):
        raise ArtifactError(
            f"{folder.path}: the vocabularies have {vocabulary.sizes[0]} and {vocabulary.sizes[1]} tokens, and the "
            f"model has {config.source_vocab_size} and {config.target_vocab_size}; they belong to different models."
        )


def _decoder_options(folder: CheckpointFolder, model: Path) -> dict[str, Value]:
    """The options that Marian writes beside a model for its decoder; empty if there are none.

    Raises:
        ArtifactError: They are damaged.
    """
    for name in (f"{model.name}.decoder.yml", "decoder.yml"):
        if folder.has(name):
            content = folder.bytes(name)
            if len(content) > _MAX_OPTIONS_BYTES:
                raise ArtifactError(
                    f"{folder.path / name} has {len(content)} bytes; the limit is {_MAX_OPTIONS_BYTES}."
                )
            try:
                return dict(read_flat_yaml(content))
            except ValueError as error:
                raise ArtifactError(f"{folder.path / name} is damaged: {error}; download it again.") from error
    return {}


def _policy(
    options: dict[str, Value], model: Path, vocabulary: Vocabulary, description: Description
) -> tuple[DecodingPolicy, tuple[str, ...]]:
    """How the model decodes, and notes on options that are not imported."""
    length_penalty = _number(options, "normalize", 1.0, 10.0)
    beam_size = int(_number(options, "beam-size", 1.0, MAX_BEAM_SIZE))
    notes = tuple(
        f"{key} {shown(options[key])} is not imported"
        for key in ("word-penalty", "allow-unk", "output-sampling")
        if options.get(key) not in (None, "0", "0.0", "false", [])
    )
    policy = DecodingPolicy(
        scoring="marian",
        length_penalty=length_penalty,
        beam_size=max(1, beam_size),
        forbidden=(vocabulary.unknown_id,),
        alignment_head=_guided_head(model, description),
    )
    return policy, notes


def _guided_head(model: Path, description: Description) -> int | None:
    """The head that guided alignment trained: the first one. Students have it, and OPUS-MT's names say so."""
    is_trained = description.is_student or "align" in model.name
    return 0 if is_trained and description.guided_layer else None


def _number(options: dict[str, Value], key: str, default: float, largest: float) -> float:
    value = options.get(key)
    if value is None:
        return default
    try:
        number = float(value) if isinstance(value, str) else -1.0
    except ValueError:
        number = -1.0
    if not 0.0 <= number <= largest:
        raise ArtifactError(f"decoder.yml has {key} {shown(value)}; it must be 0 to {largest:g}.")
    return number
