"""Sentence pairs augmented for training: both sides stay translations of each other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from model.training.augmentation import Augmentation, join_sentences, rename

SOURCE, TARGET = "Tom doesn't know Mary, does he?", "Tom kennt Maria nicht, oder?"


def generator(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def augmented(seed: int = 0, source: str = SOURCE, target: str = TARGET, **shares: Any) -> tuple[str, str]:
    return Augmentation(**shares).apply(source, target, generator(seed))


def test_nothing_is_augmented_by_default() -> None:
    assert augmented() == (SOURCE, TARGET)


def test_upper_case_is_on_both_sides_and_lower_case_on_the_source() -> None:
    assert augmented(upper=1) == (SOURCE.upper(), TARGET.upper())
    assert augmented(lower=1) == (SOURCE.lower(), TARGET)


def test_punctuation_is_removed_from_both_sides_but_never_the_whole_text() -> None:
    assert augmented(unpunctuated=1) == ("Tom doesn't know Mary does he", "Tom kennt Maria nicht oder")
    assert augmented(unpunctuated=1, source="?!", target="!") == ("?!", "!")


def test_typos_are_few_and_in_the_source() -> None:
    results = {augmented(seed, typos=1) for seed in range(50)}
    assert {target for _, target in results} == {TARGET}
    assert len(results) > 25
    assert all(abs(len(source) - len(SOURCE)) <= 1 for source, _ in results)


def test_a_text_with_few_letters_gets_no_typos() -> None:
    assert augmented(typos=1, source="12, a", target="12, a") == ("12, a", "12, a")


def test_a_new_name_is_the_same_on_both_sides() -> None:
    for seed in range(20):
        source, target = rename(SOURCE, TARGET, generator(seed))
        first, second = source.split()[0], source.removesuffix(", does he?").split()[-1]
        assert target == f"{first} kennt {second} nicht, oder?"
        assert "Tom" not in source.split()


@pytest.mark.parametrize(
    ("source", "target"),
    [("He knows.", "Er weiß es."), ("Tom knows.", "Er weiß es."), ("Tom knows Tom.", "Tom kennt ihn.")],
    ids=["no name", "on one side", "not as often"],
)
def test_names_that_do_not_match_stay(source: str, target: str) -> None:
    assert rename(source, target, generator()) == (source, target)


def test_a_sign_is_added_at_the_same_end_of_both_sides() -> None:
    for seed in range(100):
        source, target = augmented(seed, signs=1)
        if source.startswith(SOURCE):
            assert source.removeprefix(SOURCE) == target.removeprefix(TARGET) != ""
        else:
            assert source.removesuffix(SOURCE) == target.removesuffix(TARGET) != ""


def test_shares_are_met() -> None:
    shares = {"upper": 0.2, "lower": 0.3}
    rng = generator()
    results = [Augmentation(**shares).apply(SOURCE, TARGET, rng)[0] for _ in range(4000)]
    assert results.count(SOURCE.upper()) / 4000 == pytest.approx(0.2, abs=0.03)
    assert results.count(SOURCE.lower()) / 4000 == pytest.approx(0.3, abs=0.03)


def test_joined_sentences_keep_their_order_and_form_on_both_sides() -> None:
    pairs = [("One.", "Eins."), ("Two?", "Zwei?"), ("Three!", "Drei!")]
    results = {join_sentences(pairs, generator(seed)) for seed in range(20)}
    assert results == {("One. Two? Three!", "Eins. Zwei? Drei!"), ("One, Two, Three.", "Eins, Zwei, Drei.")}
