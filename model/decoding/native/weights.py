"""A model's weights in the order and the form in which the compiled library packs them."""

from __future__ import annotations

import functools
from typing import NamedTuple

import torch
from torch import Tensor, nn

from model.decoding.native.library import LinearSource, Precision
from model.network.config import ModelConfig
from model.network.quantised import Int8Linear

TYPES = {Precision.FLOAT32: torch.float32, Precision.BFLOAT16: torch.bfloat16, Precision.INT8: torch.int8}
"""The type of the weights of products, by precision."""
_FLOATS = {TYPES[precision]: precision for precision in (Precision.FLOAT32, Precision.BFLOAT16)}
"""The precision of a product by the type of its weights, if it is not in int8."""

_HEAD_MULTIPLE = 16
"""The library computes with heads that are a multiple of this wide; narrower ones are padded with zeros."""
_COMPARED_ROWS = 4096
"""Rows of an embedding that are compared with those of the output at once."""
_MOST_INT8_INPUTS = 2**16
"""Inputs of an int8 product: with more, its sum might not fit into 32 bits."""


class Unsupported(Exception):
    """The library cannot decode a model; the message is the reason."""


class PackedProduct(NamedTuple):
    """A layer's product in the library: the number of the product, its precision, and its outputs and inputs.

    Both have three numbers: with padding, without padding, and of the heads that they are divided into. The outputs of
    several layers may be one product; this layer's begin at ``first``.
    """

    number: int
    precision: Precision
    outputs: tuple[int, int, int | None]
    inputs: tuple[int, int, int | None]
    first: int = 0


class _Rows(NamedTuple):
    """The weights of a product, in int8 with the scale of each row."""

    weight: Tensor
    scales: Tensor | None
    bias: Tensor | None

    @property
    def precision(self) -> Precision:
        return Precision.INT8 if self.scales is not None else _FLOATS[self.weight.dtype]


class WeightCollection:
    """A model's weights in the order in which the library packs them. It keeps the tensors whose addresses are passed.

    Args:
        module: The model, scripted or not.
        config: Its architecture.

    Attributes:
        linears: The products that the library packs.
        packed: The packed products, by name.
        kept: The tensors that it does not pack, by name.
        tables: Token embeddings and positions of the source, and those of the target.
        table_precision: The precision of the token embeddings.
        table_scales: The scale of each token, if the token embeddings are the weights of an int8 output; else None.

    Raises:
        Unsupported: The module is not a Transformer of ``config`` in float32, bfloat16 or int8 on the CPU.
    """

    def __init__(self, module: object, config: ModelConfig) -> None:
        self.linears: list[LinearSource] = []
        self.packed: dict[str, PackedProduct] = {}
        self.norms: list[int | None] = []
        self.kept: dict[str, Tensor] = {}
        self._alive: list[Tensor] = []
        self._module = module
        self._d_model = config.d_model
        for index in range(config.encoder_layers):
            layer = f"encoder.{index}"
            self._add_self_attention(layer, config.num_heads)
            self._add_feed_forward(layer, config.d_ff)
        stack = config.decoder_stack
        for index in range(config.decoder_layers):
            layer = f"decoder.{index}"
            if config.decoder == "ssru":
                self._add_recurrence(layer)
            else:
                self._add_self_attention(layer, stack.num_heads)
            self._add_cross_attention(layer, stack.num_heads)
            self._add_feed_forward(layer, stack.d_ff)
        if config.norm == "pre":
            self._add_norm("encoder_norm")
            self._add_norm("decoder_norm")
        first_of_output = len(self._alive)
        self._add_linear("output", config.target_vocab_size, config.d_model)
        self.output = self._alive[first_of_output:]
        self.tables: list[Tensor] = []
        self.table_precision = _FLOATS[self._tensor("target_embedding.tokens.weight").dtype]
        self.table_scales: Tensor | None = None
        if self._tables_are_output(config):
            self.table_precision, self.table_scales = Precision.INT8, self.output[1]
        for embedding, vocab_size in (
            ("source_embedding", config.source_vocab_size),
            ("target_embedding", config.target_vocab_size),
        ):
            tokens, positions = f"{embedding}.tokens.weight", f"{embedding}.positions"
            self.kept[positions] = self._tensor(positions, (config.max_positions, config.d_model)).detach().contiguous()
            if self.table_scales is None:
                self.kept[tokens] = self._tensor(tokens, (vocab_size, config.d_model)).detach().contiguous()
                table = self.kept[tokens].to(TYPES[self.table_precision])
            else:
                table = self.output[0]
            self.tables += [table, self.kept[positions].float()]

    def _tables_are_output(self, config: ModelConfig) -> bool:
        """Whether both token embeddings are the weights of an int8 output, which take a quarter of their memory."""
        if self.linears[-1].precision != Precision.INT8 or not (config.share_embeddings and config.tie_output):
            return False
        table = self._tensor("target_embedding.tokens.weight", tuple(self.output[0].shape))
        parts = zip(*(tensor.split(_COMPARED_ROWS) for tensor in (*self.output[:2], table)), strict=True)
        return all(torch.equal(levels.float() * scales.unsqueeze(1), rows) for levels, scales, rows in parts)

    def _add_self_attention(self, layer: str, num_heads: int) -> None:
        width = self._d_model
        self._add_linear(f"{layer}.self_attention.query_key_value", 3 * width, width, output_heads=3 * num_heads)
        self._add_linear(f"{layer}.self_attention.output", width, width, input_heads=num_heads)
        self._add_norm(f"{layer}.self_attention_norm")

    def _add_recurrence(self, layer: str) -> None:
        """Add a recurrent unit, whose forget gate and projected input are one product."""
        width = self._d_model
        paths = (f"{layer}.recurrent.forget", f"{layer}.recurrent.input")
        forget, projected = (self._rows(path, width, width) for path in paths)
        if forget.precision != projected.precision:
            raise Unsupported(f"{paths[0]} is in {forget.precision.name}, and {paths[1]} in {projected.precision.name}")
        zeros = torch.zeros(width)
        rows = _Rows(
            torch.cat([forget.weight, projected.weight]),
            None if forget.scales is None or projected.scales is None else torch.cat([forget.scales, projected.scales]),
            torch.cat([zeros if part.bias is None else part.bias for part in (forget, projected)]),
        )
        self._add_product(rows)
        for index, path in enumerate(paths):
            size = (width, width, None)
            self.packed[path] = PackedProduct(len(self.linears) - 1, rows.precision, size, size, index * width)
        self._add_norm(f"{layer}.recurrent_norm")

    def _add_cross_attention(self, layer: str, num_heads: int) -> None:
        width = self._d_model
        self._add_linear(f"{layer}.cross_attention.query", width, width, output_heads=num_heads)
        self._add_linear(f"{layer}.cross_attention.key_value", 2 * width, width, output_heads=2 * num_heads)
        self._add_linear(f"{layer}.cross_attention.output", width, width, input_heads=num_heads)
        self._add_norm(f"{layer}.cross_attention_norm")

    def _add_feed_forward(self, layer: str, d_ff: int) -> None:
        width = self._d_model
        self._add_linear(f"{layer}.feed_forward.wide", d_ff, width)
        self._add_linear(f"{layer}.feed_forward.narrow", width, d_ff)
        self._add_norm(f"{layer}.feed_forward_norm")

    def _add_linear(
        self, path: str, outputs: int, inputs: int, output_heads: int | None = None, input_heads: int | None = None
    ) -> None:
        """Add a product.

        Args:
            path: The name of its layer.
            outputs: Number of outputs.
            inputs: Number of inputs.
            output_heads: Heads that the outputs are divided into, if any.
            input_heads: Heads that the inputs are divided into, if any.
        """
        weight, scales, bias = self._rows(path, outputs, inputs)
        weight = _padded(_padded(weight, output_heads).t(), input_heads).t()
        rows = _Rows(
            weight,
            None if scales is None else _padded(scales, output_heads),
            None if bias is None else _padded(bias, output_heads),
        )
        self._add_product(rows)
        padded_outputs, padded_inputs = weight.shape
        self.packed[path] = PackedProduct(
            len(self.linears) - 1,
            rows.precision,
            (padded_outputs, outputs, output_heads),
            (padded_inputs, inputs, input_heads),
        )

    def _add_product(self, rows: _Rows) -> None:
        pointers = (self._pointer(tensor) for tensor in rows)
        self.linears.append(LinearSource(*pointers, *rows.weight.shape, rows.precision))

    def _rows(self, path: str, outputs: int, inputs: int) -> _Rows:
        """The weights of a linear layer of this shape."""
        part = self._part(path)
        kind = _class_name(part)
        if kind not in (nn.Linear.__name__, Int8Linear.__name__):
            raise Unsupported(f"{path} is a {kind}, and the compiled decoder knows Linear and Int8Linear")
        bias = None
        if getattr(part, "bias", None) is not None:
            bias = self._tensor(f"{path}.bias", (outputs,)).float()
        if kind == nn.Linear.__name__:
            return _Rows(self._tensor(f"{path}.weight", (outputs, inputs)), None, bias)
        unpacked: Tensor = torch.ops.quantized.linear_unpack(part.packed)[0]
        _check_shape(path, unpacked, (outputs, inputs))
        if inputs > _MOST_INT8_INPUTS:
            raise Unsupported(f"{path} has {inputs} inputs in int8, and the compiled decoder {_MOST_INT8_INPUTS}")
        return _Rows(unpacked.int_repr(), unpacked.q_per_channel_scales().float(), bias)

    def _add_norm(self, path: str) -> None:
        for name in ("weight", "bias"):
            # A scalar gain is the same gain for all columns.
            tensor = self._tensor(f"{path}.{name}")
            _check_shape(f"{path}.{name}", tensor, (1,) if tensor.numel() == 1 else (self._d_model,))
            self.norms.append(self._pointer(tensor.float().expand(self._d_model)))
            self.kept[f"{path}.{name}"] = tensor.detach()

    def _part(self, path: str) -> nn.Module:
        part = self._find(path)
        if not isinstance(part, nn.Module):
            raise Unsupported(f"the model has no module {path}")
        return part

    def _tensor(self, path: str, shape: tuple[int, ...] | None = None) -> Tensor:
        """A parameter or buffer in float32 or bfloat16 on the CPU."""
        tensor = self._find(path)
        if not isinstance(tensor, Tensor):
            raise Unsupported(f"the model has no tensor {path}")
        if tensor.dtype not in _FLOATS or tensor.device.type != "cpu":
            kind = f"{str(tensor.dtype).removeprefix('torch.')} on {tensor.device.type}"
            raise Unsupported(f"{path} is {kind}, and the compiled decoder needs float32, bfloat16 or int8 on cpu")
        if shape is not None:
            _check_shape(path, tensor, shape)
        return tensor

    def _find(self, path: str) -> object:
        """The part of the module with a dotted name, or None. Scripted modules have no ``get_submodule``."""
        start: object = self._module
        return functools.reduce(lambda part, name: getattr(part, name, None), path.split("."), start)

    def _pointer(self, tensor: Tensor | None) -> int | None:
        if tensor is None:
            return None
        self._alive.append(tensor.detach().contiguous())
        return self._alive[-1].data_ptr()


def _padded(rows: Tensor, num_heads: int | None) -> Tensor:
    """The rows of some heads, each padded with rows of zeros to a width that the library supports."""
    if num_heads is None or len(rows) // num_heads % _HEAD_MULTIPLE == 0:
        return rows
    heads = rows.detach().unflatten(0, (num_heads, -1))
    width = -heads.shape[1] % _HEAD_MULTIPLE
    zeros = heads.new_zeros(num_heads, width, *heads.shape[2:])
    return torch.cat([heads, zeros], dim=1).flatten(end_dim=1)


def unpadded(rows: Tensor, number: int, num_heads: int | None) -> Tensor:
    """The reverse of :func:`_padded`, given its number of rows."""
    if num_heads is None or len(rows) == number:
        return rows
    return rows.unflatten(0, (num_heads, -1))[:, : number // num_heads].flatten(end_dim=1)


def _check_shape(path: str, tensor: Tensor, shape: tuple[int, ...]) -> None:
    """Refuse weights of another shape than the architecture's: the library would read beyond their end."""
    if tuple(tensor.shape) != shape:
        raise Unsupported(f"{path} has the shape {tuple(tensor.shape)}, and the architecture {shape}")


def _class_name(module: nn.Module) -> str:
    """The class a module had before it was scripted."""
    if isinstance(module, torch.jit.ScriptModule):
        return str(module.original_name)
    return type(module).__name__
