"""Fitting confidences and measuring them: known coefficients, brute-force counts, arithmetic by hand."""

from __future__ import annotations

import itertools
import math
import random

import numpy as np
import pytest

from model.errors import DataError
from model.training.adequacy import probabilities_right
from model.training.calibration import fit, measure, roc_auc


def test_known_coefficients_are_recovered() -> None:
    rng = np.random.default_rng(1)
    features = rng.normal((3.0, -50.0), (1.0, 20.0), size=(20_000, 2))
    logits = -4.0 + 1.5 * features[:, 0] - 0.02 * features[:, 1]
    right = rng.random(len(features)) < 1 / (1 + np.exp(-logits))
    intercept, weights = fit(features.tolist(), right.tolist())
    assert intercept == pytest.approx(-4.0, abs=0.2)
    assert weights == [pytest.approx(1.5, abs=0.06), pytest.approx(-0.02, abs=0.002)]


def test_separable_examples_and_constant_features_have_a_finite_fit() -> None:
    intercept, weights = fit([[float(value), 7.0] for value in range(20)], [value >= 10 for value in range(20)])
    assert math.isfinite(intercept) and all(map(math.isfinite, weights))
    assert weights[0] > 0
    assert abs(intercept + 9.5 * weights[0] + 7.0 * weights[1]) < 0.1, "the bound lies between both groups"


def test_probabilities_are_fitted_like_as_many_examples() -> None:
    features = [[value / 10] for value in range(40)]
    shares = [1 / (1 + math.exp(-(row[0] - 2.0))) for row in features]
    counts = [round(1000 * share) for share in shares]
    one_by_one = [number < count for count in counts for number in range(1000)]
    intercept, (weight,) = fit([row for row in features for _ in range(1000)], one_by_one)
    assert [intercept, weight] == pytest.approx([-2.0, 1.0], abs=0.02)
    intercept, (weight,) = fit(features * 50, shares * 50)
    assert [intercept, weight] == pytest.approx([-2.0, 1.0], abs=0.02)


@pytest.mark.parametrize("right", [0.6, 0.4])
def test_examples_of_one_kind_are_refused(right: float) -> None:
    with pytest.raises(DataError, match=f"{3 * (right > 0.5)} of 3 translations"):
        fit([[1.0], [2.0], [3.0]], [right] * 3)


def test_the_probability_of_being_right_rises_with_similarity_and_falls_with_length() -> None:
    reference = "Das Haus ist alt."
    same, similar, other = probabilities_right([reference, "Das Haus war alt.", "Tom lacht."], [reference] * 3)
    assert other < 0.2 < similar < same
    assert same > 0.9
    long = f"{reference} " * 8
    (long_similar,) = probabilities_right([long.replace("alt", "schön", 1)], [long])
    assert long_similar < similar, "one wrong word is wrong, however long the text"


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
    assert [bin.right for bin in result.bins] == pytest.approx([0.5, 0.75, 1.0])
    assert result.calibration_error == pytest.approx((2 * 0.475 + 4 * 0.2 + 0.0) / 7)
    assert result.num_sentences == 7
    assert (result.num_sure, result.sure_right) == (1, 1.0)
    assert math.isnan(measure([0.5, 0.6], [True, False]).sure_right)
    assert result.right == pytest.approx(5 / 7)
    assert result.auc == roc_auc(scores, [False, True, True, True, True, False, True])
