"""What the cohorts of one model share when they decode in slots: the module, and slots that wait to be used again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any

import torch
from torch import Tensor

from model.decoding.cohort import Vocabulary
from model.decoding.policy import DecodingPolicy
from model.decoding.slots.buckets import SHORTEST_SOURCE, Bucket, next_power_of_two
from model.decoding.slots.choice import Constants, SlotStepModel, Variant, take_step
from model.decoding.slots.graphs import GraphedCall, Lane
from model.decoding.slots.tensors import Encoded, SlotTensors, upload
from model.network.masks import padding_mask
from model.network.padding import pad

_GRAPHED_TOKENS = 1024
"""Padded source tokens up to which encoding is launched as a graph; more take a GPU longer than launching does."""


class SlotStep:
    """Slots of one bucket, and the steps taken in them.

    Args:
        tensors: The slots.
        take: Takes a step in them, leaving out what a variant allows.
        graphs: Whether steps are captured, each variant when it is first wanted.
        pool: Memory shared by captured steps.
    """

    def __init__(
        self, tensors: SlotTensors, take: Callable[[SlotTensors, Variant], None], graphs: bool, pool: Any
    ) -> None:
        self.tensors = tensors
        self._take = take
        self._graphs = graphs
        self._pool = pool
        self._calls: dict[Variant, GraphedCall] = {}

    def run(self, variant: Variant) -> None:
        """One token further for every sentence; on a GPU the step is launched and not waited for."""
        if variant not in self._calls:
            # Nothing here knows this object: in a cycle, memory would wait for the garbage collector.
            self._calls[variant] = GraphedCall(
                partial(self._take, self.tensors, variant), self._graphs, self._pool, partial(at_rest, self.tensors)
            )
        self._calls[variant]()


@contextmanager
def at_rest(slots: SlotTensors) -> Iterator[None]:
    """Within it nobody decodes, and a step changes nothing but keys and values that the next step writes again."""
    active = slots.active.clone()
    slots.active.zero_()
    yield
    slots.active.copy_(active)


class SlotModel:
    """A model for :class:`model.decoding.slots.cohort.SlotCohort`. Not thread-safe: one thread owns it and its cohorts.

    Args:
        module: Computes logits.
        vocabulary: Special tokens.
        longest_target: Tokens the model can produce at all, forced ones included.
        device: Where the model lives.
        policy: The model's way of decoding.
        graphs: Whether steps are captured as CUDA graphs; nothing is where the device is no GPU.
        steps_per_call: Steps a cohort takes before it looks who is done; 1 where nothing is gained by more.
        look_ahead: Whether a cohort of several sentences launches the next steps before it looks at the last ones, so
            that the device has work while the host hands out answers.
        idle_bytes: Caches of slots that nobody uses, kept so that their graphs need not be captured again.
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
        self._idle: list[SlotStep] = []  # the one used last comes last
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
        # Two: encoding overlaps with decoding, so the one must not write where the other does.
        self._step_pool, self._encoder_pool = (
            torch.cuda.graph_pool_handle() if self._graphs else None for _ in range(2)
        )
        self._encoders: dict[tuple[int, int], tuple[Tensor, Tensor, GraphedCall]] = {}

    @contextmanager
    def running(self) -> Iterator[None]:
        """To be entered around everything that touches the model."""
        with torch.inference_mode(), torch.cuda.device(self._device) if self._device.type == "cuda" else nullcontext():
            yield

    def encode(self, sources: Sequence[Sequence[int]]) -> Encoded:
        """Read sources, while the device goes on decoding."""
        number = next_power_of_two(len(sources))
        longest = max(map(len, sources))
        # Not longer than the model has places for, which need not be a power of two.
        length = max(longest, min(max(SHORTEST_SOURCE, next_power_of_two(longest)), self.longest_target))
        pad_id, end_id = self.vocabulary.pad_id, self.vocabulary.end_id
        padded = torch.full((number, length), pad_id)
        # A row without any token would have nothing to look at.
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
        # The next sources may be encoded before these are taken over.
        return result.clone()

    def take(self, bucket: Bucket, like: Tensor) -> SlotStep:
        """Slots of a bucket, whoever was there before; all are free.

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
        """Keep slots for later; those that were not used for longest go where there are too many."""
        self._idle.append(step)
        while sum(kept.tensors.num_bytes for kept in self._idle) > self._idle_bytes:
            del self._idle[0]


def _project(module: SlotStepModel, source: Tensor) -> Tensor:
    """Keys and values of padded sources, (L, 2, n, H, s, D)."""
    return module.project_memory(module.encode(source))


def _encode_into(result: Tensor, module: SlotStepModel, source: Tensor) -> None:
    result.copy_(_project(module, source))


def make_slot_model(
    module: Any,
    vocabulary: Vocabulary,
    longest_target: int,
    device: torch.device,
    policy: DecodingPolicy,
    *,
    force: bool = False,
) -> SlotModel | None:
    """A model that decodes in slots, or None where that gains nothing or the module cannot.

    Args:
        module: Scripted or not; bundles written before there were slots have no ``step_slots``.
        vocabulary: Special tokens.
        longest_target: Tokens the model can produce at all, forced ones included.
        device: Where the model lives.
        policy: The model's way of decoding.
        force: Whether to have slots on other devices than GPUs, too, where there is nothing to launch ahead of.
    """
    if not hasattr(module, "step_slots") or not (force or device.type == "cuda"):
        return None
    if device.type == "cuda":
        return SlotModel(module, vocabulary, longest_target, device, policy)
    return SlotModel(module, vocabulary, longest_target, device, policy, steps_per_call=1, look_ahead=False)
