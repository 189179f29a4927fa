"""Checkpoints: everything needed to resume a training run exactly, or to export a model."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from model.artifacts.data_form import is_archive
from model.errors import ArtifactError, ConfigError
from model.network.config import ModelConfig
from model.network.transformer import Transformer
from model.process.files import atomic_write
from model.text.hf_tokenizers import own_files, restore_tokenizer
from model.text.tokenizer import Tokenizer, VersoTokenizer

FORMAT_VERSION = 1


@dataclass(frozen=True)
class Checkpoint:
    """A trained model as training leaves it.

    Args:
        config: The architecture.
        weights: Parameters by name; tied ones once.
        tokenizer: The vocabulary the ids belong to.
        facts: What is known about it: name, directions, licence, settings, step, scores; ready for JSON. Of a model
            that began as an imported one also ``tokenizer`` and ``decoding``, as a bundle's manifest has them.
        progress: State of the optimiser and of the random number generators, to resume from; empty in an exported
            average.
        files: Vocabulary files of an imported model's tokenizer by name; None of our own.
    """

    config: ModelConfig
    weights: dict[str, Tensor]
    tokenizer: Tokenizer
    facts: dict[str, Any]
    progress: dict[str, Any]
    files: dict[str, bytes] | None = None

    @property
    def vocabulary_files(self) -> dict[str, bytes]:
        """Files to restore the tokenizer from, by name (:func:`model.text.hf_tokenizers.restore_tokenizer`)."""
        return own_files(self.own_tokenizer) if self.files is None else self.files

    @property
    def own_tokenizer(self) -> VersoTokenizer:
        """The tokenizer, if a training run learned it.

        Raises:
            ArtifactError: It is an imported model's.
        """
        if not isinstance(self.tokenizer, VersoTokenizer):
            raise ArtifactError("This needs a checkpoint with a vocabulary of our own; this one began as an import.")
        return self.tokenizer

    def build(self) -> Transformer:
        """The model with these weights, ready to decode (float32, evaluation mode).

        Raises:
            ArtifactError: The weights do not fit the architecture, or contain NaN.
        """
        transformer = Transformer(self.config, self.tokenizer.pad_id)
        load_weights(transformer, self.weights)
        return transformer.eval()


def untied_weights(transformer: Transformer) -> dict[str, Tensor]:
    """Parameters by name; of tied ones the first name only."""
    return {name: parameter.detach() for name, parameter in transformer.named_parameters()}


def load_weights(transformer: Transformer, weights: Mapping[str, Tensor]) -> None:
    """Copy weights into a model.

    Raises:
        ArtifactError: A parameter is missing, surplus, of another shape, or not finite.
    """
    parameters = dict(transformer.named_parameters())
    for name in parameters.keys() ^ weights.keys():
        problem = "misses" if name in parameters else "has the unknown"
        raise ArtifactError(f"The checkpoint {problem} parameter {name}; it is of another architecture.")
    with torch.no_grad():
        for name, parameter in parameters.items():
            value = weights[name]
            if value.shape != parameter.shape:
                raise ArtifactError(
                    f"Parameter {name} has shape {tuple(value.shape)} in the checkpoint; "
                    f"the architecture needs {tuple(parameter.shape)}."
                )
            if not torch.isfinite(value).all():
                raise ArtifactError(f"Parameter {name} contains NaN or infinity; the training diverged.")
            parameter.copy_(value)


def save_checkpoint(checkpoint: Checkpoint, path: Path) -> None:
    """Write a checkpoint; ``path`` is always either the complete old or the complete new one.

    Raises:
        ArtifactError: The disk is full or the folder cannot be written; the old file is intact.
    """
    content = {
        "format_version": FORMAT_VERSION,
        "config": checkpoint.config.to_dict(),
        "weights": checkpoint.weights,
        "facts": checkpoint.facts,
        "progress": checkpoint.progress,
    }
    if isinstance(checkpoint.tokenizer, VersoTokenizer):
        content["tokenizer"] = checkpoint.tokenizer.model_proto
        if checkpoint.tokenizer.target_proto is not None:
            content["target_tokenizer"] = checkpoint.tokenizer.target_proto
    else:
        content["vocabulary"] = checkpoint.vocabulary_files
    try:
        with atomic_write(path) as unfinished, unfinished.open("wb") as sink:
            torch.save(content, sink)
    except (OSError, RuntimeError) as error:
        # A full disk raises OSError or, inside torch's writer, RuntimeError.
        raise ArtifactError(
            f"The checkpoint {path} could not be written: {error}. The previous one is intact."
        ) from error


def load_checkpoint(path: Path) -> Checkpoint:
    """Read a checkpoint without running any code in it.

    Raises:
        ArtifactError: The file is missing, damaged, or of another or newer format.
    """
    if not path.is_file():
        raise ArtifactError(f"There is no checkpoint at {path}.")
    if not is_archive(path):
        raise ArtifactError(f"{path} is no checkpoint, or was cut short; restore it from a copy.")
    try:
        with zipfile.ZipFile(path) as archive:
            # torch does not check the checksums.
            if damaged := archive.testzip():
                raise zipfile.BadZipFile(f"{damaged} inside it is damaged; restore it from a copy.")
        content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch.load raises errors of many kinds, from zlib's to pickle's
        raise ArtifactError(f"{path} cannot be read as a checkpoint: {error}") from error
    if not isinstance(content, dict) or "format_version" not in content:
        raise ArtifactError(f"{path} is no checkpoint of this project: it has no format_version.")
    if content["format_version"] != FORMAT_VERSION:
        raise ArtifactError(
            f"{path} has checkpoint format {content['format_version']}; this version reads {FORMAT_VERSION}. "
            "Use the version of Verso that wrote it."
        )
    try:
        if not all(isinstance(weight, Tensor) for weight in dict(content["weights"]).values()):
            raise TypeError("its weights are no tensors.")
        return Checkpoint(
            config=ModelConfig.from_dict(content["config"]),
            weights=content["weights"],
            tokenizer=(
                restore_tokenizer(content["facts"]["tokenizer"], content["vocabulary"])
                if "vocabulary" in content
                else VersoTokenizer(content["tokenizer"], content.get("target_tokenizer"))
            ),
            facts=content["facts"],
            progress=content["progress"],
            files=content.get("vocabulary"),
        )
    except KeyError as error:
        raise ArtifactError(f"{path} is incomplete: it has no {error}.") from error
    except (TypeError, ValueError, ConfigError) as error:
        raise ArtifactError(f"{path} is not a checkpoint: {error}") from error


def average_weights(checkpoints: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """The mean of several checkpoints, parameter by parameter.

    Of one run (Vaswani et al. 2017, section 6.1), or of runs that started from the same weights (Wortsman et al. 2022).

    Raises:
        ArtifactError: There are none, or they do not have the same parameters.
    """
    if not checkpoints:
        raise ArtifactError("There is no checkpoint to average.")
    shapes = {name: weight.shape for name, weight in checkpoints[0].items()}
    if any({name: weight.shape for name, weight in weights.items()} != shapes for weights in checkpoints):
        raise ArtifactError("The checkpoints to average are of different architectures.")
    # In float64, so that the mean of equal tensors is that tensor.
    return {
        name: torch.stack([weights[name].double() for weights in checkpoints]).mean(dim=0).float() for name in shapes
    }
