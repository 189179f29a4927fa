"""Fitting confidences and measuring them: known coefficients, brute-force counts, arithmetic by hand."""

from __future__ import annotations

import itertools
import math
import random

import numpy as np
import pytest

from model.errors import DataError
from model.training.calibration import fit, measure, roc_auc


def test_known_coefficients_are_recovered() -> None:
    rng = np.random.default_rng(1)
    features = rng.normal((3.0, -50.0), (1.0, 20.0), size=(20_000, 2))
    logits = -4.0 + 1.5 * features[:, 0] - 0.02 * features[:, 1]
    adequate = rng.random(len(features)) < 1 / (1 + np.exp(-logits))
    intercept, weights = fit(features.tolist(), adequate.tolist())
    assert intercept == pytest.approx(-4.0, abs=0.2)
    assert weights == [pytest.approx(1.5, abs=0.06), pytest.approx(-0.02, abs=0.002)]


def test_separable_examples_and_constant_features_have_a_finite_fit() -> None:
    intercept, weights = fit([[float(value), 7.0] for value in range(20)], [value >= 10 for value in range(20)])
    assert math.isfinite(intercept) and all(map(math.isfinite, weights))
    assert weights[0] > 0
    assert abs(intercept + 9.5 * weights[0] + 7.0 * weights[1]) < 0.1, "the bound lies between both groups"


@pytest.mark.parametrize("adequate", [True, False])
def test_examples_of_one_kind_are_refused(adequate: bool) -> None:
    with pytest.raises(DataError, match=f"{3 * adequate} of 3 translations"):
        fit([[1.0], [2.0], [3.0]], [adequate] * 3)


def test_the_area_under_the_curve_is_the_share_of_ordered_pairs() -> None:
    rng = random.Random(1)
    for _ in range(20):
        scores = [rng.randrange(6) / 5 for _ in range(30)]  # with many ties
        positive = [rng.random() < 0.3 for _ in scores] + [True, False]
        scores += [0.4, 0.4]
        pairs = [
            (first, other)
            for (first, yes), (other, no) in itertools.product(zip(scores, positive, strict=True), repeat=2)
            if yes and not no
        ]
        expected = sum((first > other) + 0.5 * (first == other) for first, other in pairs) / len(pairs)
        assert roc_auc(scores, positive) == pytest.approx(expected)
    assert math.isnan(roc_auc([0.1, 0.2], [True, True]))


def test_scores_are_compared_with_shares_in_bins_of_equal_width() -> None:
    scores = [0.0, 0.05, 0.55, 0.55, 0.58, 0.52, 1.0]
    result = measure(scores, [False, True, True, True, True, False, True])
    assert [bin.num_sentences for bin in result.bins] == [2, 4, 1]
    assert [bin.mean_score for bin in result.bins] == pytest.approx([0.025, 0.55, 1.0])
    assert [bin.adequate for bin in result.bins] == pytest.approx([0.5, 0.75, 1.0])
    assert result.calibration_error == pytest.approx((2 * 0.475 + 4 * 0.2 + 0.0) / 7)
    assert result.num_sentences == 7
    assert result.adequate == pytest.approx(5 / 7)
    assert result.auc == roc_auc(scores, [False, True, True, True, True, False, True])
