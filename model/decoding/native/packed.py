"""A model's weights, packed for the compiled library; and why a model cannot be."""

from __future__ import annotations

import ctypes
import functools
import logging
import weakref
from collections.abc import Sequence
from itertools import chain
from typing import Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from model.decoding.native.library import (
    Architecture,
    EmbeddingTables,
    LinearSource,
    Precision,
    check,
    choose_instruction_set,
    find_library,
)
from model.decoding.shortlist import Shortlist
from model.network.config import ModelConfig
from model.network.quantised import Int8Linear

logger = logging.getLogger("model.native")

_ACTIVATIONS = {"relu": 1, "silu": 2, "gelu": 3}
PrecisionName = Literal["float32", "bfloat16", "int8"]
"""What the weights of products are, as a manifest names it."""

_NAMES: dict[Precision, PrecisionName] = {
    Precision.FLOAT32: "float32",
    Precision.BFLOAT16: "bfloat16",
    Precision.INT8: "int8",
}
_TYPES = {Precision.FLOAT32: torch.float32, Precision.BFLOAT16: torch.bfloat16, Precision.INT8: torch.int8}
"""Of the weights of products."""
_FLOATS = {_TYPES[precision]: precision for precision in (Precision.FLOAT32, Precision.BFLOAT16)}
"""The precision of a product by the type of its weights, if it is not in int8."""

_HEAD_MULTIPLE = 16
"""The library computes with heads that are a multiple of this wide; narrower ones are filled up with zeros."""
_MOST_INT8_INPUTS = 2**16
"""Inputs of an int8 product: with more, its sum might not fit into 32 bits."""


class UnknownModule(Exception):
    """A module is none the library knows; the message is the reason."""


class NativeModel:
    """A model's weights, packed for the library.

    Args:
        library: The library.
        module: The model, scripted or not, on the CPU, in float32, bfloat16 or int8.
        config: Its architecture, one without :func:`reason_not_supported`.
        shortlist: The candidates of each source token, if sentences do not choose among the whole vocabulary.
        isa: The instruction set to compute with (:func:`model.decoding.native.library.choose_instruction_set`).

    Attributes:
        instruction_set: The one it computes with.
        precision: Of its products; None if they have different ones.

    Raises:
        DeviceError: This processor does not have that instruction set.
        UnknownModule: The module is not a Transformer of ``config`` in float32, bfloat16 or int8.
        MemoryError: There is no memory for the packed weights.
    """

    def __init__(
        self,
        library: ctypes.CDLL,
        module: object,
        config: ModelConfig,
        shortlist: Shortlist | None = None,
        isa: str | None = None,
    ) -> None:
        self.library = library
        self.instruction_set = choose_instruction_set(library, isa)
        self.vocab_size = config.target_vocab_size
        weights = _Weights(module, config)
        self._tables = weights.tables  # the library reads them while it decodes
        self._kept = weights.kept
        self._packed = weights.packed
        kinds = {one.precision for one in weights.packed.values()}
        self.precision: PrecisionName | None = _NAMES[kinds.pop()] if len(kinds) == 1 else None
        handle = library.verso_model(
            self.instruction_set.number,
            ctypes.byref(_architecture(config)),
            ctypes.byref(EmbeddingTables(*(table.data_ptr() for table in weights.tables), weights.table_precision)),
            (LinearSource * len(weights.linears))(*weights.linears),
            (ctypes.c_void_p * len(weights.norms))(*weights.norms),
        )
        if not handle:
            raise MemoryError("There is no memory for the packed weights.")
        self.handle = handle
        # Not at exit: a thread that hangs may use it until the process is gone.
        weakref.finalize(self, library.verso_model_free, handle).atexit = False
        if shortlist is not None:
            self._output = weights.output  # the library takes the columns of each sentence from it
            arrays = [np.ascontiguousarray(part) for part in (shortlist.offsets, shortlist.ids, shortlist.always)]
            addresses = [part.ctypes.data_as(ctypes.c_void_p) for part in arrays]
            output = ctypes.byref(weights.linears[-1])
            check(library.verso_shorten(handle, output, *addresses, len(shortlist.always)))

    def attention(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[Tensor]:
        """The weights that :meth:`model.decoding.backend.Backend.attention` describes.

        Raises:
            IndexError: A token or a length is one the model does not have.
        """
        lengths, tokens = _laid_out(sources, targets)
        sizes = [len(source) * len(target) for source, target in zip(sources, targets, strict=True)]
        weights = torch.empty(sum(sizes))
        threads = torch.get_num_threads()
        check(self.library.verso_attention(self.handle, lengths, len(sources), tokens, threads, weights.data_ptr()))
        return [
            part.view(len(target), len(source))
            for part, source, target in zip(weights.split(sizes), sources, targets, strict=True)
        ]

    def weight(self, name: str) -> Tensor:
        """A weight as it was before it was packed, to the bit.

        Args:
            name: Its name in a bundle in data form (:mod:`model.artifacts.data_form`).

        Raises:
            KeyError: The model has no such weight.
        """
        if name in self._kept:
            return self._kept[name]
        path, _, part = name.rpartition(".")
        number, precision, outputs, inputs = self._packed[path]
        if part == "weight":
            found = torch.empty(outputs[0], inputs[0], dtype=_TYPES[precision])
        elif part == "bias" or (part == "scales" and precision is Precision.INT8):
            found = torch.empty(outputs[0])
        else:
            raise KeyError(name)
        addresses = [found.data_ptr() if part == one else None for one in ("weight", "scales", "bias")]
        check(self.library.verso_unpack(self.handle, number, *addresses))
        if part == "bias" and precision is Precision.BFLOAT16:
            found = found.bfloat16()
        found = _unpadded(found, *outputs[1:])
        return _unpadded(found.t(), *inputs[1:]).t().contiguous() if part == "weight" else found

    def logits(self, source: Sequence[int], target: Sequence[int]) -> Tensor:
        """Logits after each token of a given target, start token included: (T, V). Decoding never stores any.

        Raises:
            IndexError: A token or a length is one the model does not have.
        """
        lengths, tokens = _laid_out([source], [target])
        logits = torch.empty(len(target), self.vocab_size)
        check(self.library.verso_logits(self.handle, lengths, tokens, logits.data_ptr()))
        return logits


def reason_not_supported(config: ModelConfig) -> str | None:
    """The property of an architecture that the library does not know; None if it knows them all."""
    if config.activation not in _ACTIVATIONS:
        return f"the activation is {config.activation}, and the compiled decoder has {' and '.join(_ACTIVATIONS)}"
    if config.norm == "residual-post":
        return "the norm is residual-post, and the compiled decoder has pre and post"
    if config.embedding_norm:
        return "the model normalises its embeddings (embedding_norm), and the compiled decoder does not"
    return None


def reason_not_native(config: ModelConfig | None, module: object | None = None) -> str | None:
    """Why a model cannot be decoded by the library on this machine; None if it can be.

    The library is built if that was not done.

    Args:
        config: The model's architecture; None if it is not known, and is not checked.
        module: Its weights, to be checked as well.
    """
    reason = find_library().reason
    if reason is not None or config is None:
        return reason
    reason = reason_not_supported(config)
    if reason is None and module is not None:
        try:
            _Weights(module, config)
        except UnknownModule as error:
            return str(error)
    return reason


def make_native_model(
    module: object, config: ModelConfig, shortlist: Shortlist | None = None, isa: str | None = None
) -> NativeModel | None:
    """A model packed for the library; None if it cannot be (:func:`reason_not_native` tells why).

    Raises:
        DeviceError: This processor does not have the instruction set ``isa``.
    """
    library = find_library().library
    if library is None or reason_not_supported(config) is not None:
        return None
    try:
        return NativeModel(library, module, config, shortlist, isa)
    except UnknownModule as error:
        logger.warning("torch decodes, more slowly: %s", error)
        return None


class _Packed(NamedTuple):
    """A product in the library: its number among those of the model, its precision, and its outputs and inputs.

    Of both: how many the library has, how many they were before they were padded, and the heads they are divided into.
    """

    number: int
    precision: Precision
    outputs: tuple[int, int, int | None]
    inputs: tuple[int, int, int | None]


class _Weights:
    """A model's weights in the order in which the library packs them; it keeps the tensors whose addresses it has.

    Args:
        module: The model, scripted or not.
        config: Its architecture.

    Attributes:
        linears: What the library packs.
        packed: Where it packs the products, by name.
        kept: The tensors that it does not pack, by name.

    Raises:
        UnknownModule: The module is not a Transformer of ``config`` in float32, bfloat16 or int8 on the CPU.
    """

    def __init__(self, module: object, config: ModelConfig) -> None:
        self.linears: list[LinearSource] = []
        self.packed: dict[str, _Packed] = {}
        self.norms: list[int | None] = []
        self.kept: dict[str, Tensor] = {}
        self._alive: list[Tensor] = []
        self._module = module
        self._d_model = config.d_model
        for index in range(config.encoder_layers):
            self._add_layer(f"encoder.{index}", config.num_heads, config.d_ff, has_cross_attention=False)
        stack = config.decoder_stack
        for index in range(config.decoder_layers):
            self._add_layer(f"decoder.{index}", stack.num_heads, stack.d_ff, has_cross_attention=True)
        if config.norm == "pre":
            self._add_norm("encoder_norm")
            self._add_norm("decoder_norm")
        first_of_output = len(self._alive)
        self._add_linear("output", config.target_vocab_size, config.d_model)
        self.output = self._alive[first_of_output:]
        self.tables: list[Tensor] = []
        self.table_precision = _FLOATS[self._tensor("target_embedding.tokens.weight").dtype]
        for embedding, vocab_size in (
            ("source_embedding", config.source_vocab_size),
            ("target_embedding", config.target_vocab_size),
        ):
            tokens, positions = f"{embedding}.tokens.weight", f"{embedding}.positions"
            for path, rows in ((tokens, vocab_size), (positions, config.max_positions)):
                self.kept[path] = self._tensor(path, (rows, config.d_model)).detach().contiguous()
            self.tables += [self.kept[tokens].to(_TYPES[self.table_precision]), self.kept[positions].float()]

    def _add_layer(self, layer: str, num_heads: int, d_ff: int, has_cross_attention: bool) -> None:
        width = self._d_model
        self._add_linear(f"{layer}.self_attention.query_key_value", 3 * width, width, output_heads=3 * num_heads)
        self._add_linear(f"{layer}.self_attention.output", width, width, input_heads=num_heads)
        self._add_norm(f"{layer}.self_attention_norm")
        if has_cross_attention:
            self._add_linear(f"{layer}.cross_attention.query", width, width, output_heads=num_heads)
            self._add_linear(f"{layer}.cross_attention.key_value", 2 * width, width, output_heads=2 * num_heads)
            self._add_linear(f"{layer}.cross_attention.output", width, width, input_heads=num_heads)
            self._add_norm(f"{layer}.cross_attention_norm")
        self._add_linear(f"{layer}.feed_forward.wide", d_ff, width)
        self._add_linear(f"{layer}.feed_forward.narrow", width, d_ff)
        self._add_norm(f"{layer}.feed_forward_norm")

    def _add_linear(
        self, path: str, outputs: int, inputs: int, output_heads: int | None = None, input_heads: int | None = None
    ) -> None:
        """Add a product.

        Args:
            path: Of its layer.
            outputs: Its outputs.
            inputs: Its inputs.
            output_heads: Heads that the outputs are divided into, if they are.
            input_heads: Heads that the inputs are divided into, if they are.
        """
        part = self._part(path)
        kind = _class_name(part)
        if kind not in (nn.Linear.__name__, Int8Linear.__name__):
            raise UnknownModule(f"{path} is a {kind}, and the compiled decoder knows Linear and Int8Linear")
        scales, bias = None, None
        if getattr(part, "bias", None) is not None:
            bias = _padded(self._tensor(f"{path}.bias", (outputs,)).float(), output_heads)
        if kind == nn.Linear.__name__:
            weight = self._tensor(f"{path}.weight", (outputs, inputs))
        else:
            unpacked: Tensor = torch.ops.quantized.linear_unpack(part.packed)[0]
            _check_shape(path, unpacked, (outputs, inputs))
            if inputs > _MOST_INT8_INPUTS:
                raise UnknownModule(f"{path} has {inputs} inputs in int8, and the compiled decoder {_MOST_INT8_INPUTS}")
            scales = _padded(unpacked.q_per_channel_scales().float(), output_heads)
            weight = unpacked.int_repr()
        weight = _padded(_padded(weight, output_heads).t(), input_heads).t()
        precision = Precision.INT8 if scales is not None else _FLOATS[weight.dtype]
        pointers = (self._pointer(one) for one in (weight, scales, bias))
        self.linears.append(LinearSource(*pointers, *weight.shape, precision))
        padded_outputs, padded_inputs = weight.shape
        self.packed[path] = _Packed(
            len(self.linears) - 1,
            precision,
            (padded_outputs, outputs, output_heads),
            (padded_inputs, inputs, input_heads),
        )

    def _add_norm(self, path: str) -> None:
        for name in ("weight", "bias"):
            # One gain for all columns is the same gain for each.
            found = self._tensor(f"{path}.{name}")
            _check_shape(f"{path}.{name}", found, (1,) if found.numel() == 1 else (self._d_model,))
            self.norms.append(self._pointer(found.float().expand(self._d_model)))
            self.kept[f"{path}.{name}"] = found.detach()

    def _part(self, path: str) -> nn.Module:
        part = self._find(path)
        if not isinstance(part, nn.Module):
            raise UnknownModule(f"the model has no module {path}")
        return part

    def _tensor(self, path: str, shape: tuple[int, ...] | None = None) -> Tensor:
        """A parameter or buffer in float32 or bfloat16 on the CPU."""
        tensor = self._find(path)
        if not isinstance(tensor, Tensor):
            raise UnknownModule(f"the model has no tensor {path}")
        if tensor.dtype not in _FLOATS or tensor.device.type != "cpu":
            kind = f"{str(tensor.dtype).removeprefix('torch.')} on {tensor.device.type}"
            raise UnknownModule(f"{path} is {kind}, and the compiled decoder needs float32, bfloat16 or int8 on cpu")
        if shape is not None:
            _check_shape(path, tensor, shape)
        return tensor

    def _find(self, path: str) -> object:
        """What a dotted name leads to, or None. Scripted modules have no ``get_submodule``."""
        start: object = self._module
        return functools.reduce(lambda part, name: getattr(part, name, None), path.split("."), start)

    def _pointer(self, tensor: Tensor | None) -> int | None:
        if tensor is None:
            return None
        self._alive.append(tensor.detach().contiguous())
        return self._alive[-1].data_ptr()


def _architecture(config: ModelConfig) -> Architecture:
    decoder = config.decoder_stack
    scale = config.d_model**0.5 if config.scale_embedding else 1.0
    return Architecture(
        d_model=config.d_model,
        source_vocab_size=config.source_vocab_size,
        target_vocab_size=config.target_vocab_size,
        max_positions=config.max_positions,
        activation=_ACTIVATIONS[config.activation],
        pre_norm=int(config.norm == "pre"),
        encoder_layers=config.encoder_layers,
        encoder_heads=config.num_heads,
        encoder_d_ff=config.d_ff,
        decoder_layers=config.decoder_layers,
        decoder_heads=decoder.num_heads,
        decoder_d_ff=decoder.d_ff,
        source_scale=scale,
        target_scale=scale,
        layer_norm_eps=config.layer_norm_eps,
    )


def _padded(rows: Tensor, num_heads: int | None) -> Tensor:
    """The rows of some heads, each filled up with rows of zeros to a width the library can compute with."""
    if num_heads is None or len(rows) // num_heads % _HEAD_MULTIPLE == 0:
        return rows
    heads = rows.detach().unflatten(0, (num_heads, -1))
    width = -heads.shape[1] % _HEAD_MULTIPLE
    zeros = heads.new_zeros(num_heads, width, *heads.shape[2:])
    return torch.cat([heads, zeros], dim=1).flatten(end_dim=1)


def _unpadded(rows: Tensor, number: int, num_heads: int | None) -> Tensor:
    """The reverse of :func:`_padded`, which had that number of rows."""
    if num_heads is None or len(rows) == number:
        return rows
    return rows.unflatten(0, (num_heads, -1))[:, : number // num_heads].flatten(end_dim=1)


def _check_shape(path: str, tensor: Tensor, shape: tuple[int, ...]) -> None:
    """Refuse weights that are not those of the architecture: the library would read beyond their end."""
    if tuple(tensor.shape) != shape:
        raise UnknownModule(f"{path} has the shape {tuple(tensor.shape)}, and the architecture {shape}")


def _class_name(module: nn.Module) -> str:
    """The class a module had before it was scripted."""
    if isinstance(module, torch.jit.ScriptModule):
        return str(module.original_name)
    return type(module).__name__


def _laid_out(
    sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]
) -> tuple[ctypes.Array[ctypes.c_int32], ctypes.Array[ctypes.c_int32]]:
    """The lengths of sources and targets in turn, and their tokens end to end, as forced.h takes them."""
    parts = [part for pair in zip(sources, targets, strict=True) for part in pair]
    tokens = list(chain.from_iterable(parts))
    return (ctypes.c_int32 * len(parts))(*map(len, parts)), (ctypes.c_int32 * len(tokens))(*tokens)
