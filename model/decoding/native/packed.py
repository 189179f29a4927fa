"""A model's weights, packed for the compiled library."""

from __future__ import annotations

import ctypes
import functools
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from model.decoding.native.library import LinearSource, check, load_library
from model.decoding.shortlist import Shortlist
from model.network.config import ModelConfig

_ACTIVATIONS = {"relu": 1, "silu": 2}


class NativeModel:
    """A model's weights, packed for the library.

    Args:
        library: The library.
        module: The model, scripted or not, on the CPU, in float32 or int8.
        config: Its architecture, one :func:`supports` says yes to.
        shortlist: What sentences choose their tokens from, where that is not the whole vocabulary.
    """

    def __init__(
        self, library: ctypes.CDLL, module: Any, config: ModelConfig, shortlist: Shortlist | None = None
    ) -> None:
        self.library = library
        self.vocab_size = config.target_vocab_size
        self._source_vocab_size = config.source_vocab_size
        alive: list[Tensor] = []  # what the library reads while it packs

        def pointer(tensor: Tensor) -> int:
            alive.append(tensor.detach().contiguous())
            return alive[-1].data_ptr()

        def linear(path: str) -> LinearSource:
            part = _part(module, path)
            bias = None if part.bias is None else pointer(part.bias.float())
            if not hasattr(part, "packed"):
                return LinearSource(pointer(part.weight.float()), None, None, bias, *part.weight.shape)
            weight = torch.ops.quantized.linear_unpack(part.packed)[0]
            scales = pointer(weight.q_per_channel_scales().float())
            return LinearSource(None, pointer(weight.int_repr()), scales, bias, *weight.shape)

        def norm_pointers(norm: Any) -> list[int]:
            # One gain for all columns is the same gain for each.
            return [pointer(part.expand(config.d_model)) for part in (norm.weight, norm.bias)]

        linears: list[LinearSource] = []
        norms: list[int] = []
        for stack, num_layers, middle in (
            ("encoder", config.encoder_layers, ()),
            ("decoder", config.decoder_layers, ("query", "key_value", "output")),
        ):
            for index in range(num_layers):
                layer = f"{stack}.{index}"
                linears += [linear(f"{layer}.self_attention.{part}") for part in ("query_key_value", "output")]
                linears += [linear(f"{layer}.cross_attention.{part}") for part in middle]
                linears += [linear(f"{layer}.feed_forward.{part}") for part in ("wide", "narrow")]
                for name in ("self_attention", *(["cross_attention"] if middle else []), "feed_forward"):
                    norm = _part(module, f"{layer}.{name}_norm")
                    norms += norm_pointers(norm)
        if config.norm == "pre":
            for name in ("encoder_norm", "decoder_norm"):
                norm = _part(module, name)
                norms += norm_pointers(norm)
        first_of_output = len(alive)
        linears.append(linear("output"))
        source, target = module.source_embedding, module.target_embedding
        self._tables = [
            part.detach().contiguous()
            for part in (source.tokens.weight, source.positions, target.tokens.weight, target.positions)
        ]
        decoder = config.decoder_stack
        numbers = (ctypes.c_int32 * 12)(
            config.d_model,
            config.target_vocab_size,
            _ACTIVATIONS[config.activation],
            config.num_heads,
            config.d_ff,
            config.encoder_layers,
            decoder.num_heads,
            decoder.d_ff,
            config.decoder_layers,
            int(config.norm == "pre"),
            config.source_vocab_size,
            config.max_positions,
        )
        scale = config.d_model**0.5 if config.scale_embedding else 1.0
        factors = (ctypes.c_float * 3)(scale, scale, config.layer_norm_eps)
        tables = (ctypes.c_void_p * 4)(*(table.data_ptr() for table in self._tables))
        handle = library.verso_model(
            numbers, factors, tables, (LinearSource * len(linears))(*linears), (ctypes.c_void_p * len(norms))(*norms)
        )
        if not handle:
            raise MemoryError("There is no memory for the packed weights.")
        self.handle = handle
        weakref.finalize(self, library.verso_model_free, handle)
        if shortlist is not None:
            self._output = alive[first_of_output:]  # sentences' columns are taken from it
            arrays = [np.ascontiguousarray(part) for part in (shortlist.offsets, shortlist.ids, shortlist.always)]
            places = [part.ctypes.data_as(ctypes.c_void_p) for part in arrays]
            check(library.verso_shorten(handle, ctypes.byref(linears[-1]), *places, len(shortlist.always)))

    def logits(self, source: Sequence[int], target: Sequence[int]) -> Tensor:
        """Logits after each token of a target, start token included: (T, V). The library itself never stores any.

        Raises:
            IndexError: A token is one the model does not have.
        """
        if not (_all_below(source, self._source_vocab_size) and _all_below(target, self.vocab_size)):
            raise IndexError("A token id is one the model does not have.")
        logits = torch.empty(len(target), self.vocab_size)
        ids = [(ctypes.c_int32 * len(tokens))(*tokens) for tokens in (source, target)]
        check(self.library.verso_logits(self.handle, ids[0], len(source), ids[1], len(target), logits.data_ptr()))
        return logits


def supports(config: ModelConfig) -> bool:
    """Whether the library knows an architecture; torch decodes the others."""
    heads = (config.num_heads, config.decoder_stack.num_heads)
    return (
        config.activation in _ACTIVATIONS
        and config.norm in ("pre", "post")
        and not config.embedding_norm
        and all(config.d_model // count % 16 == 0 for count in heads)
    )


def make_native_model(
    module: nn.Module | Any, config: ModelConfig, shortlist: Shortlist | None = None
) -> NativeModel | None:
    """A model packed for the library, or None where the processor, the compiler or the architecture is another."""
    library = load_library()
    return None if library is None or not supports(config) else NativeModel(library, module, config, shortlist)


def _part(module: Any, path: str) -> Any:
    """A part by its dotted name; scripted modules have no ``get_submodule``."""
    return functools.reduce(getattr, path.split("."), module)


def _all_below(tokens: Sequence[int], bound: int) -> bool:
    return all(0 <= token < bound for token in tokens)
