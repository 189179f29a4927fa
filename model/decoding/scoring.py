"""What a hypothesis is worth, and when a beam may stop: the rules of four families of translators.

========  ===========================================  ===========================================================
rule      worth of a hypothesis of L tokens            the search of K rows ends when
========  ===========================================  ===========================================================
hf        ``s / L ** a``                               K ended, and no running one is ahead of the worst of them
ct2       ``s / L ** a``                               K ended; with ``a = 0``: the best ended, and enough of them did
marian    ``s / L ** a``                               all rows ended: each one that does narrows the beam by one
wu        ``s / ((5 + L) / 6) ** a``                   as hf
========  ===========================================  ===========================================================

``s`` is the sum of log-probabilities, the closing token's included; L counts that token, and a language token that
was forced, too; ``a`` is the length penalty. hf is what transformers 4.57 computes, ct2 CTranslate2 4.8, marian
marian-decoder's ``--normalize a``, wu is Wu et al. 2016 (arXiv:1609.08144), equation 14, without coverage.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

from model.decoding.options import Scoring


@dataclass(frozen=True)
class ScoringRule:
    """How hypotheses of one sentence are compared.

    Args:
        kind: Whose rule.
        length_penalty: The exponent ``a``.
        early_stopping: hf and wu only: K hypotheses that ended are enough, whatever still runs.
        force_end: Whether a hypothesis that is cut gives up its last place to a closing token that costs nothing.
    """

    kind: Scoring
    length_penalty: float
    early_stopping: bool
    force_end: bool = False

    def score(self, sum_log_probs: float, num_tokens: int) -> float:
        """What a hypothesis is worth.

        Args:
            sum_log_probs: Of all its tokens.
            num_tokens: Those tokens, the closing one and forced ones included; at least 1.
        """
        if self.kind == "wu":
            return float(sum_log_probs / ((5.0 + num_tokens) / 6.0) ** self.length_penalty)
        return float(sum_log_probs / num_tokens**self.length_penalty)


def rule_number(kind: Scoring) -> int:
    """What stands for a rule where there are numbers only; search.h has the same."""
    return get_args(Scoring).index(kind)
