"""A sentence in the engine."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

from app.engine.caller import UNKNOWN_CALLER, Caller
from model.decoding.options import Outcome

if TYPE_CHECKING:
    from model.decoding.sentence import DecodingRequest
    from model.translator import Translator

ModelRequest: TypeAlias = "tuple[Translator, DecodingRequest]"
"""A model and a sentence to decode with it; only the caller uses the key of the request."""

BatchKey = tuple[object, int]
"""Model and beam width; sentences with the same key can be decoded in one batch."""


@dataclass(eq=False)
class QueuedSentence:
    """A sentence in the engine: in the queue, then in a cohort of its model.

    Args:
        request: The decoding request; its key is unique in the engine.
        model: The model to decode it with.
        deliver: Called with the outcome, on the engine's thread.
        arrived_at: Clock time of its admission.
        started_at: Clock time when it joined a cohort; NaN while it waits.
        encoded_at: Clock time when it had been encoded; NaN before.
        ended_at: Clock time of its outcome; NaN before.
        max_target_tokens: Maximum number of tokens the model can generate, whatever the options allow.
        owner: Identifies the caller's request that it belongs to.
        caller: Whose turn it takes.
        was_interrupted: Whether the engine's thread ended while it decoded; it is decoded a second time and no third.
    """

    request: DecodingRequest
    model: Translator
    deliver: Callable[[Outcome], None]
    arrived_at: float = 0.0
    started_at: float = math.nan
    encoded_at: float = math.nan
    ended_at: float = math.nan
    max_target_tokens: int = sys.maxsize
    owner: object = field(default_factory=object)
    caller: Caller = UNKNOWN_CALLER
    was_interrupted: bool = False

    @property
    def key(self) -> int:
        """Its key, unique in the engine."""
        return self.request.key

    @cached_property
    def width(self) -> int:
        """Number of rows it needs."""
        return self.request.options.width

    @property
    def batch(self) -> BatchKey:
        """The key of the batches it can join."""
        return self.model, self.width

    @property
    def model_name(self) -> str:
        """Name of its model."""
        return self.model.manifest.name

    @property
    def num_source_tokens(self) -> int:
        """Number of source tokens."""
        return len(self.request.source_ids)

    @cached_property
    def longest_target(self) -> int:
        """Maximum number of tokens of its translation, those of a prefix included."""
        num_prefix = len(self.request.prefix_ids)
        room = self.max_target_tokens - num_prefix
        return num_prefix + self.request.options.longest_answer(self.num_source_tokens, room)

    @cached_property
    def likely_target(self) -> int:
        """Estimated number of tokens of its translation: as many as of its source."""
        return min(self.num_source_tokens, self.longest_target)

    @cached_property
    def cost(self) -> float:
        """Its estimated work in tokens: those to encode, and those to decode in each of its rows."""
        return float(self.num_source_tokens + self.width * self.likely_target)
