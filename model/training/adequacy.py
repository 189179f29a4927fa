"""Whether a translation is right in meaning, estimated from a reference.

A careful reader calls a translation right if it says everything that the source says and nothing else; small slips of
grammar are allowed. A reference predicts the reader's grade from the similarity of both texts (chrF2, Popović 2015) and
their length: a wrong word in a long sentence changes the similarity little, and is wrong all the same. The square root
of the similarity makes a text that shares nothing with the reference improbable, however short it is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from model.scores import sentence_chrf

_INTERCEPT, _PER_ROOT, _PER_LOG_LENGTH = 1.964, 7.323, -1.94
"""Logistic regression to the graded translations of ``data/graded`` for ``fit``. Of those for ``test``, root and length
have an area under the ROC curve of 0.86, chrF2 alone of 0.76 (``benchmarks.quality.confidence --measures``)."""


def probabilities_right(translations: Sequence[str], references: Sequence[str]) -> list[float]:
    """The probability that a careful reader calls each translation right, given a reference.

    Args:
        translations: Translations.
        references: One reference for each, in the same order.
    """
    return [
        1
        / (1 + math.exp(-_INTERCEPT - _PER_ROOT * math.sqrt(chrf / 100) - _PER_LOG_LENGTH * math.log1p(len(reference))))
        for chrf, reference in zip(sentence_chrf(translations, references), references, strict=True)
    ]
