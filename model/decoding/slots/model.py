"""What cohorts that decode in slots share: the model, its graphs, and slots that are not in use."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import ClassVar
from weakref import WeakSet

import torch
from torch import Tensor

from model.decoding.eager.state import TorchState
from model.decoding.eager.target_cache import is_recurrent
from model.decoding.eager.torch_cohort import TorchCohort
from model.decoding.policy import DecodingPolicy
from model.decoding.slots.buckets import Bucket
from model.decoding.slots.graphs import Graphs
from model.decoding.slots.step import Constants, take_step
from model.decoding.slots.tensors import Encoded, SlotTensors, upload
from model.network.masks import padding_mask
from model.network.padding import pad
from model.network.transformer import Transformer
from model.process.memory import available_bytes
from model.text.tokenizer import Tokenizer

_STEPS_PER_CALL = 4
"""Steps that a GPU takes before the host checks which sentences are done."""

_IDLE_SHARE = 1 / 8
"""Share of the free memory that slots may take while they are not in use."""


class SlotStep:
    """Slots of one bucket, and the steps taken in them.

    Args:
        tensors: The slots.
        take: Takes a step in them, full or plain (:func:`model.decoding.slots.step.take_step`).
        graphs: Captures these two.
    """

    def __init__(self, tensors: SlotTensors, take: Callable[[SlotTensors, bool], None], graphs: Graphs) -> None:
        self.tensors = tensors
        # No reference to this object: a cycle would keep its memory until the garbage collector runs.
        still = partial(at_rest, tensors)
        self._plain, self._full = (graphs.call(partial(take, tensors, full), still) for full in (False, True))

    def run(self, *, full: bool) -> None:
        """Take one step with every sentence; on a GPU the step is launched and not waited for."""
        (self._full if full else self._plain)()


@contextmanager
def at_rest(slots: SlotTensors) -> Iterator[None]:
    """A context in which all slots are inactive.

    A step then writes only keys and values that the next one overwrites, and no states of recurrent layers.
    """
    active = slots.active.clone()
    slots.active.zero_()
    yield
    slots.active.copy_(active)


class SlotModel:
    """A model for :class:`model.decoding.slots.cohort.SlotCohort`. Not thread-safe: one thread owns it and its cohorts.

    Args:
        module: Computes logits.
        vocabulary: Special tokens.
        longest_target: The most tokens that the model can produce, forced ones and a prefix included.
        device: The device of the model.
        policy: The model's decoding policy.
        graphs: Whether steps are captured as CUDA graphs, if the device is a GPU.
        steps_per_call: Steps of a cohort before it checks which sentences are done; by default several on a GPU.
        idle_bytes: Bound of the caches of slots that are not in use; they are kept, with their graphs, for later. By
            default a share of the free memory.
    """

    _all: ClassVar[WeakSet[SlotModel]] = WeakSet()

    def __init__(
        self,
        module: Transformer,
        vocabulary: Tokenizer,
        longest_target: int,
        device: torch.device,
        policy: DecodingPolicy = DecodingPolicy(),  # noqa: B008  (frozen)
        *,
        graphs: bool = True,
        steps_per_call: int | None = None,
        idle_bytes: int | None = None,
    ) -> None:
        self.vocabulary = vocabulary
        self.longest_target = longest_target
        self.policy = policy
        self.steps_per_call = steps_per_call or (_STEPS_PER_CALL if device.type == "cuda" else 1)
        self._module = module
        self.device = device
        self._max_idle_bytes = idle_bytes
        self._idle_bytes = idle_bytes or 0
        self._idle: list[SlotStep] = []  # the most recently used last
        never = policy.suppressed_ids(vocabulary.never_generated)
        constants = Constants(
            vocabulary.end_id,
            torch.tensor(list(never), dtype=torch.long, device=device),
            policy.renormalise,
            policy.force_end,
        )
        self._take_step = partial(take_step, module, constants)
        self.graphs = Graphs(device, wanted=graphs)
        SlotModel._all.add(self)

    @contextmanager
    def running(self) -> Iterator[None]:
        """The context of every computation with the model: all of it is on one stream, in the order it is queued."""
        with torch.inference_mode(), self.graphs.entered():
            yield

    def encode(self, sources: Sequence[Sequence[int]]) -> Encoded:
        """Encode sources, one at least."""
        source = upload(pad(sources, self.vocabulary.pad_id), self.device)
        cross_cache = self._module.project_memory(self._module.encode(source))
        return Encoded(cross_cache, padding_mask(source, self.vocabulary.pad_id))

    def eager_cohort(self, width: int) -> TorchCohort:
        """An empty cohort of the eager back-end, with the same model.

        Args:
            width: Rows of each sentence.
        """
        state = TorchState(self._module, width, self.vocabulary.pad_id, self.device)
        return TorchCohort(state, self.vocabulary, width, self.longest_target, self.device, self.policy)

    def take(self, bucket: Bucket, like: Tensor) -> SlotStep:
        """Slots of a bucket, all of them free: idle ones that are not much larger, or new ones.

        Args:
            bucket: Their number and size.
            like: Projected memory of any sentences, (L, 2, n, H, s, D).
        """
        for step in sorted(self._idle, key=lambda idle: idle.tensors.bucket.size):
            if step.tensors.bucket.serves(bucket):  # a larger one costs less than another capture
                self._idle.remove(step)
                return step
        if self._max_idle_bytes is None:
            self._idle_bytes = int(_IDLE_SHARE * (available_bytes(str(self.device)) + self.num_idle_bytes))
        self.drop_idle(self._idle_bytes - bucket.size * (like.nbytes // (like.size(2) * like.size(4))))
        return SlotStep(SlotTensors.allocate(bucket, like, is_recurrent(self._module)), self._take_step, self.graphs)

    def give_back(self, step: SlotStep) -> None:
        """Keep slots for later; the least recently used are dropped if they take too much memory."""
        self._idle.append(step)
        self.drop_idle(self._idle_bytes)

    @property
    def num_idle_bytes(self) -> int:
        """Memory of the caches of slots that are not in use."""
        return sum(step.tensors.num_bytes for step in self._idle)

    def drop_idle(self, max_bytes: int) -> None:
        """Drop slots, but not their graphs, which must not be destroyed one by one."""
        while self._idle and self.num_idle_bytes > max_bytes:
            del self._idle[0]

    def drop(self) -> None:
        """Free what is kept for speed alone: slots that are not in use, and all graphs."""
        self._idle.clear()
        self.graphs.drop()

    @classmethod
    def drop_all(cls) -> None:
        """Free it for all models of the process, which belong to the calling thread."""
        for model in cls._all:
            model.drop()
