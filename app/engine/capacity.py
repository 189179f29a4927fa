"""The budget of decoding: measured at the start, and bounded by the available memory.

Cohorts of growing size decode synthetic sentences, with the default beam size, until a step takes ``MAX_STEP_S`` or the
probe's time is over. Up to some number of rows, throughput grows with the rows; beyond it, each further row adds a
constant time. The row limit is therefore the number of rows that a model decodes in a step of ``MAX_STEP_S`` at its
best throughput. More rows would not be faster; with fewer rows short sentences would wait for long sentences to end.

Where a call takes several steps, as on a GPU, the call counts, because new requests wait for it. There, each size is
used once before it is measured, because the first use captures its graphs. They and their memory are dropped at the
end. The fastest measurement counts, because other work on the machine only slows steps down. The result varies slightly
between starts; translations do not depend on it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

from app.engine.joining import Budget
from model.decoding.options import Decoding, DecodingOptions
from model.process.gpus import is_lost
from model.process.memory import available_bytes

if TYPE_CHECKING:
    from model.artifacts.manifest import Manifest
    from model.decoding.cohort import Cohort
    from model.decoding.sentence import DecodingRequest
    from model.translator import Translator

logger = logging.getLogger("app.capacity")

MAX_STEP_S = 0.025
"""Planned maximum duration of a step, and of encoding joining sentences, in seconds. New requests wait for it."""

PROBE_S = 1.5
"""Seconds after which no larger size is measured, for all models together; the last size may take as long again."""

MEMORY_SHARE = 0.25
"""Share of the free memory at the start that decoding may use."""

MIN_ROWS = 16
"""Minimum of the row limit, however slow a step is."""

_SIZES = tuple(8 << power for power in range(10))
_STEPS = 3  # of each size
_PASSES = 2
_SOURCE_TOKENS = 24
_TARGET_TOKENS = 128
_SHORTEST_S = 1e-6
_COPIES = 2  # of keys and values, while sentences join or leave
_LOGITS_COPIES = 4  # of a row's logits, while the next token is chosen
_MAX_TOKENS = 100_000_000
_MIN_TOKENS = 1_024


class DescribedModel(Protocol):
    """A model, loaded or not."""

    @property
    def manifest(self) -> Manifest:
        """The metadata of its bundle."""
        ...

    @property
    def device(self) -> str:
        """The device it is on."""
        ...


@dataclass(frozen=True)
class Speed:
    """The measured speed of a model.

    Args:
        token_s: Seconds for one token of one row, in a step with the best number of rows.
        join_token_s: Seconds to encode one source token.
        row_s: Seconds of one row, in a call of the best size: more than ``token_s`` if a call takes several steps.
    """

    token_s: float
    join_token_s: float
    row_s: float


class BudgetFinder:
    """Determines the budget at the start, as far as the settings do not.

    Args:
        max_rows: The configured row limit, or None.
        max_tokens: The configured token limit, or None.
        max_beam_size: The largest beam size of a request.
        clock: A monotonic clock, in seconds.
        memory_bytes: Returns the free memory of a device.
        reserved_bytes: Free memory that models may take later.
    """

    def __init__(
        self,
        max_rows: int | None,
        max_tokens: int | None,
        max_beam_size: int,
        clock: Callable[[], float] = time.perf_counter,
        memory_bytes: Callable[[str], int] = available_bytes,
        reserved_bytes: int = 0,
    ) -> None:
        self._max_rows = max_rows
        self._max_tokens = max_tokens
        self._max_beam_size = max_beam_size
        self._clock = clock
        self._memory_bytes = memory_bytes
        self._reserved_bytes = reserved_bytes

    def find(self, translators: Sequence[Translator]) -> Budget:
        """The budget for models that share the CPU or GPU, determined by the slowest of them.

        Runs the models, unless the row limit is configured: must be called on the thread that will run them.

        Args:
            translators: The models, loaded and warm; at least one.
        """
        began = self._clock()
        budget = Budget(self._max_tokens or _MAX_TOKENS, self._max_rows or max(self._max_beam_size, MIN_ROWS))
        if self._max_rows is None:
            speeds = [self._measure(translator, PROBE_S / len(translators), budget) for translator in translators]
            token_s = max(speed.token_s for speed in speeds)
            budget = replace(
                budget,
                max_rows=max(budget.max_rows, min(int(MAX_STEP_S / max(speed.row_s for speed in speeds)), _SIZES[-1])),
                max_join_tokens=max(1, int(MAX_STEP_S / max(speed.join_token_s for speed in speeds))),
                token_s=token_s,
            )
        for translator in translators:
            budget = self.with_model(budget, translator)
        fields = {
            "max_batch_rows": budget.max_rows,
            "max_batch_tokens": budget.max_tokens,
            "max_join_tokens": budget.max_join_tokens,
            "tokens_per_s": round(1 / budget.token_s) if budget.token_s else None,
            "probe_ms": round((self._clock() - began) * 1000),
        }
        logger.info("decoding budget", extra={"fields": fields})
        return budget

    def _measure(self, translator: Translator, limit_s: float, budget: Budget) -> Speed:
        max_tokens = self.with_model(budget, translator).max_tokens
        width = min(DecodingOptions().width, self._max_beam_size)
        try:
            return Probe(translator, width, self._clock, limit_s, max_tokens, synchronised(translator.device)).run()
        finally:
            translator.free_memory()

    def with_model(self, budget: Budget, model: DescribedModel) -> Budget:
        """The budget after adding a model, which may need more memory per token. Runs no model.

        Args:
            budget: The budget before.
            model: The model to add.
        """
        if self._max_tokens is not None:
            return budget
        vocabulary = int(model.manifest.architecture["target_vocab_size"])
        logits_bytes = 4 * _LOGITS_COPIES * budget.max_rows * vocabulary
        free_bytes = MEMORY_SHARE * max(0, self._memory_bytes(model.device) - self._reserved_bytes) - logits_bytes
        # A recurrent decoder keeps keys and values of source tokens only; its states are small beside the logits.
        sides = 1 if model.manifest.architecture.get("decoder") == "ssru" else 2
        tokens = int(free_bytes / (sides * bytes_per_token(model.manifest)))
        return replace(budget, max_tokens=min(budget.max_tokens, max(_MIN_TOKENS, tokens)))


def bytes_per_token(manifest: Manifest) -> int:
    """Memory for the keys and values of one token of one row, and for their copies.

    Args:
        manifest: The model's manifest.
    """
    architecture = manifest.architecture
    bytes_each = 2 if manifest.precision in ("float16", "bfloat16") else 4
    return _COPIES * 2 * int(architecture["decoder_layers"]) * int(architecture["d_model"]) * bytes_each


@dataclass
class Probe:
    """Measures how fast a model decodes synthetic sentences, with a growing number of sentences.

    Args:
        translator: The model, warmed up.
        width: Number of rows of each sentence.
        clock: A monotonic clock, in seconds.
        limit_s: Seconds after which no larger size is measured, without those of captures.
        max_tokens: Number of source tokens, and of target tokens, that fit into memory.
        finish: Waits for the device.
    """

    translator: Translator
    width: int
    clock: Callable[[], float]
    limit_s: float
    max_tokens: int = _MAX_TOKENS
    finish: Callable[[], None] = lambda: None
    _row_s: list[float] = field(default_factory=lambda: [MAX_STEP_S])
    _join_token_s: list[float] = field(default_factory=lambda: [MAX_STEP_S])

    def run(self) -> Speed:
        """Measure all sizes; the fastest measurements count."""
        end = self.clock() + self.limit_s
        try:
            for _ in range(_PASSES):
                end = self._measure_sizes(end)
        except Exception as error:
            if is_lost(error):
                raise
            # Most likely out of memory; the measurements so far are used.
            logger.exception("the probe ended early", extra={"fields": {"steps": len(self._row_s) - 1}})
        row_s = min(self._row_s)
        return Speed(row_s / self.translator.backend.steps_per_call, min(self._join_token_s), row_s)

    def _measure_sizes(self, end: float) -> float:
        """Measure each size once until ``end``; returns ``end``, moved by the seconds that captures took."""
        decoding: Decoding = "greedy" if self.width == 1 else "beam"
        request = self.translator.example_request(_SOURCE_TOKENS, DecodingOptions(decoding, beam_size=self.width))
        length = min(self.translator.manifest.max_target_tokens - len(request.forced_ids), _TARGET_TOKENS)
        options = replace(request.options, min_new_tokens=length, max_new_tokens=length)
        graphs = self.translator.backend.graphs
        for size in _SIZES:
            if size * max(len(request.source_ids), length) > self.max_tokens:
                break
            requests = [replace(request, key=key, options=options) for key in range(max(1, size // self.width))]
            cohort = self.translator.cohort(self.width)
            if graphs is not None and graphs.are_on:
                end += self._join_s(cohort, requests)
                cohort.leave(cohort.keys)
            began = self.clock()
            step_s = self._measure(cohort, requests)
            if step_s > MAX_STEP_S or self.clock() + (self.clock() - began) > end:
                break
        return end

    def _join_s(self, cohort: Cohort, requests: Sequence[DecodingRequest]) -> float:
        """Seconds of joining and the first step, in which some cohorts encode joining sentences."""
        began = self.clock()
        cohort.join(requests)
        cohort.step()
        self.finish()
        return self.clock() - began

    def _measure(self, cohort: Cohort, requests: Sequence[DecodingRequest]) -> float:
        """Measure some steps; returns the seconds of the fastest, or 0 if the sentences were finished before."""
        joined_s = self._join_s(cohort, requests)
        steps_s: list[float] = []
        # A step of some cohorts decodes several tokens, so the sentences may be finished.
        while len(steps_s) < _STEPS and cohort.num_sentences == len(requests):
            began = self.clock()
            cohort.step()
            self.finish()
            steps_s.append(self.clock() - began)
            self._row_s.append(min(steps_s) / (len(requests) * self.width))
        cohort.leave(cohort.keys)
        if not steps_s:
            return 0.0
        num_tokens = sum(len(request.source_ids) for request in requests)
        self._join_token_s.append(max(joined_s - min(steps_s), _SHORTEST_S) / num_tokens)
        return min(steps_s)


def synchronised(device: str) -> Callable[[], None]:
    """A function that waits until a device has finished its work.

    Args:
        device: The device, as torch names it.
    """
    if not device.startswith("cuda"):
        return lambda: None
    import torch

    return lambda: torch.cuda.synchronize(device)
