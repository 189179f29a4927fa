"""The learning rate of every update."""

from __future__ import annotations

import math


def learning_rate(step: int, *, peak: float, warmup_steps: int, cooldown_steps: int, max_steps: int) -> float:
    """Linear warm-up, inverse square root, and a linear fall to zero at the end.

    The first two are Vaswani et al. 2017, section 5.3, with the peak named rather than derived; the cool-down is
    that of Hägele et al. 2024 (arXiv:2405.18392), who find that it gives what a longer decay would have given,
    whenever one decides to end.

    Args:
        step: Updates done before this one, from 0.
        peak: The rate at the end of the warm-up.
        warmup_steps: Updates of linear rise.
        cooldown_steps: Updates of linear fall at the end; 0 for none.
        max_steps: Updates in all.

    Returns:
        The rate for this update; above 0 for every step below ``max_steps``.
    """
    rate = peak * min((step + 1) / warmup_steps, math.sqrt(warmup_steps / (step + 1)))
    if cooldown_steps:
        rate *= min(1.0, (max_steps - step) / cooldown_steps)
    return rate
