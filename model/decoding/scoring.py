"""What a hypothesis is worth."""

from __future__ import annotations


def hypothesis_score(sum_log_probs: float, num_tokens: int, length_penalty: float) -> float:
    """Sum of log-probabilities divided by ``num_tokens ** length_penalty``.

    The plain power of Murray & Chiang 2018 (arXiv:1808.10006, section 3), as Hugging Face and CTranslate2 compute
    it: 0 leaves the sum, 1 gives the mean.

    Args:
        sum_log_probs: Of all tokens, the closing one included where there is one.
        num_tokens: Those tokens, at least 1.
        length_penalty: The exponent.
    """
    return float(sum_log_probs / num_tokens**length_penalty)
