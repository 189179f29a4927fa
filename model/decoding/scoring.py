"""How hypotheses are compared and when a beam search ends: the rules of four translation toolkits, as data.

========  ===========================================  ===========================================================
rule      score of a hypothesis of L tokens            the search of K rows ends when
========  ===========================================  ===========================================================
hf        ``s / L ** a``                               K ended, and no running one is ahead of the worst of them
ct2       ``s / L ** a``                               K ended; with ``a = 0``: the best ended, and enough of them did
marian    ``s / L ** a``                               all rows ended: each one that does narrows the beam by one
wu        ``s / ((5 + L) / 6) ** a``                   as for hf
========  ===========================================  ===========================================================

``s`` is the sum of log-probabilities, the closing token's included; forced tokens and those of a prefix add 0. L counts
all of these tokens. ``a`` is the length penalty. hf is what transformers 4.57 computes, ct2 CTranslate2 4.8,
marian marian-decoder's ``--normalize a``, wu is Wu et al. 2016 (arXiv:1609.08144), equation 14, without coverage.

:data:`RULES` is the only place where a rule's name means anything. Each back-end reads the properties of a sentence's
:class:`ScoringRule`, so a rule made of these properties is one more row of the table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from model.decoding.options import Scoring


@dataclass(frozen=True)
class ScoringRule:
    """How the hypotheses of a sentence are compared, and when its search ends.

    All rules keep the K best hypotheses that ended, the most that can be returned.

    Args:
        length_penalty: The exponent ``a``.
        length_offset: Added to the length before it is normalised.
        length_scale: Divides the length after that.
        narrows: Each hypothesis that ends removes a row from the beam, which considers as many candidates as it has
            rows left.
        stops_when_full: The search ends when K hypotheses ended. Otherwise it continues while a running hypothesis is
            ahead of the worst of them.
        leader_must_end: The search ends as soon as the requested number of hypotheses ended, if the best candidate of
            any step ended; K hypotheses are not needed.
        force_end: The last position of a hypothesis that is cut is a closing token with log-probability 0.
    """

    length_penalty: float
    length_offset: float = 0.0
    length_scale: float = 1.0
    narrows: bool = False
    stops_when_full: bool = False
    leader_must_end: bool = False
    force_end: bool = False

    def score(self, sum_log_probs: float, num_tokens: int) -> float:
        """The score of a hypothesis.

        Args:
            sum_log_probs: Of all its tokens.
            num_tokens: Those tokens, the closing one, forced ones and a prefix included; at least 1.
        """
        length = (self.length_offset + num_tokens) / self.length_scale
        return float(sum_log_probs / length**self.length_penalty)


@dataclass(frozen=True)
class RuleFamily:
    """The common properties of all sentences under a rule of one name.

    Args:
        length_offset: As in :class:`ScoringRule`.
        length_scale: As in :class:`ScoringRule`.
        narrows: As in :class:`ScoringRule`.
        stops_when_full: As in :class:`ScoringRule`. If it is False, ``early_stopping`` sets it.
        leader_must_end_unnormalised: Whether a length penalty of 0 sets :attr:`ScoringRule.leader_must_end`.
        can_force_end: Whether a model's ``force_end`` has any effect.
    """

    length_offset: float = 0.0
    length_scale: float = 1.0
    narrows: bool = False
    stops_when_full: bool = False
    leader_must_end_unnormalised: bool = False
    can_force_end: bool = False

    def rule(self, length_penalty: float, *, early_stopping: bool = False, force_end: bool = False) -> ScoringRule:
        """The rule for one sentence.

        Args:
            length_penalty: The exponent ``a``.
            early_stopping: Whether the search ends when K hypotheses ended.
            force_end: Whether the model forces the end of a hypothesis that is cut.
        """
        return ScoringRule(
            length_penalty=length_penalty,
            length_offset=self.length_offset,
            length_scale=self.length_scale,
            narrows=self.narrows,
            stops_when_full=self.stops_when_full or early_stopping,
            leader_must_end=self.leader_must_end_unnormalised and length_penalty == 0.0,
            force_end=self.can_force_end and force_end,
        )


RULES: Mapping[Scoring, RuleFamily] = MappingProxyType(
    {
        "hf": RuleFamily(can_force_end=True),
        "ct2": RuleFamily(stops_when_full=True, leader_must_end_unnormalised=True),
        "marian": RuleFamily(narrows=True, stops_when_full=True),
        "wu": RuleFamily(length_offset=5.0, length_scale=6.0),
    }
)
"""The rules by name, one for each of :data:`model.decoding.options.Scoring`."""
