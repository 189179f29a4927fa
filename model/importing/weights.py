"""Copying tensors of a Hugging Face checkpoint into a :class:`model.network.transformer.Transformer`.

MarianMT, M2M100 and NLLB share the names of their tensors. Whether embeddings are tied is determined from the tensors
and not from config.json, because there are checkpoints whose configuration says that they are tied and whose tensors
differ (https://github.com/huggingface/transformers/issues/26271).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from model.errors import ArtifactError
from model.importing.folder import Read, Tensors
from model.network.config import ModelConfig
from model.network.transformer import Transformer
from model.process.progress import Progress

_SHARED = "model.shared.weight"
_SOURCE = "model.encoder.embed_tokens.weight"
_TARGET = "model.decoder.embed_tokens.weight"
_OUTPUT = "lm_head.weight"
_OUTPUT_BIAS = "final_logits_bias"
_POSITIONS = ("embed_positions.weight", "embed_positions.weights")
_IGNORED = re.compile(r"model\.(encoder|decoder)\.version")
"""Version markers of fairseq, which do not affect the model."""

_SUB_LAYERS = {
    "self_attention.output": "self_attn.out_proj",
    "self_attention_norm": "self_attn_layer_norm",
    "cross_attention.query": "encoder_attn.q_proj",
    "cross_attention.output": "encoder_attn.out_proj",
    "cross_attention_norm": "encoder_attn_layer_norm",
    "feed_forward.wide": "fc1",
    "feed_forward.narrow": "fc2",
    "feed_forward_norm": "final_layer_norm",
}
_STACKED = {
    "self_attention.query_key_value": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    "cross_attention.key_value": ("encoder_attn.k_proj", "encoder_attn.v_proj"),
}


@dataclass(frozen=True)
class Layout:
    """The roles of a checkpoint's tensors.

    Args:
        source_embedding: Name of the source embedding.
        target_embedding: Name of the target embedding.
        output: Name of the output projection.
        output_bias: Name of its bias, or None.
        source_positions: Name of the encoder's position table, or None if none is stored.
        target_positions: Name of the decoder's position table, likewise.
        share_embeddings: Whether source and target embedding are equal.
        tie_output: Whether output projection and target embedding are equal.
    """

    source_embedding: str
    target_embedding: str
    output: str
    output_bias: str | None
    source_positions: str | None
    target_positions: str | None
    share_embeddings: bool
    tie_output: bool


def find_layout(tensors: Tensors) -> Layout:
    """Determine the roles of the tensors.

    Raises:
        ArtifactError: A required tensor is missing.
    """
    source = _first_matrix(tensors, _SOURCE, _SHARED)
    target = _first_matrix(tensors, _TARGET, _SHARED)
    output = _first_matrix(tensors, _OUTPUT, _TARGET, _SHARED)
    positions = [
        next((f"model.{stack}.{name}" for name in _POSITIONS if f"model.{stack}.{name}" in tensors), None)
        for stack in ("encoder", "decoder")
    ]
    return Layout(
        source,
        target,
        output,
        _OUTPUT_BIAS if _OUTPUT_BIAS in tensors else None,
        positions[0],
        positions[1],
        share_embeddings=_same(tensors, source, target),
        tie_output=_same(tensors, output, target),
    )


def check_sizes(tensors: Tensors, layout: Layout, config: ModelConfig) -> None:
    """Compare the sizes in config.json with the tensors, before memory is allocated for the model.

    Args:
        tensors: The checkpoint's tensors.
        layout: Their roles.
        config: The architecture that config.json describes.

    Raises:
        ArtifactError: config.json describes a model of another size.
    """
    for name in (layout.source_embedding, layout.target_embedding, layout.output):
        if tensors.shapes[name][1] != config.d_model:
            raise ArtifactError(
                f"Tensor {name} has shape {tensors.shapes[name]} and config.json's d_model is {config.d_model}; they "
                "belong to different checkpoints."
            )
    for stack, num_layers, d_ff in (
        ("encoder", config.encoder_layers, config.d_ff),
        ("decoder", config.decoder_layers, config.decoder_d_ff or config.d_ff),
    ):
        matches = (re.match(rf"model\.{stack}\.layers\.(\d{{1,6}})\.", name) for name in tensors.shapes)
        stored = 1 + max((int(match[1]) for match in matches if match), default=-1)
        if stored != num_layers:
            raise ArtifactError(
                f"config.json has {stack}_layers {num_layers} and the tensors are those of {stored}; they belong to "
                "different checkpoints, or a part of the weights is missing."
            )
        wide = f"model.{stack}.layers.0.fc1.weight"
        if wide in tensors and tensors.shapes[wide][:1] != (d_ff,):
            raise ArtifactError(
                f"Tensor {wide} has shape {tensors.shapes[wide]} and config.json's {stack}_ffn_dim is {d_ff}; they "
                "belong to different checkpoints."
            )


def stored_positions_differ(tensors: Tensors, layout: Layout, table: Tensor, skip: int) -> bool:
    """Whether a stored position table differs from the computed table.

    Args:
        tensors: The checkpoint's tensors.
        layout: Their roles.
        table: The computed table, (max_positions, C).
        skip: Number of unused rows at the start of a stored table.

    Raises:
        ArtifactError: A stored table is too small.
    """
    differ = False
    with tensors.reading() as read:
        for name in {layout.source_positions, layout.target_positions} - {None}:
            stored = _positions(read, str(name), table, skip)
            differ |= not torch.allclose(stored, table, rtol=0.0, atol=1e-6)
    return differ


def fill(
    transformer: Transformer,
    tensors: Tensors,
    layout: Layout,
    *,
    table: Tensor,
    position_skip: int,
    progress: Progress,
) -> None:
    """Copy a checkpoint's tensors into a model, one layer at a time, so that only one layer is in memory twice.

    Args:
        transformer: A model of the checkpoint's architecture.
        tensors: The checkpoint's tensors.
        layout: Their roles.
        table: The computed position table, for stacks without a stored table.
        position_skip: Number of unused rows at the start of a stored position table.
        progress: Wraps an iterable with a label and a length in a progress bar.

    Raises:
        ArtifactError: A tensor is missing, has another shape, is not finite, or is not part of the architecture.
    """
    parameters = dict(transformer.named_parameters())
    parts: dict[str, list[str]] = {}
    for name in parameters:
        parts.setdefault(".".join(name.split(".")[:2]), []).append(name)
    used: set[str] = set()
    for part in progress(parts.values(), "reading weights", len(parts)):
        with tensors.reading() as read, torch.no_grad():
            for name in part:
                sources = list(_sources(name, layout))
                used.update(sources)
                if not name.endswith(".positions"):
                    _copy(parameters[name], sources, read, tensors)
                elif sources:
                    parameters[name].copy_(_positions(read, sources[0], table, position_skip))
                else:
                    parameters[name].copy_(table)
    # Copies of tied embeddings and stored tables equal to the computed table were compared; they are not needed.
    used.update((_SHARED, layout.source_embedding, layout.target_embedding, layout.output))
    used.update(name for name in (layout.source_positions, layout.target_positions) if name is not None)
    surplus = sorted(name for name in tensors.shapes if name not in used and not _IGNORED.fullmatch(name))
    if surplus:
        raise ArtifactError(
            f"The checkpoint contains {len(surplus)} tensors its architecture has no place for, such as {surplus[0]}; "
            "it is a variant that cannot be imported."
        )


def _sources(name: str, layout: Layout) -> Iterator[str]:
    """Names of the checkpoint's tensors that make up a parameter."""
    fixed: dict[str, str | None] = {
        "source_embedding.tokens.weight": layout.source_embedding,
        "target_embedding.tokens.weight": layout.target_embedding,
        "source_embedding.positions": layout.source_positions,
        "target_embedding.positions": layout.target_positions,
        "output.weight": layout.output,
        "output.bias": layout.output_bias or _OUTPUT_BIAS,
    }
    if name in fixed:
        source = fixed[name]
        if source is not None:
            yield source
        return
    module, kind = name.rsplit(".", 1)
    if module in ("encoder_norm", "decoder_norm"):
        yield f"model.{module.split('_')[0]}.layer_norm.{kind}"
        return
    stack, index, inner = module.split(".", 2)
    for part in _STACKED.get(inner) or (_SUB_LAYERS[inner],):
        yield f"model.{stack}.layers.{index}.{part}.{kind}"


def _copy(parameter: Tensor, sources: list[str], read: Read, tensors: Tensors) -> None:
    """Fill a parameter with stacked tensors."""
    for source in sources:
        if source not in tensors:
            raise ArtifactError(f"The checkpoint has no tensor {source}; it is cut short, or of another architecture.")
    shape = tuple(parameter.shape)
    first_row = 0
    for source in sources:
        value = read(source)
        if source == _OUTPUT_BIAS:
            value = value.flatten()
        rows = shape[0] // len(sources)
        if tuple(value.shape) != (rows, *shape[1:]):
            raise ArtifactError(
                f"Tensor {source} has shape {tensors.shapes[source]}; config.json makes it {(rows, *shape[1:])}."
            )
        _check_kind(source, value)
        parameter[first_row : first_row + rows].copy_(value)
        _check_finite(source, parameter[first_row : first_row + rows])
        first_row += rows


def _check_kind(name: str, value: Tensor) -> None:
    if not value.is_floating_point():
        raise ArtifactError(
            f"Tensor {name} contains {value.dtype}; only floating point weights can be imported: ask for the "
            "checkpoint before it was quantised."
        )


def _check_finite(name: str, value: Tensor) -> None:
    if not torch.isfinite(value).all():
        raise ArtifactError(f"Tensor {name} contains NaN or infinity; the checkpoint is damaged or diverged.")


def _positions(read: Read, name: str, table: Tensor, skip: int) -> Tensor:
    stored = read(name)
    if stored.dim() != 2 or stored.size(0) < skip + table.size(0) or stored.size(1) != table.size(1):
        raise ArtifactError(
            f"Tensor {name} has shape {tuple(stored.shape)}; config.json makes it "
            f"{(skip + table.size(0), table.size(1))}."
        )
    _check_kind(name, stored)
    stored = stored[skip : skip + table.size(0)].float()
    _check_finite(name, stored)
    return stored


def _same(tensors: Tensors, first: str, second: str) -> bool:
    if first == second:
        return True
    if tensors.shapes[first] != tensors.shapes[second]:
        return False
    with tensors.reading() as read:
        left, right = read(first), read(second)
        return left.dtype == right.dtype and torch.equal(left, right)


def _first_matrix(tensors: Tensors, *names: str) -> str:
    for name in names:
        if name in tensors:
            if len(tensors.shapes[name]) != 2:
                raise ArtifactError(f"Tensor {name} has shape {tensors.shapes[name]}; it must have rows and columns.")
            return name
    raise ArtifactError(
        f"The checkpoint has no tensor {' or '.join(names)}; it is cut short, or of another architecture."
    )
