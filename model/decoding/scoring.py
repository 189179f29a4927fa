"""How hypotheses are compared and when a beam search ends: the rules of four families of translators, as data.

========  ===========================================  ===========================================================
rule      score of a hypothesis of L tokens            the search of K rows ends when
========  ===========================================  ===========================================================
hf        ``s / L ** a``                               K ended, and no running one is ahead of the worst of them
ct2       ``s / L ** a``                               K ended; with ``a = 0``: the best ended, and enough of them did
marian    ``s / L ** a``                               all rows ended: each one that does narrows the beam by one
wu        ``s / ((5 + L) / 6) ** a``                   as hf
========  ===========================================  ===========================================================

``s`` is the sum of log-probabilities, the closing token's included; forced tokens and those of a prefix add 0 to it. L
counts all of these tokens. ``a`` is the length penalty. hf is what transformers 4.57 computes, ct2 CTranslate2 4.8,
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
    """How hypotheses of one sentence are compared, and what ends its search.

    All rules keep the K best hypotheses that ended: more cannot be returned.

    Args:
        length_penalty: The exponent ``a``.
        length_offset: Added to the length before it is normalised.
        length_scale: Divides the length after that.
        narrows: Each hypothesis that ends takes a row from the beam, which then considers no more candidates than it
            has rows left.
        stops_when_full: K hypotheses that ended are enough, whatever still runs. Otherwise the search continues while a
            running hypothesis is ahead of the worst of them.
        leader_must_end: Instead of K hypotheses, as many as the caller wants are enough, if the best candidate of some
            step was one that ended.
        force_end: A hypothesis that is cut gives up its last position to a closing token that costs nothing.
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
    """What all sentences under a rule of one name have in common.

    Args:
        length_offset: As in :class:`ScoringRule`.
        length_scale: As in :class:`ScoringRule`.
        narrows: As in :class:`ScoringRule`.
        stops_when_full: As in :class:`ScoringRule`. Where it is False, ``early_stopping`` asks for it.
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
            early_stopping: Whether K hypotheses that ended are enough, whatever still runs.
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
