"""Where fine-tuning starts: the weights, the architecture and the vocabulary of a model that is there already."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from model import digests
from model.artifacts.bundle import extra_files, is_checkpoint, load_bundle, read_manifest
from model.artifacts.checkpoint import load_checkpoint
from model.decoding.shortlist import SHORTLIST
from model.errors import ArtifactError, ConfigError
from model.languages import LanguagePairs
from model.network.config import ModelConfig
from model.network.presets import expand_preset
from model.network.transformer import Transformer
from model.text.tokenizer import TextTokenizer, Tokenizer
from model.training.settings import TrainingSettings

IMPORTED = ("tokenizer", "decoding")
"""What checkpoints that began as imported models know besides, as manifests do."""

_FREE = ("dropout",)
"""What a configuration may say of an architecture whose weights are there: nothing they depend on."""


@dataclass(frozen=True)
class Initial:
    """A model to go on from.

    Args:
        config: Its architecture.
        weights: Its parameters by name; tied ones once; float32.
        tokenizer: Its vocabulary.
        name: What it calls itself.
        sha256: Digest of the file.
        facts: Of an imported model: its ``tokenizer`` and ``decoding``, as its bundle's manifest has them.
        files: Of an imported model: its vocabulary files by name.
        directions: Of an imported model: what it translates.
    """

    config: ModelConfig
    weights: dict[str, Tensor]
    tokenizer: TextTokenizer
    name: str
    sha256: str
    facts: dict[str, Any] = field(default_factory=dict)
    files: dict[str, bytes] | None = None
    directions: LanguagePairs | None = None

    @property
    def origin(self) -> dict[str, str]:
        """What later checkpoints and bundles say about it."""
        return {"name": self.name, "sha256": self.sha256}


def load_initial(path: Path) -> Initial:
    """Read a checkpoint of a run, or a bundle whose weights are floating-point numbers.

    A bundle is code and runs while it is read, as when it is served.

    Raises:
        ArtifactError: The file is missing, damaged, foreign, or of int8 weights.
    """
    if path.is_dir():
        raise ArtifactError(
            f"{path} is a folder; --init-from names a checkpoint or a bundle. A folder from a model hub is made a "
            f"bundle by 'python -m model import {path} --precision float32 --out FILE'."
        )
    digest = file_digest(path)
    if is_checkpoint(path):
        checkpoint = load_checkpoint(path)
        weights = {name: value.float() for name, value in checkpoint.weights.items()}
        name = str(checkpoint.facts.get("name", path.stem))
        facts = {key: checkpoint.facts[key] for key in IMPORTED if key in checkpoint.facts}
        return Initial(checkpoint.config, weights, checkpoint.tokenizer, name, digest, facts, checkpoint.files)
    manifest = read_manifest(path)
    if manifest.precision == "int8":
        raise ArtifactError(
            f"{path} is an int8 bundle: its weights were rounded to 255 levels and cannot be trained on. Start from "
            "the checkpoint it was made of, or from a bundle of it made with --precision float32."
        )
    bundle = load_bundle(path)
    config = ModelConfig.from_dict(manifest.architecture)
    with torch.device("meta"):  # names only
        names = [name for name, _ in Transformer(config, bundle.tokenizer.pad_id).named_parameters()]
    found = dict(bundle.module.named_parameters(remove_duplicate=False))
    for name in names:
        if name not in found:
            raise ArtifactError(f"{path} has no parameter {name}; export it again with this release.")
    weights = {name: found[name].detach().float().clone() for name in names}
    if isinstance(bundle.tokenizer, Tokenizer):
        return Initial(config, weights, bundle.tokenizer, manifest.name, digest)
    return Initial(
        config,
        weights,
        bundle.tokenizer,
        manifest.name,
        digest,
        {key: getattr(manifest, key) for key in IMPORTED},
        {name: content for name, content in extra_files(path).items() if name != SHORTLIST},
        manifest.directions,
    )


def file_digest(path: Path) -> str:
    """The SHA-256 of a file.

    Raises:
        ArtifactError: It cannot be read.
    """
    try:
        return digests.file_digest(path)
    except OSError as error:
        raise ArtifactError(
            f"{path} cannot be read: {error.strerror}; --init-from names a file to start from."
        ) from error


def fine_tuning_config(
    settings: TrainingSettings,
    config: ModelConfig,
    tokenizer: TextTokenizer,
    directions: LanguagePairs | None = None,
) -> ModelConfig:
    """The architecture of a run that goes on from a model: the model's, with the dropout the settings ask for.

    Args:
        settings: Of the run. What they leave out comes from the model; what they say must be true of it.
        config: The model's architecture.
        tokenizer: The model's vocabulary.
        directions: What an imported model translates.

    Raises:
        ConfigError: The settings ask for another architecture or vocabulary, for longer sentences than the model has
            positions for, or for a language it has no marker for.
    """
    fields = asdict(config)
    wanted: dict[str, Any] = expand_preset(settings.model)
    for name, value in wanted.items():
        if name not in _FREE and fields.get(name) != value:
            raise ConfigError(
                f"model asks for {name} {value!r}, but the model to start from has {fields.get(name)!r}; leave it out: "
                "the architecture comes from there."
            )
    for name in ("vocab_size", "tokenizer", "tokenizer_kind", "separate_vocabularies"):
        given, default = getattr(settings, name), getattr(TrainingSettings, name)
        if given != default and not (name == "vocab_size" and given == config.source_vocab_size):
            raise ConfigError(
                f"{name} is {given!r}, but the vocabulary comes from the model to start from, with its "
                f"{config.source_vocab_size} tokens; leave it out."
            )
    if settings.max_tokens_per_sentence > config.max_positions:
        raise ConfigError(
            f"max_tokens_per_sentence is {settings.max_tokens_per_sentence}, but the model to start from has positions "
            f"for {config.max_positions} tokens; lower it."
        )
    for source, target in settings.direction_pairs:
        if directions is not None and (source, target) not in directions:
            raise ConfigError(
                f"pairs asks for {source}-{target}, but the model to start from translates {directions.describe()}."
            )
        if isinstance(tokenizer, Tokenizer) and target not in tokenizer.languages:
            raise ConfigError(
                f"pairs asks for translations to {target!r}, but the model to start from can be asked for "
                f"{', '.join(tokenizer.languages)} only."
            )
    return replace(config, **{name: wanted[name] for name in _FREE if name in wanted})
