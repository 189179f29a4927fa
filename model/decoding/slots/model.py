"""What cohorts of one model share if they decode in slots: the module, its graphs, and slots that are not in use."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from model.decoding.cohort import Vocabulary
from model.decoding.policy import DecodingPolicy
from model.decoding.search import StepModel
from model.decoding.slots.buckets import SHORTEST_SOURCE, Bucket, next_power_of_two
from model.decoding.slots.choice import Constants, SlotStepModel, Variant, has_slot_step, take_step
from model.decoding.slots.graphs import GraphedCall, Lane
from model.decoding.slots.tensors import Encoded, SlotTensors, upload
from model.network.masks import padding_mask
from model.network.padding import pad

if TYPE_CHECKING:
    from torch.cuda import _POOL_HANDLE as GraphPool

_GRAPHED_TOKENS = 1024
"""Padded source tokens up to which encoding is launched as a graph; more take a GPU longer than launching does."""


class SlotStep:
    """Slots of one bucket, and the steps taken in them.

    Args:
        tensors: The slots.
        take: Takes a step in them, without what a variant leaves out.
        graphs: Whether steps are captured, each variant when it is first used.
        pool: Memory shared by captured steps.
    """

    def __init__(
        self, tensors: SlotTensors, take: Callable[[SlotTensors, Variant], None], graphs: bool, pool: GraphPool | None
    ) -> None:
        self.tensors = tensors
        self._take = take
        self._graphs = graphs
        self._pool = pool
        self._calls: dict[Variant, GraphedCall] = {}

    def run(self, variant: Variant) -> None:
        """Take one step with every sentence; on a GPU the step is launched and not waited for."""
        if variant not in self._calls:
            # No reference to this object: a cycle would keep its memory until the garbage collector runs.
            self._calls[variant] = GraphedCall(
                partial(self._take, self.tensors, variant), self._graphs, self._pool, partial(at_rest, self.tensors)
            )
        self._calls[variant]()


@contextmanager
def at_rest(slots: SlotTensors) -> Iterator[None]:
    """A context in which all slots are inactive: a step writes only keys and values that the next one overwrites."""
    active = slots.active.clone()
    slots.active.zero_()
    yield
    slots.active.copy_(active)


class SlotModel:
    """A model for :class:`model.decoding.slots.cohort.SlotCohort`. Not thread-safe: one thread owns it and its cohorts.

    Args:
        module: Computes logits.
        vocabulary: Special tokens.
        longest_target: Tokens the model can produce at all, forced ones and a prefix included.
        device: Where the model is.
        policy: The model's way of decoding.
        graphs: Whether steps are captured as CUDA graphs, if the device is a GPU.
        steps_per_call: Steps a cohort takes before it reads which sentences are done; 1 if more gain nothing.
        look_ahead: Whether a cohort of several sentences launches the next steps before it reads the results of the
            last ones, so that the device has work while the host hands out answers.
        idle_bytes: Bound of the caches of slots that are not in use; they are kept, with their graphs, for later.
    """

    def __init__(
        self,
        module: SlotStepModel,
        vocabulary: Vocabulary,
        longest_target: int,
        device: torch.device,
        policy: DecodingPolicy = DecodingPolicy(),  # noqa: B008  (frozen)
        *,
        graphs: bool = True,
        steps_per_call: int = 4,
        look_ahead: bool = True,
        idle_bytes: int = 2 * 2**30,
    ) -> None:
        self.vocabulary = vocabulary
        self.longest_target = longest_target
        self.policy = policy
        self.steps_per_call = steps_per_call
        self.look_ahead = look_ahead
        self._module = module
        self._device = device
        self._idle_bytes = idle_bytes
        self._idle: list[SlotStep] = []  # the most recently used last
        never = policy.never_generated(vocabulary.never_generated)
        constants = Constants(
            vocabulary.end_id,
            torch.tensor(list(never), dtype=torch.long, device=device),
            policy.renormalise,
            policy.force_end,
        )
        self._take_step = partial(take_step, module, constants)
        self._graphs = graphs and device.type == "cuda"
        self._lane = Lane(device)
        # Two, because encoding overlaps with decoding and must not write to the same memory.
        self._step_pool, self._encoder_pool = (
            torch.cuda.graph_pool_handle() if self._graphs else None for _ in range(2)
        )
        self._encoders: dict[tuple[int, int], tuple[Tensor, Tensor, GraphedCall]] = {}

    @contextmanager
    def running(self) -> Iterator[None]:
        """The context of every computation with the model."""
        with torch.inference_mode(), torch.cuda.device(self._device) if self._device.type == "cuda" else nullcontext():
            yield

    def encode(self, sources: Sequence[Sequence[int]]) -> Encoded:
        """Encode sources, while the device continues to decode."""
        number = next_power_of_two(len(sources))
        longest = max(map(len, sources))
        # Not longer than the positions of the model, whose number need not be a power of two.
        length = max(longest, min(max(SHORTEST_SOURCE, next_power_of_two(longest)), self.longest_target))
        pad_id, end_id = self.vocabulary.pad_id, self.vocabulary.end_id
        padded = torch.full((number, length), pad_id)
        # Attention in a row without any token would be NaN.
        padded[len(sources) :, 0] = end_id
        rows = pad(sources, pad_id)
        padded[: rows.size(0), : rows.size(1)] = rows
        with self._lane.entered():
            source = upload(padded, self._device)
            if self._graphs and number * length <= _GRAPHED_TOKENS:
                cross_cache = self._encode_by_graph(source)
            else:
                cross_cache = _project(self._module, source)
            encoded = Encoded(cross_cache, padding_mask(source, pad_id))
        self._lane.hand_over(encoded.cross_cache, encoded.may_attend)
        return encoded

    def _encode_by_graph(self, source: Tensor) -> Tensor:
        """Keys and values by a graph of the source's shape."""
        shape = (source.size(0), source.size(1))
        if shape not in self._encoders:
            own, result = source.clone(), _project(self._module, source)
            call = GraphedCall(partial(_encode_into, result, self._module, own), True, self._encoder_pool)
            self._encoders[shape] = own, result, call
        own, result, call = self._encoders[shape]
        own.copy_(source)
        call()
        # The next sources may be encoded before these are copied to their slots.
        return result.clone()

    def take(self, bucket: Bucket, like: Tensor) -> SlotStep:
        """Slots of a bucket, all of them free.

        Args:
            bucket: How many and how large.
            like: Projected memory of any sentences.
        """
        for step in reversed(self._idle):
            if step.tensors.bucket == bucket:
                self._idle.remove(step)
                return step
        return SlotStep(SlotTensors.allocate(bucket, like), self._take_step, self._graphs, self._step_pool)

    def give_back(self, step: SlotStep) -> None:
        """Keep slots for later; the least recently used are dropped if they take too much memory."""
        self._idle.append(step)
        while sum(kept.tensors.num_bytes for kept in self._idle) > self._idle_bytes:
            del self._idle[0]


def _project(module: SlotStepModel, source: Tensor) -> Tensor:
    """Keys and values of padded sources, (L, 2, n, H, s, D)."""
    return module.project_memory(module.encode(source))


def _encode_into(result: Tensor, module: SlotStepModel, source: Tensor) -> None:
    result.copy_(_project(module, source))


def make_slot_model(
    module: StepModel,
    vocabulary: Vocabulary,
    longest_target: int,
    device: torch.device,
    policy: DecodingPolicy,
    *,
    force: bool = False,
) -> SlotModel | None:
    """A model that decodes in slots; None if that gains nothing here or the module cannot.

    Args:
        module: Computes logits, scripted or not.
        vocabulary: Special tokens.
        longest_target: Tokens the model can produce at all, forced ones included.
        device: Where the model is.
        policy: The model's way of decoding.
        force: Whether to use slots on other devices, too, where a step is neither captured nor launched ahead.
    """
    if not has_slot_step(module) or not (force or device.type == "cuda"):
        return None
    if device.type == "cuda":
        return SlotModel(module, vocabulary, longest_target, device, policy)
    return SlotModel(module, vocabulary, longest_target, device, policy, steps_per_call=1, look_ahead=False)
