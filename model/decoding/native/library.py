"""The compiled library: its C interface, and whether it can be used on this machine."""

from __future__ import annotations

import ctypes
import functools
import logging
import os
import platform
from dataclasses import dataclass
from enum import IntEnum

from model.decoding.native.compiler import (
    SET_NAMES,
    SUPPORTED,
    NoCompiler,
    Unavailable,
    architecture,
    build_library,
)
from model.errors import DeviceError

logger = logging.getLogger("model.native")

ISA_VARIABLE = "VERSO_ISA"
"""The environment variable that forces an instruction set where no setting does."""

AUTO = "auto"
"""As the name of an instruction set: the fastest that this processor can run."""

PORTABLE = "portable"
"""The set that any processor can run. Only ``VERSO_ISA`` chooses it: without vector instructions torch is faster."""

_NO_MEMORY, _OUT_OF_RANGE = 1, 2


class Precision(IntEnum):
    """What the weights of a product are, as kernels.h counts them."""

    FLOAT32 = 0
    BFLOAT16 = 1
    INT8 = 2


class Architecture(ctypes.Structure):
    """A model's architecture, as layers.h takes it."""

    _fields_ = (
        ("d_model", ctypes.c_int32),
        ("source_vocab_size", ctypes.c_int32),
        ("target_vocab_size", ctypes.c_int32),
        ("max_positions", ctypes.c_int32),
        ("activation", ctypes.c_int32),
        ("pre_norm", ctypes.c_int32),
        ("recurrent", ctypes.c_int32),
        ("zero_start", ctypes.c_int32),
        ("alignment_head", ctypes.c_int32),
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
        ("precision", ctypes.c_int32),
    )


class LinearSource(ctypes.Structure):
    """The weights of one product, as products.h takes them."""

    _fields_ = (
        ("weights", ctypes.c_void_p),
        ("scales", ctypes.c_void_p),
        ("biases", ctypes.c_void_p),
        ("outputs", ctypes.c_int32),
        ("inputs", ctypes.c_int32),
        ("precision", ctypes.c_int32),
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
    """Raise the error of a result of the library (``Result`` in decoder.cpp)."""
    if code == _NO_MEMORY:
        raise MemoryError("There is no memory for the sentences that decode.")
    if code == _OUT_OF_RANGE:
        raise IndexError("A token id or a length is one the model does not have.")
    if code:
        raise RuntimeError("The native decoder failed.")


@dataclass(frozen=True)
class Availability:
    """The library, or the reason why it cannot be used on this machine: exactly one of them.

    Args:
        library: The library.
        reason: The reason, as a sentence without its end.
        is_the_processor: Whether the CPU lacks something, so that there is no remedy.
    """

    library: ctypes.CDLL | None = None
    reason: str | None = None
    is_the_processor: bool = False


@dataclass(frozen=True)
class InstructionSet:
    """One of the library's sets of kernels.

    Args:
        number: Its number in the library, the fastest first.
        name: Its name in settings.
        lacking: The instructions of it that this CPU lacks; None if it lacks none.
    """

    number: int
    name: str
    lacking: str | None


def instruction_sets(library: ctypes.CDLL) -> list[InstructionSet]:
    """The instruction sets that are compiled into the library, the fastest first."""
    sets: list[InstructionSet] = []
    while (name := library.verso_set_name(len(sets))) is not None:
        lacking = library.verso_set_lacks(len(sets))
        sets.append(InstructionSet(len(sets), name.decode(), None if lacking is None else lacking.decode()))
    return sets


def choose_instruction_set(library: ctypes.CDLL, name: str | None = None) -> InstructionSet:
    """The instruction set to compute with.

    Args:
        library: The library.
        name: The set, or ``auto``; None for that of ``VERSO_ISA``, and ``auto`` if this is not set.

    Raises:
        DeviceError: The library has no set of that name, or this processor cannot run it.
    """
    name = name or os.environ.get(ISA_VARIABLE) or AUTO
    sets = instruction_sets(library)
    usable = [instruction_set for instruction_set in sets if instruction_set.lacking is None]
    if name == AUTO:
        return usable[0]
    can_run = f"This machine can run {_listed(usable)}."
    for instruction_set in sets:
        if instruction_set.name == name:
            if instruction_set.lacking is None:
                return instruction_set
            raise DeviceError(
                f"{ISA_VARIABLE} is {name}, and this processor has no {instruction_set.lacking}. {can_run}"
            )
    others = "" if name not in SET_NAMES else " on this kind of processor"
    raise DeviceError(f"{ISA_VARIABLE} is {name!r}, and the compiled decoder has {_listed(sets)}{others}. {can_run}")


def _listed(sets: list[InstructionSet]) -> str:
    names = [instruction_set.name for instruction_set in sets]
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


@functools.cache
def find_library() -> Availability:
    """The library, built if necessary; the result is kept for the life of the process."""
    reason = processor_reason()
    if reason is not None:
        return Availability(reason=reason, is_the_processor=True)
    try:
        library = _with_types(ctypes.CDLL(str(build_library())))
    except NoCompiler as error:
        logger.info("torch decodes, more slowly: %s", error)
        return Availability(reason=str(error))
    except (Unavailable, OSError) as error:  # OSError: the library cannot be loaded
        logger.warning("torch decodes, more slowly: %s", error)
        return Availability(reason=str(error))
    if choose_instruction_set(library, AUTO).name == PORTABLE and os.environ.get(ISA_VARIABLE) != PORTABLE:
        lacking = [f"no {kernels.lacking}" for kernels in instruction_sets(library) if kernels.lacking is not None]
        lack = lacking[-1] if lacking else "no vector instructions that the compiled decoder uses"
        return Availability(reason=f"the processor has {lack}", is_the_processor=True)
    return Availability(library)


def load_library() -> ctypes.CDLL | None:
    """The library; None if it cannot be used on this machine (:func:`find_library` has the reason)."""
    return find_library().library


def processor_reason() -> str | None:
    """Why no library can be compiled for this kind of processor; None if one can be."""
    if architecture() is None:
        return f"the processor is {platform.machine()}, and the compiled decoder is for {SUPPORTED}"
    return None


def _with_types(library: ctypes.CDLL) -> ctypes.CDLL:
    pointer, number = ctypes.c_void_p, ctypes.c_int32
    address, linear = ctypes.POINTER(pointer), ctypes.POINTER(LinearSource)
    architecture, tables = ctypes.POINTER(Architecture), ctypes.POINTER(EmbeddingTables)
    for name, result, arguments in (
        ("verso_set_name", ctypes.c_char_p, [number]),
        ("verso_set_lacks", ctypes.c_char_p, [number]),
        (
            "verso_model",
            pointer,
            [number, architecture, tables, linear, pointer],
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
