"""The learning rate schedule."""

from __future__ import annotations

import math


def learning_rate(step: int, *, peak: float, warmup_steps: int, cooldown_steps: int, max_steps: int) -> float:
    """Linear warm-up, inverse square root decay, and a linear cool-down to zero at the end.

    Warm-up and decay follow Vaswani et al. 2017, section 5.3, with a configured peak. The cool-down follows Hägele et
    al. 2024 (arXiv:2405.18392), who show that a short cool-down reaches the quality of a longer decay.

    Args:
        step: Number of updates before this one, from 0.
        peak: The rate at the end of the warm-up.
        warmup_steps: Updates of the warm-up.
        cooldown_steps: Updates of the cool-down; 0 for none.
        max_steps: Updates of the whole run.

    Returns:
        The rate for this update; above 0 for every step below ``max_steps``.
    """
    rate = peak * min((step + 1) / warmup_steps, math.sqrt(warmup_steps / (step + 1)))
    if cooldown_steps:
        rate *= min(1.0, (max_steps - step) / cooldown_steps)
    return rate
