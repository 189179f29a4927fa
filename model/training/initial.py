"""The starting point of fine-tuning: weights, architecture and vocabulary of an existing model."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from model.artifacts.bundle import extra_files, is_checkpoint, load_bundle, read_manifest
from model.artifacts.checkpoint import load_checkpoint
from model.decoding.shortlist import SHORTLIST
from model.errors import ArtifactError, ConfigError
from model.languages import LanguagePairs
from model.network.config import ModelConfig
from model.network.presets import expand_preset
from model.network.transformer import Transformer
from model.process.files import file_digest as digest_of_file
from model.text.lexicon import LEXICON
from model.text.tokenizer import Tokenizer, VersoTokenizer
from model.training.settings import TrainingSettings

IMPORTED = ("tokenizer", "decoding")
"""Additional metadata in checkpoints fine-tuned from imported models, as in manifests."""

_BY_TOKEN = {"source_embedding.tokens.weight", "target_embedding.tokens.weight", "output.weight", "output.bias"}
"""Parameters with a row for each token."""

_CHANGEABLE = ("dropout",)
"""Fields of the architecture that fine-tuning may change, because the weights do not depend on them."""


@dataclass(frozen=True)
class Initial:
    """The model that fine-tuning starts from.

    Args:
        config: Its architecture.
        weights: Its parameters by name in float32; tied parameters occur once.
        tokenizer: Its tokenizer.
        name: Its name.
        sha256: Digest of its file.
        facts: For an imported model, ``tokenizer`` and ``decoding`` of its bundle's manifest.
        files: For an imported model, its vocabulary files by name.
        directions: For an imported model, the language pairs it translates.
    """

    config: ModelConfig
    weights: dict[str, Tensor]
    tokenizer: Tokenizer
    name: str
    sha256: str
    facts: dict[str, Any] = field(default_factory=dict)
    files: dict[str, bytes] | None = None
    directions: LanguagePairs | None = None

    @property
    def origin(self) -> dict[str, str]:
        """Its name and digest, as recorded in checkpoints and bundles."""
        return {"name": self.name, "sha256": self.sha256}


def load_initial(path: Path) -> Initial:
    """Read a checkpoint, or a bundle with floating-point weights.

    A bundle contains code, which runs when the bundle is loaded, as in serving.

    Raises:
        ArtifactError: The file is missing, damaged, of another format, or has int8 weights.
    """
    if path.is_dir():
        raise ArtifactError(
            f"{path} is a folder; --init-from names a checkpoint or a bundle. To make a bundle of a hub folder, use "
            f"'verso import {path} --precision float32 --out FILE'."
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
    parameters = dict(bundle.module.named_parameters(remove_duplicate=False))
    for name in names:
        if name not in parameters:
            raise ArtifactError(f"{path} has no parameter {name}; export it again with this release.")
    weights = {name: parameters[name].detach().float().clone() for name in names}
    if isinstance(bundle.tokenizer, VersoTokenizer):
        return Initial(config, weights, bundle.tokenizer, manifest.name, digest)
    return Initial(
        config,
        weights,
        bundle.tokenizer,
        manifest.name,
        digest,
        {key: getattr(manifest, key) for key in IMPORTED},
        {name: content for name, content in extra_files(path).items() if name not in (SHORTLIST, LEXICON)},
        manifest.directions,
    )


def file_digest(path: Path) -> str:
    """The SHA-256 of a file.

    Raises:
        ArtifactError: The file cannot be read.
    """
    try:
        return digest_of_file(path)
    except OSError as error:
        raise ArtifactError(
            f"{path} cannot be read: {error.strerror}; --init-from names a file to start from."
        ) from error


def check_origin(run_dir: Path, origin: dict[str, str] | None, init_from: Path | None) -> None:
    """Check that a resumed run was initialised from the given model.

    Args:
        run_dir: The run's folder.
        origin: The :attr:`Initial.origin` of the run; None if it started from random weights.
        init_from: The given model, or None. If the run has an origin, the file may no longer exist.

    Raises:
        ConfigError: The run was initialised from another model, or from random weights.
    """
    if init_from is None or (origin and not init_from.exists()):
        return
    if origin is None:
        raise ConfigError(
            f"{run_dir} contains a run that began with random weights, and --init-from names {init_from}; give the new "
            "run a folder of its own."
        )
    if file_digest(init_from) != origin["sha256"]:
        raise ConfigError(
            f"{run_dir} contains a run that began with {origin['name']} of SHA-256 {origin['sha256']}, and {init_from} "
            "is another file; give the new run a folder of its own."
        )


def with_vocabulary(initial: Initial, tokenizer: VersoTokenizer) -> Initial:
    """The same model with another shared vocabulary.

    A token that both vocabularies have keeps its vector. The vector of another piece is the mean of those of the old
    pieces that its text is cut into (Sachidananda et al. 2021); it is random for a symbol, which has no text.

    Args:
        initial: A model of this project, whose source and target share a vocabulary.
        tokenizer: The vocabulary that it gets.

    Raises:
        ConfigError: The model is imported, or either of the two has separate vocabularies.
    """
    old = initial.tokenizer
    if not isinstance(old, VersoTokenizer) or old.target_proto is not None or tokenizer.target_proto is not None:
        raise ConfigError(
            f"'tokenizer' gives {initial.name} another vocabulary, which is possible only for a model of this project "
            "with one vocabulary for source and target; leave it out."
        )
    ids = tokenizer.counterparts(old)
    weights = dict(initial.weights)
    for name in _BY_TOKEN & weights.keys():
        rows = weights[name]
        noise = torch.randn(len(ids), *rows.shape[1:], generator=torch.Generator().manual_seed(1)) * rows.std()
        weights[name] = torch.stack([rows[common].mean(0) if common else noise[i] for i, common in enumerate(ids)])
    size = tokenizer.vocab_size
    config = replace(initial.config, source_vocab_size=size, target_vocab_size=size)
    return replace(initial, config=config, weights=weights, tokenizer=tokenizer)


def fine_tuning_config(
    settings: TrainingSettings,
    config: ModelConfig,
    tokenizer: Tokenizer,
    directions: LanguagePairs | None = None,
) -> ModelConfig:
    """The architecture of a fine-tuning run: that of the model it starts from, with the dropout of the settings.

    Args:
        settings: The run's settings. Fields of the architecture must be absent or equal to the model's.
        config: The model's architecture.
        tokenizer: The model's tokenizer.
        directions: The language pairs of an imported model.

    Raises:
        ConfigError: The settings ask for another architecture or vocabulary, for sentences longer than the model's
            positions, or for a language for which the model has no marker.
    """
    fields = asdict(config)
    model_fields: dict[str, Any] = expand_preset(settings.model)
    for name, value in model_fields.items():
        if name not in _CHANGEABLE and fields.get(name) != value:
            raise ConfigError(
                f"model asks for {name} {value!r}, but the model to start from has {fields.get(name)!r}; leave it out: "
                "the architecture comes from there."
            )
    for name in ("vocab_size", "tokenizer_kind", "separate_vocabularies"):
        setting, default = getattr(settings, name), getattr(TrainingSettings, name)
        if setting != default and not (name == "vocab_size" and setting == config.source_vocab_size):
            raise ConfigError(
                f"{name} is {setting!r}, but the vocabulary has the {config.source_vocab_size} tokens of the model to "
                "start from, or of the file that 'tokenizer' names; leave it out."
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
        if isinstance(tokenizer, VersoTokenizer) and target not in tokenizer.languages:
            raise ConfigError(
                f"pairs asks for translations to {target!r}, but the model to start from can be asked for "
                f"{', '.join(tokenizer.languages)} only."
            )
    return replace(config, **{name: model_fields[name] for name in _CHANGEABLE if name in model_fields})
