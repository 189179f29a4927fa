"""The compiled library: its C interface, and whether it can be used on this machine."""

from __future__ import annotations

import ctypes
import functools
import logging
import platform
from dataclasses import dataclass

import torch

from model.decoding.native.compiler import NoCompiler, Unavailable, build_library, is_x86

logger = logging.getLogger("model.native")

_NO_MEMORY, _OUT_OF_RANGE = 1, 2


class Architecture(ctypes.Structure):
    """A model's architecture, as layers.h takes it."""

    _fields_ = (
        ("d_model", ctypes.c_int32),
        ("source_vocab_size", ctypes.c_int32),
        ("target_vocab_size", ctypes.c_int32),
        ("max_positions", ctypes.c_int32),
        ("activation", ctypes.c_int32),
        ("pre_norm", ctypes.c_int32),
        ("encoder_layers", ctypes.c_int32),
        ("encoder_heads", ctypes.c_int32),
        ("encoder_d_ff", ctypes.c_int32),
        ("decoder_layers", ctypes.c_int32),
        ("decoder_heads", ctypes.c_int32),
        ("decoder_d_ff", ctypes.c_int32),
        ("source_scale", ctypes.c_float),
        ("target_scale", ctypes.c_float),
        ("layer_norm_eps", ctypes.c_float),
    )


class EmbeddingTables(ctypes.Structure):
    """Token embeddings and position vectors, as layers.h takes them."""

    _fields_ = (
        ("source_tokens", ctypes.c_void_p),
        ("source_positions", ctypes.c_void_p),
        ("target_tokens", ctypes.c_void_p),
        ("target_positions", ctypes.c_void_p),
    )


class LinearSource(ctypes.Structure):
    """The weights of one product, as decoder.cpp takes them."""

    _fields_ = (
        ("weight", ctypes.c_void_p),
        ("rounded", ctypes.c_void_p),
        ("scales", ctypes.c_void_p),
        ("bias", ctypes.c_void_p),
        ("outputs", ctypes.c_int32),
        ("inputs", ctypes.c_int32),
    )


class Rule(ctypes.Structure):
    """The properties of :class:`model.decoding.scoring.ScoringRule`, in the same order, as search.h takes them."""

    _fields_ = (
        ("length_penalty", ctypes.c_double),
        ("length_offset", ctypes.c_double),
        ("length_scale", ctypes.c_double),
        ("narrows", ctypes.c_int32),
        ("stops_when_full", ctypes.c_int32),
        ("leader_must_end", ctypes.c_int32),
        ("force_end", ctypes.c_int32),
    )


class Request(ctypes.Structure):
    """One sentence to decode, as search.h takes it."""

    _fields_ = (
        ("key", ctypes.c_int64),
        ("rule", Rule),
        ("num_source", ctypes.c_int32),
        ("num_forced", ctypes.c_int32),
        ("num_prefix", ctypes.c_int32),
        ("num_once", ctypes.c_int32),
        ("min_new_tokens", ctypes.c_int32),
        ("max_new_tokens", ctypes.c_int32),
        ("no_repeat_ngram_size", ctypes.c_int32),
        ("num_hypotheses", ctypes.c_int32),
        ("return_scores", ctypes.c_int32),
        ("return_search", ctypes.c_int32),
    )


class TracedCandidate(ctypes.Structure):
    """A candidate of a step of a search, as search.h gives it."""

    _fields_ = (
        ("step", ctypes.c_int32),
        ("token", ctypes.c_int32),
        ("row", ctypes.c_int32),
        ("kept", ctypes.c_int32),
        ("finished", ctypes.c_int32),
        ("log_prob", ctypes.c_float),
    )


def check(code: int) -> None:
    """Raise what a result of the library means (``Result`` in decoder.cpp)."""
    if code == _NO_MEMORY:
        raise MemoryError("There is no memory for the sentences that decode.")
    if code == _OUT_OF_RANGE:
        raise IndexError("A token id or a length is one the model does not have.")
    if code:
        raise RuntimeError("The native decoder failed.")


@dataclass(frozen=True)
class Availability:
    """The library, or the reason why it cannot be used on this machine: exactly one of them."""

    library: ctypes.CDLL | None = None
    reason: str | None = None


@functools.cache
def find_library() -> Availability:
    """The library, built if necessary; the result is kept for the life of the process."""
    reason = processor_reason()
    if reason is not None:
        return Availability(reason=reason)
    try:
        return Availability(_with_types(ctypes.CDLL(str(build_library()))))
    except NoCompiler as error:
        logger.info("torch decodes, more slowly: %s", error)
        return Availability(reason=str(error))
    except (Unavailable, OSError) as error:  # OSError: the library cannot be loaded
        logger.warning("torch decodes, more slowly: %s", error)
        return Availability(reason=str(error))


def load_library() -> ctypes.CDLL | None:
    """The library; None if it cannot be used on this machine (:func:`find_library` tells why)."""
    return find_library().library


def processor_reason() -> str | None:
    """Which instructions this processor lacks to run the library; None if it has them all."""
    if not is_x86():
        return f"the processor is {platform.machine()} and not x86-64"
    if not torch.cpu._is_avx512_supported():
        return "the processor has no AVX-512"
    if not torch.cpu._is_vnni_supported():
        return "the processor has no AVX-512 VNNI"
    return None


def _with_types(library: ctypes.CDLL) -> ctypes.CDLL:
    pointer, number = ctypes.c_void_p, ctypes.c_int32
    address, linear = ctypes.POINTER(pointer), ctypes.POINTER(LinearSource)
    architecture, tables = ctypes.POINTER(Architecture), ctypes.POINTER(EmbeddingTables)
    for name, result, arguments in (
        (
            "verso_model",
            pointer,
            [architecture, tables, linear, pointer],
        ),
        ("verso_model_free", None, [pointer]),
        ("verso_unpack", number, [pointer, number, pointer, pointer, pointer]),
        ("verso_shorten", number, [pointer, linear, pointer, pointer, pointer, number]),
        ("verso_cohort", pointer, [pointer, number, number, number, pointer, number]),
        ("verso_cohort_free", None, [pointer]),
        ("verso_join", number, [pointer, ctypes.POINTER(Request), number, pointer]),
        ("verso_run", number, [pointer, ctypes.c_double, number, address, ctypes.POINTER(number), address, address]),
        ("verso_leave", number, [pointer, pointer, number]),
        ("verso_attention", number, [pointer, pointer, number, pointer, number, pointer]),
        ("verso_logits", number, [pointer, pointer, pointer, pointer]),
    ):
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library
