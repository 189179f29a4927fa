"""Calibration of confidences: which share of translations is right, given what the model says about them.

Coefficients are fitted in two steps. Translations of development text, whose references say how probably they are right
(:mod:`model.training.adequacy`), show how much each feature tells. Grades of a reader, of which a few hundred are
enough, set the scale. The measures of a calibrated score are here, too: how well it finds bad translations, and whether
its numbers are true shares.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from model.errors import DataError

SURE = 0.9
"""A score from which on a reader relies on the translation."""

UNGRADED_SCALE = (0.7, 2.3)
"""Intercept and slope that turn logits fitted to references into those of a reader's grades, if there are no grades: of
the shipped translator (decision 0058). References predict grades imperfectly, so scores fitted to them are too close
to the mean."""

_RIDGE = 1.0
"""Penalty on squared coefficients of standardised features; it is small beside hundreds of sentences."""

_NUM_BINS = 10

_UNCOVERED_SHARE = 0.03
"""Share of the source words of right translations that count as uncovered."""


class Bin(NamedTuple):
    """Translations with similar scores.

    Args:
        mean_score: Mean of their scores.
        right: Share of them that is right.
        num_sentences: Number of translations.
    """

    mean_score: float
    right: float
    num_sentences: int


@dataclass(frozen=True)
class Quality:
    """How good the scores of a set of translations are.

    Args:
        num_sentences: Number of translations.
        right: Share of them that is right.
        auc: Area under the ROC curve of the score as a detector of wrong translations (:func:`roc_auc`).
        calibration_error: The expected calibration error (Guo et al. 2017, arXiv:1706.04599): the mean distance of
            score and share of the bins, weighted by their translations.
        bins: Ten bins of equal width, without empty ones.
        num_sure: Number of translations with a score of at least :data:`SURE`.
        sure_right: Share of those that is right; NaN without any.
    """

    num_sentences: int
    right: float
    auc: float
    calibration_error: float
    bins: list[Bin]
    num_sure: int
    sure_right: float


def fit(features: Sequence[Sequence[float]], right: Sequence[float]) -> tuple[float, list[float]]:
    """Logistic regression with a slight ridge penalty, by L-BFGS.

    Args:
        features: A row for each translation.
        right: The probability that each translation is right, 0 to 1.

    Returns:
        The intercept and the coefficient of each feature.

    Raises:
        DataError: All translations are right, or none is.
    """
    num_right = sum(probability >= 0.5 for probability in right)
    if num_right in (0, len(right)):
        raise DataError(
            f"{num_right} of {len(right)} translations are right. A calibration needs right and wrong ones: take more "
            "text, or another kind."
        )
    # Imported here: the help of the command needs only the constants.
    import torch

    x = torch.tensor(features, dtype=torch.float64)
    y = torch.tensor(right, dtype=torch.float64)
    mean, scale = x.mean(dim=0), x.std(dim=0)
    scale[scale == 0] = 1.0
    standard = (x - mean) / scale
    intercept = torch.zeros(1, dtype=torch.float64, requires_grad=True)
    weights = torch.zeros(x.size(1), dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.LBFGS([intercept, weights], max_iter=500, line_search_fn="strong_wolfe")

    def loss() -> float:
        optimiser.zero_grad()
        logits = intercept + standard @ weights
        total = torch.nn.functional.binary_cross_entropy_with_logits(logits, y, reduction="sum")
        total = (total + 0.5 * _RIDGE * weights.square().sum()) / len(y)
        total.backward()
        return total.item()

    optimiser.step(loss)
    own = weights.detach() / scale
    return float(intercept.detach() - own @ mean), own.tolist()


def coverage_bound(gains: Sequence[float]) -> float:
    """The bound under which a source word counts as uncovered: 3 % of the words of right translations do.

    Args:
        gains: Of the source words of right translations (:func:`model.translation.confidence.word_gains`).
    """
    return float(np.quantile(np.asarray(gains), _UNCOVERED_SHARE))


def roc_auc(scores: Sequence[float], positive: Sequence[bool]) -> float:
    """Area under the ROC curve: the probability that a positive example has a higher score than a negative one.

    Args:
        scores: A score for each example; equal ones count one half.
        positive: Which examples are positive: the right translations. The area is the same with the wrong ones as
            positive examples and the scores negated.

    Returns:
        The area, 0 to 1; NaN if all examples are positive or none is.
    """
    _, inverse, counts = np.unique(np.asarray(scores), return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[inverse]  # equal scores share their mean rank
    is_positive = np.asarray(positive, dtype=bool)
    num_positive = int(is_positive.sum())
    num_pairs = num_positive * (len(is_positive) - num_positive)
    if not num_pairs:
        return float("nan")
    return float((ranks[is_positive].sum() - num_positive * (num_positive + 1) / 2) / num_pairs)


def measure(scores: Sequence[float], right: Sequence[bool]) -> Quality:
    """Compare the scores of translations with what they estimate.

    Args:
        scores: The score of each translation, 0 to 1.
        right: Whether it is right.
    """
    values, labels = np.asarray(scores, dtype=float), np.asarray(right, dtype=float)
    index = np.minimum((values * _NUM_BINS).astype(int), _NUM_BINS - 1)
    bins = [
        Bin(float(values[chosen].mean()), float(labels[chosen].mean()), int(chosen.sum()))
        for chosen in (index == number for number in range(_NUM_BINS))
        if chosen.any()
    ]
    error = sum(bin.num_sentences * abs(bin.mean_score - bin.right) for bin in bins) / max(1, len(values))
    sure = labels[values >= SURE]
    sure_right = float(sure.mean()) if len(sure) else float("nan")
    return Quality(len(values), float(labels.mean()), roc_auc(scores, right), error, bins, len(sure), sure_right)
