"""What a checkpoint turned out to be, and the architecture that all families' config.json describe alike."""

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

_MOST_POSITIONS = 65_536
"""Longest position table made; families have 512 and 1024 places."""

_MOST_NAMED = 30
"""Languages listed in a message."""


@dataclass(frozen=True)
class Wishes:
    """What whoever imports may decide.

    Args:
        pairs: Directions to serve, such as ``en-de``; all there are by default.
        languages: Languages to serve, of a model that translates each into each.
    """

    pairs: tuple[tuple[str, str], ...] = ()
    languages: tuple[str, ...] = ()


@dataclass(frozen=True)
class Family:
    """What a checkpoint turned out to be.

    Args:
        config: Its architecture.
        pad_id: Fills short sources.
        position_skip: Rows of a stored position table before the first one used.
        policy: Its way of decoding.
        tokenizer: The manifest's ``tokenizer``.
        files: Its vocabulary files, for the bundle.
        pairs: Directions it translates, one by one.
        languages: Languages each of which it translates into each other.
        notes: What was in the folder and is not taken over, for people.
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
    """The fields that all families' config.json share.

    Args:
        config: That file's content.
        layout: Which tensors are which.
        shapes: Their shapes.
        folder: The checkpoint's.
        family: Fields the family decides: norm, layout and offset of positions.

    Raises:
        ArtifactError: They describe no possible model, or another one than the tensors.
    """
    # Their classes differ in what an absent key means.
    marian = config["model_type"] == "marian"
    activation = config.get("activation_function", "gelu" if marian else "relu")
    if not isinstance(activation, str) or activation not in _ACTIVATIONS:
        raise ArtifactError(
            f"config.json has activation_function {shown(activation)}; the importer knows "
            f"{', '.join(sorted(_ACTIVATIONS))}."
        )
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
    if max_positions > _MOST_POSITIONS:
        raise ArtifactError(
            f"config.json has max_position_embeddings {max_positions}; at most {_MOST_POSITIONS} can be imported."
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
            activation=_ACTIVATIONS[activation],
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


def known_language(code: str, codes: Iterable[str]) -> str:
    """The model's own spelling of a language somebody asks for.

    Raises:
        ArtifactError: It has no such language.
    """
    codes = tuple(codes)
    own = closest(code, codes)
    if own is None:
        named, more = ", ".join(sorted(codes)[:_MOST_NAMED]), len(codes) - _MOST_NAMED
        raise ArtifactError(
            f"The model has no language {code!r}; it has {named}{f' and {more} more' if more > 0 else ''}."
        )
    return own


def check_differ(pairs: Iterable[tuple[str, str]]) -> None:
    """Refuse a wish to translate a language into itself.

    Raises:
        ArtifactError: A pair is one.
    """
    for source, target in pairs:
        if source == target:
            raise ArtifactError(f"--pair asks for {source} to {target}; name two languages.")
