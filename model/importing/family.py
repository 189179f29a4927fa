"""The description of a checkpoint, and the fields of config.json that all families share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from model.decoding.policy import DecodingPolicy
from model.errors import ArtifactError, ConfigError
from model.importing.folder import CheckpointFolder
from model.importing.values import flag, number, shown, whole_number
from model.importing.weights import Layout
from model.languages import closest
from model.network.config import Activation, ModelConfig

_ACTIVATIONS: dict[str, Activation] = {"relu": "relu", "gelu": "gelu", "silu": "silu", "swish": "silu"}

_MAX_POSITIONS = 65_536
"""Rows of the largest position table that is created; the families have 512 and 1024 positions."""

_MAX_LISTED = 30
"""Number of languages listed in a message."""


@dataclass(frozen=True)
class Overrides:
    """Choices of the user who imports a checkpoint; they override what its files say.

    Args:
        pairs: Directions to serve, such as ``en-de``; all directions of the model by default.
        languages: Languages to serve; only for models that translate each language into each other.
    """

    pairs: tuple[tuple[str, str], ...] = ()
    languages: tuple[str, ...] = ()


@dataclass(frozen=True)
class Family:
    """The description of a checkpoint.

    Args:
        config: Its architecture.
        pad_id: The padding token of sources.
        position_skip: Number of unused rows at the start of a stored position table.
        policy: Its decoding policy.
        tokenizer: The manifest's ``tokenizer``.
        files: Its vocabulary files, for the bundle.
        pairs: Directions it translates, listed one by one.
        languages: Languages that it translates in all combinations.
        notes: Settings in the folder that are not imported, for the user.
    """

    config: ModelConfig
    pad_id: int
    position_skip: int
    policy: DecodingPolicy
    tokenizer: dict[str, Any]
    files: dict[str, bytes]
    pairs: tuple[tuple[str, str], ...] = ()
    languages: tuple[str, ...] = ()
    notes: tuple[str, ...] = field(default=())


def architecture(
    config: dict[str, Any],
    layout: Layout,
    shapes: Mapping[str, tuple[int, ...]],
    folder: CheckpointFolder,
    **family: Any,
) -> ModelConfig:
    """The architecture that config.json describes.

    Args:
        config: The content of config.json.
        layout: The roles of the tensors.
        shapes: The shapes of the tensors.
        folder: The checkpoint's folder.
        family: Fields fixed by the family: norm, layout and offset of positions.

    Raises:
        ArtifactError: The fields describe no possible model, or one that does not match the tensors.
    """
    # The families differ in the defaults of missing keys.
    marian = config["model_type"] == "marian"
    source_rows, target_rows = (shapes[name][0] for name in (layout.source_embedding, layout.target_embedding))
    vocab_size = whole_number(config, "vocab_size", source_rows)
    if source_rows != vocab_size:
        raise ArtifactError(
            f"The embedding {layout.source_embedding} has {source_rows} rows and config.json's vocab_size is "
            f"{vocab_size}; they belong to different checkpoints."
        )
    heads, d_ff = (
        [whole_number(config, f"{stack}_{name}") for stack in ("encoder", "decoder")]
        for name in ("attention_heads", "ffn_dim")
    )
    max_positions = whole_number(config, "max_position_embeddings")
    if max_positions > _MAX_POSITIONS:
        raise ArtifactError(
            f"config.json has max_position_embeddings {max_positions}; at most {_MAX_POSITIONS} can be imported."
        )
    try:
        return ModelConfig(
            source_vocab_size=source_rows,
            target_vocab_size=target_rows,
            d_model=whole_number(config, "d_model"),
            num_heads=heads[0],
            d_ff=d_ff[0],
            encoder_layers=whole_number(config, "encoder_layers"),
            decoder_layers=whole_number(config, "decoder_layers"),
            dropout=number(config, "dropout", 0.1),
            activation=_activation(config.get("activation_function", "gelu" if marian else "relu")),
            share_embeddings=layout.share_embeddings,
            tie_output=layout.tie_output,
            max_positions=max_positions,
            scale_embedding=flag(config, "scale_embedding", default=not marian, file="config.json"),
            output_bias=layout.output_bias is not None,
            decoder_num_heads=heads[1] if heads[1] != heads[0] else None,
            decoder_d_ff=d_ff[1] if d_ff[1] != d_ff[0] else None,
            **family,
        )
    except ConfigError as error:
        raise ArtifactError(f"{folder.path / 'config.json'} describes no possible model: {error}") from error


def _activation(name: object) -> Activation:
    if not isinstance(name, str) or name not in _ACTIVATIONS:
        raise ArtifactError(
            f"config.json has activation_function {shown(name)}; the importer knows {', '.join(sorted(_ACTIVATIONS))}."
        )
    return _ACTIVATIONS[name]


def known_language(code: str, codes: Iterable[str]) -> str:
    """The model's spelling of a requested language.

    Raises:
        ArtifactError: The model does not have the language.
    """
    codes = tuple(codes)
    own = closest(code, codes)
    if own is None:
        named, more = ", ".join(sorted(codes)[:_MAX_LISTED]), len(codes) - _MAX_LISTED
        raise ArtifactError(
            f"The model has no language {code!r}; it has {named}{f' and {more} more' if more > 0 else ''}."
        )
    return own


def check_differ(pairs: Iterable[tuple[str, str]]) -> None:
    """Refuse pairs whose source and target are the same language.

    Raises:
        ArtifactError: There is such a pair.
    """
    for source, target in pairs:
        if source == target:
            raise ArtifactError(f"--pair asks for {source} to {target}; name two languages.")
