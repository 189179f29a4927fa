"""The check that CUDA graphs compute the same as launched steps, also after memory around them has changed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from model.decoding.options import DecodingOptions
from model.decoding.sentence import DecodingRequest
from model.decoding.slots.cohort import SlotCohort
from model.decoding.slots.model import SlotModel
from model.process.gpus import is_lost
from model.process.memory import available_bytes

logger = logging.getLogger("model.graphs")

_NUM_STEPS = 8
"""Steps of each sentence. All tokens but the last are given, so that rounding cannot change the inputs."""

_TOLERANCE = 0.02
"""The largest difference, as a share of the largest value. Graphs of the same kernels differ by nothing."""

_ALIKE = 0.75
"""The smallest share of chosen tokens that are equal: of two close tokens, rounding may choose either."""

_BLOCK = 2**22
_MAX_BLOCKS = 32
"""Free memory is filled with at most this number of tensors, each with ``_BLOCK`` float32 values."""

MakeRequest = Callable[[int, DecodingOptions], DecodingRequest]
"""Makes a request for a sentence of a number of tokens."""


class _Load(NamedTuple):
    """Sentences that decode together: their number, tokens and rows, and whether their steps are full."""

    number: int
    length: int
    width: int
    full: bool


def check_graphs(model: SlotModel, make_request: MakeRequest, widths: Sequence[int]) -> None:
    """Compare captured steps with launched ones; if they differ or fail, switch the model's graphs off and log why.

    Steps of several sizes are captured and replayed. Then some are dropped, freed memory is released, free memory is
    filled, and the steps are replayed again. Other sentences are encoded between the steps, on the same stream.

    Args:
        model: The model; none of its cohorts is in use.
        make_request: Makes the sentences.
        widths: Beam widths.

    Raises:
        Exception: The model does not decode without graphs either, or the GPU has failed for good.
    """
    if not model.graphs.are_on:
        return
    loads = [
        _Load(number, length, width, full)
        for width in widths
        # No load fits into the slots of another.
        for number, length, full in ((2, 14, True), (1, 30, False), (8, 60, False))
    ]
    model.graphs.why_off = "they are being checked"
    try:
        expected = {load: _decode(model, load, make_request) for load in loads}
    finally:
        model.graphs.why_off = None
    try:
        difference = _difference(model, expected, make_request)
    except Exception as error:
        if is_lost(error):
            logger.critical("the GPU has failed in the check of CUDA graphs; VERSO_GRAPHS=off does without them")
            raise
        difference = f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
    if difference is not None:
        model.graphs.why_off = f"the check at the start failed: {difference}"
        fields = {"reason": difference}
        logger.error("CUDA graphs are off: steps are launched without them, which is slower", extra={"fields": fields})
    model.drop()


def _difference(model: SlotModel, expected: dict[_Load, list[Tensor]], make_request: MakeRequest) -> str | None:
    """The first difference that is detected, in words; None if there is none."""
    for load, tensors in expected.items():
        if _differ(_decode(model, load, make_request), tensors):
            return f"captured steps differ from launched ones ({load})"
    model.drop_idle(model.num_idle_bytes // 2)
    with model.running():
        torch.cuda.empty_cache()
        number = min(_MAX_BLOCKS, available_bytes(str(model.device)) // (2 * 4 * _BLOCK))
        filling = [torch.full((_BLOCK,), torch.nan, device=model.device) for _ in range(number)]
    for load, tensors in reversed(expected.items()):
        if _differ(_decode(model, load, make_request), tensors):
            return f"steps differ after others were dropped ({load})"
    with model.running():
        if not all(bool(block.isnan().all()) for block in filling):
            return "steps write to memory that is not theirs"
    return f"{model.graphs.num_failures} captures failed" if model.graphs.num_failures else None


def _decode(model: SlotModel, load: _Load, make_request: MakeRequest) -> list[Tensor]:
    """Copies of the results of some steps: keys and values, sums of log-probabilities, and the tokens chosen."""
    options = DecodingOptions(
        "greedy" if load.width == 1 else "beam",
        beam_size=load.width,
        min_new_tokens=_NUM_STEPS,
        max_new_tokens=_NUM_STEPS,
        no_repeat_ngram_size=_NUM_STEPS if load.full else 0,
    )
    requests = [replace(make_request(load.length - key, options), key=key) for key in range(load.number)]
    end_id = model.vocabulary.end_id
    requests = [
        replace(request, prefix_ids=(end_id,) * max(0, _NUM_STEPS - 1 - len(request.forced_ids)))
        for request in requests
    ]
    cohort = SlotCohort(model, load.width)
    cohort.join(requests)
    slots = cohort.tensors
    beside = []
    for _ in range(_NUM_STEPS // model.steps_per_call):
        cohort.step()
        with model.running():
            beside.append(model.encode([requests[-1].source_ids]).cross_cache)
    with model.running():
        computed = (slots.target_cache, slots.cross_cache, slots.sums, *beside, slots.history[:, 0, _NUM_STEPS])
        copies = [tensor.to("cpu", copy=True) for tensor in computed]
    cohort.leave(cohort.keys)
    return copies


def _differ(computed: Sequence[Tensor], expected: Sequence[Tensor]) -> bool:
    *values, tokens = zip(computed, expected, strict=True)
    for pair in values:
        left, right = (tensor.float().nan_to_num(nan=torch.inf, neginf=0.0) for tensor in pair)
        if not (left - right).abs().max() <= _TOLERANCE * right.abs().max():
            return True
    return bool((tokens[0] == tokens[1]).float().mean() < _ALIKE)
