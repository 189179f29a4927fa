"""The back-ends that decode, and the one place where the back-end of a model is chosen.

There are three, and all give the same answers but for rounding:

- ``slots``: CUDA graphs over a fixed number of slots, on GPUs;
- ``native``: the compiled C++ library, on x86 and ARM processors;
- ``eager``: torch, step by step, everywhere.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

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
from model.text.tokenizer import TextTokenizer

logger = logging.getLogger("model.native")

BackendName = Literal["native", "slots", "eager"]

_MAX_ROWS = 256

_MAX_SLOT_ROWS = 4096
_SLOT_MEMORY_SHARE = 1 / 4
_COLUMNS_OF_A_ROW = 192
"""Source and target columns of a row, for a sentence of 64 tokens."""
_COPIES = 2
_LOGITS_COPIES = 4
"""Of keys and values while sentences move to other slots; of logits, which are float32."""

_NATIVE_ROWS_PER_THREAD = 128
_NATIVE_GREEDY_ROWS_PER_THREAD = 48
"""More sentences would drive each other's keys and values out of the processor's caches; the rows of a beam share
those of the source."""

NATIVE_PRECISIONS = ("float32", "bfloat16", "int8")
"""Precisions of bundles that the compiled library can decode."""


class Backend(Protocol):
    """What decodes the sentences of one model."""

    @property
    def name(self) -> BackendName:
        """Its short name."""
        ...

    @property
    def reason(self) -> str:
        """Why it was chosen and not a faster one, as a clause that may follow its name."""
        ...

    @property
    def warm_up_batches(self) -> tuple[int, ...]:
        """Numbers of sentences to decode together before the first request comes."""
        ...

    @property
    def graphs(self) -> Graphs | None:
        """The CUDA graphs of its steps, or why there are none; None for a back-end that never has any."""
        ...

    @property
    def steps_per_call(self) -> int:
        """Steps that a call of a cohort's ``step`` takes, if their number is fixed; 1 otherwise."""
        ...

    def max_rows(self, width: int) -> int:
        """Rows beyond which a larger batch of this beam width is no faster.

        Args:
            width: Rows of each sentence.
        """
        ...

    def cohort(self, width: int) -> Cohort:
        """An empty cohort.

        Args:
            width: Rows of each sentence.
        """
        ...

    def attention(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[Tensor]:
        """The cross-attention weights of the last decoder layer, averaged over its heads.

        Args:
            sources: Token ids of each sentence, markers included.
            targets: Token ids of each answer, the start token first.

        Returns:
            For each sentence (T, S), float32 on the CPU: row t belongs to the choice of the token after ``targets[t]``.
        """
        ...

    def logits(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> Iterator[Tensor]:
        """The logits after each token of given targets. They are made while they are read: one by one they need little.

        Args:
            sources: Token ids of each sentence, markers included.
            targets: Token ids of each target, the start token first.

        Returns:
            For each sentence (T, V), float32 on the model's device: row t scores the token after ``targets[t]``.
        """
        ...


@dataclass(frozen=True, eq=False)
class ModelToDecode:
    """What every back-end needs to know of a model.

    Args:
        module: The network, scripted or not.
        vocabulary: Special tokens.
        policy: The model's way of decoding.
        architecture: The fields of :class:`model.network.config.ModelConfig`.
        precision: What its weights and products are kept in.
        longest_target: Tokens the model can produce at all, forced ones included.
        device: Where it lives.
        shortlist: What sentences choose their tokens from, if that is not the whole vocabulary.
    """

    module: Transformer
    vocabulary: TextTokenizer
    policy: DecodingPolicy
    architecture: Mapping[str, Any]
    precision: str
    longest_target: int
    device: torch.device
    shortlist: Shortlist | None = None

    @property
    def row_bytes(self) -> int:
        """Memory of a row in slots, with the copies that are made of its keys, values and logits."""
        of_column = 2 * int(self.architecture["decoder_layers"]) * int(self.architecture["d_model"])
        bytes_each = 2 if self.precision in ("float16", "bfloat16") else 4
        logits = 4 * int(self.architecture["target_vocab_size"])
        return _COPIES * _COLUMNS_OF_A_ROW * of_column * bytes_each + _LOGITS_COPIES * logits


@dataclass(frozen=True, eq=False)
class NativeBackend:
    """The compiled library; see :class:`Backend`. It keeps nothing of torch's network: ``packed`` has the weights."""

    packed: NativeModel
    vocabulary: TextTokenizer
    policy: DecodingPolicy
    longest_target: int
    reason: str
    name: BackendName = "native"
    warm_up_batches: tuple[int, ...] = (1, 2, 8)
    graphs: Graphs | None = None
    steps_per_call: int = 1

    def max_rows(self, width: int) -> int:
        """Rows beyond which a larger batch is no faster."""
        each = _NATIVE_GREEDY_ROWS_PER_THREAD if width == 1 else _NATIVE_ROWS_PER_THREAD
        return each * max(2, torch.get_num_threads())

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
class _TorchBackend:
    """What the back-ends share that keep torch's network; see :class:`Backend`."""

    model: ModelToDecode
    reason: str

    def attention(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[Tensor]:
        """The cross-attention weights of the last layer."""
        model = self.model
        return attention_by_torch(model.module, sources, targets, model.vocabulary.pad_id, model.device)

    def logits(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> Iterator[Tensor]:
        """The logits after each token of given targets."""
        model = self.model
        vocab_size = int(model.architecture["target_vocab_size"])
        return logits_by_torch(model.module, sources, targets, model.vocabulary.pad_id, model.device, vocab_size)


@dataclass(frozen=True, eq=False)
class SlotBackend(_TorchBackend):
    """Slots and CUDA graphs; see :class:`Backend`."""

    slots: SlotModel
    name: BackendName = "slots"

    @property
    def warm_up_batches(self) -> tuple[int, ...]:
        """Numbers of sentences to decode together before the first request comes."""
        # Every size that is common has a graph of its own to be captured.
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
    """Torch, one step after the other; see :class:`Backend`."""

    name: BackendName = "eager"
    warm_up_batches: tuple[int, ...] = (1, 2, 8)
    graphs: Graphs | None = None
    steps_per_call: int = 1

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
    """Which back-end suits a model.

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
        architecture: The fields of its :class:`model.network.config.ModelConfig`; None if they are not known, and
            every back-end is taken to support them.
        precision: What its weights and products are kept in.
        device: Where it is, or would be.
        native: Whether the compiled library may be used.
        slots: Whether to decode in slots: None means on GPUs only, True on any device.
        has_slots: Whether its bundle has what slots need.
    """
    why_no_slots = _why_no_slots(device, slots, has_slots)
    if why_no_slots is None:
        return BackendChoice("slots", "asked for" if slots else "the fastest on a GPU")
    why_no_native = "slots were asked for" if slots else _why_no_native(architecture, precision, device, native)
    if why_no_native is None:
        return BackendChoice("native", "the fastest on this processor")
    return BackendChoice("eager", f"not slots, because {why_no_slots}; not native, because {why_no_native}")


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
        isa: The instruction set of the compiled library: its name, ``auto``, or None for what ``VERSO_ISA`` says.
        graphs: Whether slots on a GPU may have CUDA graphs.

    Raises:
        DeviceError: The compiled library decodes, and this processor cannot run the instruction set.
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
            packed = make_native_model(model.module, config, model.shortlist, isa)
        except Unsupported as error:
            logger.warning("torch decodes, more slowly: %s", error)
            return EagerBackend(model, f"not native, because {error}")
        return NativeBackend(packed, model.vocabulary, model.policy, model.longest_target, choice.reason)
    return EagerBackend(model, choice.reason)


def _why_no_slots(device: torch.device, slots: bool | None, has_slots: bool) -> str | None:
    if slots is False:
        return "they are switched off"
    if slots is None and device.type != "cuda":
        return "the model is not on a GPU"
    if not has_slots:
        return "the bundle was exported before there were slots; export it again"
    return None


def _why_no_native(
    architecture: Mapping[str, Any] | None, precision: str, device: torch.device, native: bool
) -> str | None:
    if not native:
        return "it is switched off"
    if device.type != "cpu":
        return "the model is not on the CPU"
    if precision not in NATIVE_PRECISIONS:
        known = f"{', '.join(NATIVE_PRECISIONS[:-1])} or {NATIVE_PRECISIONS[-1]}"
        return f"it computes in {known}, and the bundle is in {precision}"
    return reason_not_native(None if architecture is None else ModelConfig.from_dict(architecture))
