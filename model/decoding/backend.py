"""The back-ends, and the choice of one for a model.

There are three, whose answers are equal up to rounding:

- ``slots``: CUDA graphs over a fixed number of slots, on GPUs;
- ``native``: the compiled C++ library, on x86 and ARM CPUs;
- ``eager``: torch, step by step, everywhere.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from model.decoding.cohort import Cohort
from model.decoding.eager.state import TorchState
from model.decoding.eager.teacher_forcing import attention_by_torch, logits_by_torch
from model.decoding.eager.torch_cohort import TorchCohort
from model.decoding.native.cohort import NativeCohort
from model.decoding.native.packed import NativeModel, make_native_model, reason_not_native
from model.decoding.native.weights import Unsupported
from model.decoding.policy import DecodingPolicy
from model.decoding.shortlist import Shortlist
from model.decoding.slots.cohort import SlotCohort
from model.decoding.slots.graphs import Graphs
from model.decoding.slots.model import SlotModel
from model.decoding.slots.step import has_slot_step
from model.network.config import ModelConfig
from model.network.transformer import Transformer
from model.process.memory import available_bytes
from model.text.tokenizer import Tokenizer

logger = logging.getLogger("model.native")

BackendName = Literal["native", "slots", "eager"]

_MAX_ROWS = 256

_MAX_SLOT_ROWS = 4096
_SLOT_MEMORY_SHARE = 1 / 4
_SOURCE_COLUMNS, _TARGET_COLUMNS = 64, 128
"""Columns of a row, for a sentence of 64 tokens."""
_COPIES = 2
_LOGITS_COPIES = 4
"""Copies of keys and values while sentences move to other slots; copies of logits, which are float32."""

_NATIVE_ROWS_PER_THREAD = 128
_NATIVE_GREEDY_ROWS_PER_THREAD = 48
"""More sentences would evict each other's keys and values from the CPU's caches; the rows of a beam share those of the
source."""


class Backend(ABC):
    """Decodes the sentences of one model."""

    name: BackendName
    """The name of the kind of back-end."""

    reason: str
    """Why it was chosen and not a faster one, as a clause that may follow its name."""

    @property
    def warm_up_batches(self) -> tuple[int, ...]:
        """Numbers of sentences to decode together before the first request arrives."""
        return (1, 2, 8)

    @property
    def graphs(self) -> Graphs | None:
        """The CUDA graphs of its steps, or why there are none; None for a back-end that never has any."""
        return None

    @property
    def steps_per_call(self) -> int:
        """Steps that a call of a cohort's ``step`` takes, if their number is fixed; 1 otherwise."""
        return 1

    @abstractmethod
    def max_rows(self, width: int) -> int:
        """Rows beyond which a larger batch of this beam width is no faster.

        Args:
            width: Rows of each sentence.
        """

    @abstractmethod
    def cohort(self, width: int) -> Cohort:
        """An empty cohort.

        Args:
            width: Rows of each sentence.
        """

    @abstractmethod
    def attention(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[Tensor]:
        """The cross-attention weights of the last decoder layer that align a translation with its source.

        They are those of the model's alignment head (:attr:`model.decoding.policy.DecodingPolicy.alignment_head`), or
        the mean of all heads.

        Args:
            sources: Token ids of each sentence, markers included.
            targets: Token ids of each answer, the start token first.

        Returns:
            For each sentence (T, S), float32 on the CPU: row t belongs to the choice of the token after ``targets[t]``.
        """

    @abstractmethod
    def logits(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> Iterator[Tensor]:
        """The logits after each token of given targets, computed as they are read, so that few are in memory.

        Args:
            sources: Token ids of each sentence, markers included.
            targets: Token ids of each target, the start token first.

        Returns:
            For each sentence (T, V), float32 on the model's device: row t scores the token after ``targets[t]``.
        """


@dataclass(frozen=True, eq=False)
class ModelToDecode:
    """A model, as every back-end needs it.

    Args:
        module: The network, scripted or not.
        vocabulary: Special tokens.
        policy: The model's decoding policy.
        architecture: The fields of :class:`model.network.config.ModelConfig`.
        precision: The precision of its weights and products.
        longest_target: The most tokens that the model can produce, forced ones included.
        device: The device that it is on.
        shortlist: The tokens that sentences choose from, if not the whole vocabulary.
    """

    module: Transformer
    vocabulary: Tokenizer
    policy: DecodingPolicy
    architecture: Mapping[str, Any]
    precision: str
    longest_target: int
    device: torch.device
    shortlist: Shortlist | None = None

    @property
    def row_bytes(self) -> int:
        """Memory of a row in slots, with the copies that are made of its keys, values and logits."""
        numbers = int(self.architecture["decoder_layers"]) * int(self.architecture["d_model"])
        bytes_per_number = 2 if self.precision in ("float16", "bfloat16") else 4
        logits_bytes = 4 * int(self.architecture["target_vocab_size"])
        bytes_per_column = 2 * numbers * bytes_per_number
        if self.architecture.get("decoder") == "ssru":
            cache_bytes = _SOURCE_COLUMNS * bytes_per_column + 4 * numbers
        else:
            cache_bytes = (_SOURCE_COLUMNS + _TARGET_COLUMNS) * bytes_per_column
        return _COPIES * cache_bytes + _LOGITS_COPIES * logits_bytes


@dataclass(frozen=True, eq=False)
class NativeBackend(Backend):
    """The compiled library. It keeps no reference to torch's network: ``packed`` has the weights."""

    packed: NativeModel
    vocabulary: Tokenizer
    policy: DecodingPolicy
    longest_target: int
    reason: str
    name: BackendName = "native"

    def max_rows(self, width: int) -> int:
        """Rows beyond which a larger batch is no faster."""
        rows_per_thread = _NATIVE_GREEDY_ROWS_PER_THREAD if width == 1 else _NATIVE_ROWS_PER_THREAD
        return rows_per_thread * max(2, torch.get_num_threads())

    def cohort(self, width: int) -> Cohort:
        """An empty cohort."""
        return NativeCohort(self.packed, self.vocabulary, width, self.longest_target, self.policy)

    def attention(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[Tensor]:
        """The cross-attention weights of the last layer."""
        return self.packed.attention(sources, targets)

    def logits(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> Iterator[Tensor]:
        """The logits after each token of given targets."""
        return map(self.packed.logits, sources, targets)


@dataclass(frozen=True, eq=False)
class _TorchBackend(Backend):
    """The common part of the back-ends that compute with torch's network."""

    model: ModelToDecode
    reason: str

    def attention(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[Tensor]:
        """The cross-attention weights of the last layer."""
        model = self.model
        return attention_by_torch(
            model.module, sources, targets, model.vocabulary.pad_id, model.device, model.policy.alignment_head
        )

    def logits(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> Iterator[Tensor]:
        """The logits after each token of given targets."""
        model = self.model
        vocab_size = int(model.architecture["target_vocab_size"])
        return logits_by_torch(model.module, sources, targets, model.vocabulary.pad_id, model.device, vocab_size)


@dataclass(frozen=True, eq=False)
class SlotBackend(_TorchBackend):
    """Slots and CUDA graphs."""

    slots: SlotModel
    name: BackendName = "slots"

    @property
    def warm_up_batches(self) -> tuple[int, ...]:
        """Numbers of sentences to decode together before the first request arrives."""
        # Each common size has a graph of its own, which is captured when it is first used.
        return (1, 2, 4, 8, 16, 32) if self.graphs.are_on else (1, 2, 8)

    @property
    def graphs(self) -> Graphs:
        """The CUDA graphs of its steps, or why there are none."""
        return self.slots.graphs

    @property
    def steps_per_call(self) -> int:
        """Steps that a call of a cohort's ``step`` takes."""
        return self.slots.steps_per_call

    def max_rows(self, width: int) -> int:
        """Rows beyond which a larger batch is no faster, or for which there is no memory."""
        if self.model.device.type != "cuda":
            return _MAX_ROWS
        free_bytes = _SLOT_MEMORY_SHARE * (available_bytes(str(self.model.device)) + self.slots.num_idle_bytes)
        return max(width, min(_MAX_SLOT_ROWS, int(free_bytes / self.model.row_bytes)))

    def cohort(self, width: int) -> Cohort:
        """An empty cohort."""
        return SlotCohort(self.slots, width)


@dataclass(frozen=True, eq=False)
class EagerBackend(_TorchBackend):
    """Torch, step by step."""

    name: BackendName = "eager"

    def max_rows(self, width: int) -> int:
        """Rows beyond which a larger batch is no faster."""
        return _MAX_ROWS

    def cohort(self, width: int) -> Cohort:
        """An empty cohort."""
        model = self.model
        state = TorchState(model.module, width, model.vocabulary.pad_id, model.device)
        return TorchCohort(
            state, model.vocabulary, width, model.longest_target, model.device, model.policy, model.shortlist
        )


@dataclass(frozen=True)
class BackendChoice:
    """The choice of a back-end for a model.

    Args:
        name: The back-end.
        reason: Why this one and not a faster one, as a clause that may follow its name.
    """

    name: BackendName
    reason: str


def preferred_backend(
    architecture: Mapping[str, Any] | None,
    precision: str,
    device: torch.device,
    *,
    native: bool = True,
    slots: bool | None = None,
    has_slots: bool = True,
) -> BackendChoice:
    """The fastest back-end that can decode a model here. The model need not be loaded.

    Args:
        architecture: The fields of its :class:`model.network.config.ModelConfig`; None if they are not known: then
            every back-end is taken to support them.
        precision: The precision of its bundle.
        device: The device that it is on, or would be on.
        native: Whether the compiled library may be used.
        slots: Whether to decode in slots: None means on GPUs only, True on any device.
        has_slots: Whether its bundle has what slots need.
    """
    not_slots = _reason_not_slots(device, slots, has_slots)
    if not_slots is None:
        return BackendChoice("slots", "requested" if slots else "the fastest on a GPU")
    not_native: str | None
    if slots:
        not_native = "slots were requested"
    elif not native:
        not_native = "it is switched off"
    else:
        config = None if architecture is None else ModelConfig.from_dict(architecture)
        not_native = reason_not_native(config, precision, device)
    if not_native is None:
        return BackendChoice("native", "the fastest on this CPU")
    return BackendChoice("eager", f"not slots, because {not_slots}; not native, because {not_native}")


def choose_backend(
    model: ModelToDecode,
    *,
    native: bool = True,
    slots: bool | None = None,
    isa: str | None = None,
    graphs: bool = True,
) -> Backend:
    """The back-end that :func:`preferred_backend` names, made for a model.

    Args:
        model: The model.
        native: Whether the compiled library may be used.
        slots: Whether to decode in slots: None means on GPUs only, True on any device.
        isa: The instruction set of the compiled library: its name, ``auto``, or None for that of ``VERSO_ISA``.
        graphs: Whether slots on a GPU may have CUDA graphs.

    Raises:
        DeviceError: The compiled library decodes, and this CPU cannot run the instruction set.
    """
    choice = preferred_backend(
        model.architecture,
        model.precision,
        model.device,
        native=native,
        slots=slots,
        has_slots=has_slot_step(model.module),
    )
    if choice.name == "slots":
        slot_model = SlotModel(
            model.module, model.vocabulary, model.longest_target, model.device, model.policy, graphs=graphs
        )
        return SlotBackend(model, choice.reason, slot_model)
    if choice.name == "native":
        config = ModelConfig.from_dict(model.architecture)
        try:
            packed = make_native_model(model.module, config, model.shortlist, isa, model.policy.alignment_head)
        except Unsupported as error:
            logger.warning("torch decodes, more slowly: %s", error)
            return EagerBackend(model, f"not native, because {error}")
        return NativeBackend(packed, model.vocabulary, model.policy, model.longest_target, choice.reason)
    return EagerBackend(model, choice.reason)


def _reason_not_slots(device: torch.device, slots: bool | None, has_slots: bool) -> str | None:
    """Why a model cannot decode in slots; None if it can."""
    if slots is False:
        return "they are switched off"
    if slots is None and device.type != "cuda":
        return "the model is not on a GPU"
    if not has_slots:
        return "the bundle was exported before there were slots; export it again"
    return None
