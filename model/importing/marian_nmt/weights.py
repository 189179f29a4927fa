"""The weights of a Marian model under the names of :class:`model.network.transformer.Transformer`.

int8 matrices stay as they are: their bytes become the weights of an int8 layer, and the scale of each row is that of
its matrix. They are not quantised a second time.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from model.errors import ArtifactError
from model.importing.marian_nmt.description import Description
from model.importing.marian_nmt.items import DESCRIPTION, Item, MarianFile
from model.network.embeddings import position_table
from model.network.quantised import round_rows

_ALPHA = "_QuantMultA"
"""Suffix of the scale of a product's inputs, which Verso measures for each row instead."""

_OUTPUT_BIAS = "decoder_ff_logit_out_b"

_SELF, _CONTEXT, _RECURRENT, _FEED_FORWARD = "self", "context", "rnn", "ffn"
_PRODUCTS: dict[str, tuple[str, str]] = {
    "self_attention.query_key_value": (_SELF, "qkv"),
    "self_attention.output": (_SELF, "o"),
    "cross_attention.query": (_CONTEXT, "q"),
    "cross_attention.key_value": (_CONTEXT, "kv"),
    "cross_attention.output": (_CONTEXT, "o"),
    "feed_forward.wide": (_FEED_FORWARD, "1"),
    "feed_forward.narrow": (_FEED_FORWARD, "2"),
    "recurrent.forget": (_RECURRENT, "f"),
}
"""Part of a layer, and the letters of the matrices that are stacked: ``self_Wq``, ``self_Wk``, ``self_Wv``."""

_NORMS = {
    "self_attention_norm": "self_Wo_ln",
    "cross_attention_norm": "context_Wo_ln",
    "feed_forward_norm": "ffn_ffn_ln",
    "recurrent_norm": "rnn_ffn_ln",
}
_NORM_PARTS = {"weight": "scale", "bias": "bias"}

_LAYER = re.compile(r"(encoder|decoder)\.(\d+)\.(.+)")


class MarianWeights:
    """Gives the weights of a model, as :func:`model.artifacts.data_form.assemble` takes them.

    Args:
        file: The model.
        description: What it describes.
    """

    def __init__(self, file: MarianFile, description: Description) -> None:
        self._file = file
        self._description = description
        self._used: set[str] = set()

    def take(self, name: str, dtype: torch.dtype, shape: tuple[int, ...]) -> Tensor:
        """A weight.

        Args:
            name: Its name in a bundle in data form.
            dtype: Its type; int8 for the levels of an int8 layer.
            shape: Its shape.

        Raises:
            ArtifactError: The file has no such weight, or one of another shape.
        """
        path, _, part = name.rpartition(".")
        if part == "positions":
            config = self._description.config
            return position_table(config.positions, config.max_positions, config.d_model).to(dtype)
        if part == "bias" and path.endswith("recurrent.input"):
            return torch.zeros(shape, dtype=dtype)  # only int8 layers have one
        if part in ("weight", "scales") and not path.endswith("norm"):
            return self._rows(path, part, dtype, shape)
        names = self._vector_names(path, part)
        if not names:
            return torch.zeros(shape, dtype=dtype)  # an int8 output without a bias
        parts = [self._item(name, (1, shape[0] // len(names))).floats().flatten() for name in names]
        return torch.cat(parts).to(dtype)

    def check_all_used(self) -> None:
        """Refuse tensors that no weight was made of.

        Raises:
            ArtifactError: There are some.
        """
        surplus = sorted(
            name
            for name in self._file.names
            if name not in self._used and name != DESCRIPTION and not name.endswith(_ALPHA)
        )
        if surplus:
            raise ArtifactError(
                f"{self._file.path} contains {len(surplus)} tensors its architecture has no place for, such as "
                f"{surplus[0]}; it is a variant that cannot be imported."
            )

    @property
    def are_quantised(self) -> bool:
        """Whether the file has int8 matrices."""
        return any(name.endswith(_ALPHA) for name in self._file.names)

    def _rows(self, path: str, part: str, dtype: torch.dtype, shape: tuple[int, ...]) -> Tensor:
        """Rows of a layer's weights, or their scales; stacked if the layer has several matrices."""
        names = self.matrix_names(path)
        inputs = self._description.config.d_model if len(shape) == 1 else shape[1]
        rows = shape[0] // len(names)
        parts: list[Tensor] = []
        for name in names:
            is_transposed = not name.endswith(("Wemb", "_Wt"))
            if part == "scales":
                item = self._any_item(name)
            else:
                item = self._item(name, (inputs, rows) if is_transposed else (rows, inputs))
            parts.append(_rows_of(item, is_transposed, part, dtype))
        return torch.cat(parts) if len(parts) > 1 else parts[0]

    def matrix_names(self, path: str) -> list[str]:
        """The tensors that the weight of a layer is made of, in the order of its rows.

        Args:
            path: The dotted name of the layer.
        """
        embeddings = {
            "source_embedding.tokens": self._description.source_embedding,
            "target_embedding.tokens": self._description.target_embedding,
            "output": self._description.output,
        }
        if path in embeddings:
            return [embeddings[path]]
        stack, number, inner = self._split(path)
        if inner == "recurrent.input":
            return [f"{stack}_l{number}_{_RECURRENT}_W"]
        part, letters = _PRODUCTS[inner]
        return [f"{stack}_l{number}_{part}_W{letter}" for letter in letters]

    def _vector_names(self, path: str, part: str) -> Sequence[str]:
        if path == "output":
            return [_OUTPUT_BIAS] if self._description.config.output_bias else []
        stack, number, inner = self._split(path)
        if inner in _NORMS:
            return [f"{stack}_l{number}_{_NORMS[inner]}_{_NORM_PARTS[part]}"]
        matrix_part, letters = _PRODUCTS[inner]
        return [f"{stack}_l{number}_{matrix_part}_b{letter}" for letter in letters]

    @staticmethod
    def _split(path: str) -> tuple[str, int, str]:
        match = _LAYER.fullmatch(path)
        assert match is not None, path
        return match[1], int(match[2]) + 1, match[3]

    def _item(self, name: str, shape: tuple[int, ...]) -> Item:
        item = self._any_item(name)
        if item.values.shape != shape:
            raise ArtifactError(
                f"{self._file.path}: {name} has shape {item.values.shape}; {DESCRIPTION} makes it {shape}."
            )
        return item

    def _any_item(self, name: str) -> Item:
        if name not in self._file.names:
            raise ArtifactError(f"{self._file.path} has no tensor {name}; it is cut short, or of another architecture.")
        self._used.add(name)
        return self._file.item(name)


def _rows_of(item: Item, is_transposed: bool, part: str, dtype: torch.dtype) -> Tensor:
    """The rows of a matrix (C out, C in), or the scale of each.

    Args:
        item: The matrix.
        is_transposed: Whether it is stored as (C in, C out).
        part: ``weight`` or ``scales``.
        dtype: int8 for the levels of an int8 layer; else a type of floating point numbers.
    """
    values = item.values.T if is_transposed else item.values
    if item.multiplier is not None and (part == "scales" or dtype == torch.int8):
        if part == "scales":
            return torch.full((len(values),), float(item.scale))
        return torch.from_numpy(np.array(values, dtype=np.int8, order="C"))
    floats = item.floats()
    rows = floats.t() if is_transposed else floats
    if part == "scales" or dtype == torch.int8:
        levels, scales = round_rows(rows)
        return scales if part == "scales" else levels
    return rows.to(dtype, copy=True, memory_format=torch.contiguous_format)
