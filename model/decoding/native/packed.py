"""A model's weights, packed for the compiled library, and the reason why a model cannot be decoded by it."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Sequence
from itertools import chain
from typing import Literal, get_args

import numpy as np
import torch
from torch import Tensor

from model.decoding.native.library import (
    Architecture,
    EmbeddingTables,
    LinearSource,
    Precision,
    check,
    choose_instruction_set,
    find_library,
)
from model.decoding.native.weights import TYPES, Unsupported, WeightCollection, unpadded
from model.decoding.shortlist import Shortlist
from model.network.config import ModelConfig

_CPU = torch.device("cpu")
_ACTIVATIONS = {"relu": 1, "silu": 2, "gelu": 3}

PrecisionName = Literal["float32", "bfloat16", "int8"]
"""The precision of the weights of products, as a manifest names it."""

NATIVE_PRECISIONS: tuple[str, ...] = get_args(PrecisionName)
"""Precisions of bundles that the library can decode."""

_NAMES: dict[Precision, PrecisionName] = {
    Precision.FLOAT32: "float32",
    Precision.BFLOAT16: "bfloat16",
    Precision.INT8: "int8",
}


class NativeModel:
    """A model's weights, packed for the library.

    Args:
        library: The library.
        module: The model, scripted or not, on the CPU, in float32, bfloat16 or int8.
        config: Its architecture, one without :func:`reason_not_native`.
        shortlist: The candidates of each source token, if sentences do not choose among the whole vocabulary.
        isa: The instruction set to compute with (:func:`model.decoding.native.library.choose_instruction_set`).
        alignment_head: The head that :meth:`attention` returns; None for the mean of all heads.

    Attributes:
        instruction_set: The instruction set that it computes with.
        precision: The precision of its products; None if they have several.

    Raises:
        DeviceError: This CPU does not have that instruction set.
        Unsupported: The module is not a Transformer of ``config`` in float32, bfloat16 or int8.
        MemoryError: There is no memory for the packed weights.
    """

    def __init__(
        self,
        library: ctypes.CDLL,
        module: object,
        config: ModelConfig,
        shortlist: Shortlist | None = None,
        isa: str | None = None,
        alignment_head: int | None = None,
    ) -> None:
        self.library = library
        self.instruction_set = choose_instruction_set(library, isa)
        self.vocab_size = config.target_vocab_size
        weights = WeightCollection(module, config)
        self._tables = weights.tables  # the library reads them while it decodes
        self._kept = weights.kept
        self._packed = weights.packed
        self._num_outputs = [linear.outputs for linear in weights.linears]
        precisions = {product.precision for product in weights.packed.values()}
        self.precision: PrecisionName | None = _NAMES[precisions.pop()] if len(precisions) == 1 else None
        handle = library.verso_model(
            self.instruction_set.number,
            ctypes.byref(_architecture(config, alignment_head)),
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
        lengths, tokens = _lay_out(sources, targets)
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
        number, precision, outputs, inputs, first = self._packed[path]
        num_outputs = self._num_outputs[number]
        if part == "weight":
            tensor = torch.empty(num_outputs, inputs[0], dtype=TYPES[precision])
        elif part == "bias" or (part == "scales" and precision is Precision.INT8):
            tensor = torch.empty(num_outputs)
        else:
            raise KeyError(name)
        addresses = [tensor.data_ptr() if part == kind else None for kind in ("weight", "scales", "bias")]
        check(self.library.verso_unpack(self.handle, number, *addresses))
        if part == "bias" and precision is Precision.BFLOAT16:
            tensor = tensor.bfloat16()
        tensor = unpadded(tensor[first : first + outputs[0]], *outputs[1:])
        return unpadded(tensor.t(), *inputs[1:]).t().contiguous() if part == "weight" else tensor

    def logits(self, source: Sequence[int], target: Sequence[int]) -> Tensor:
        """Logits after each token of a given target, start token included: (T, V). Decoding never stores any.

        Raises:
            IndexError: A token or a length is one the model does not have.
        """
        lengths, tokens = _lay_out([source], [target])
        logits = torch.empty(len(target), self.vocab_size)
        check(self.library.verso_logits(self.handle, lengths, tokens, logits.data_ptr()))
        return logits


def reason_not_native(
    config: ModelConfig | None, precision: str = "float32", device: torch.device = _CPU
) -> str | None:
    """Why the library cannot decode a model on this machine; None if it can.

    The library is compiled if that was not done yet and nothing else is in the way.

    Args:
        config: The model's architecture; None if it is not known: then it is taken to be supported.
        precision: The precision of its bundle.
        device: The device that it is on.
    """
    if device.type != "cpu":
        return "the model is not on the CPU"
    if precision not in NATIVE_PRECISIONS:
        names = f"{', '.join(NATIVE_PRECISIONS[:-1])} or {NATIVE_PRECISIONS[-1]}"
        return f"it computes in {names}, and the bundle is in {precision}"
    if config is not None and config.activation not in _ACTIVATIONS:
        return f"the activation is {config.activation}, and the compiled decoder has {' and '.join(_ACTIVATIONS)}"
    if config is not None and config.norm == "residual-post":
        return "the norm is residual-post, and the compiled decoder has pre and post"
    return find_library().reason


def make_native_model(
    module: object,
    config: ModelConfig,
    shortlist: Shortlist | None = None,
    isa: str | None = None,
    alignment_head: int | None = None,
) -> NativeModel:
    """A model packed for the library.

    Args:
        module: As for :class:`NativeModel`.
        config: An architecture without :func:`reason_not_native`.
        shortlist: As for :class:`NativeModel`.
        isa: As for :class:`NativeModel`.
        alignment_head: As for :class:`NativeModel`.

    Raises:
        Unsupported: There is no library, or it cannot decode the module.
        DeviceError: This CPU does not have the instruction set ``isa``.
    """
    availability = find_library()
    if availability.library is None:
        raise Unsupported(availability.reason)
    return NativeModel(availability.library, module, config, shortlist, isa, alignment_head)


def _architecture(config: ModelConfig, alignment_head: int | None) -> Architecture:
    decoder = config.decoder_stack
    scale = config.d_model**0.5 if config.scale_embedding else 1.0
    return Architecture(
        d_model=config.d_model,
        source_vocab_size=config.source_vocab_size,
        target_vocab_size=config.target_vocab_size,
        max_positions=config.max_positions,
        activation=_ACTIVATIONS[config.activation],
        pre_norm=int(config.norm == "pre"),
        recurrent=int(config.decoder == "ssru"),
        zero_start=int(config.start == "zero"),
        alignment_head=-1 if alignment_head is None else alignment_head,
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


def _lay_out(
    sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]
) -> tuple[ctypes.Array[ctypes.c_int32], ctypes.Array[ctypes.c_int32]]:
    """The lengths of sources and targets in turn, and their tokens end to end, as forced.h reads them."""
    parts = [part for pair in zip(sources, targets, strict=True) for part in pair]
    tokens = list(chain.from_iterable(parts))
    return (ctypes.c_int32 * len(parts))(*map(len, parts)), (ctypes.c_int32 * len(tokens))(*tokens)
