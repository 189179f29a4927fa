"""Perturbed inputs and the counts of their translations."""

from __future__ import annotations

import pytest

from model.perturbations import PERTURBATIONS, PerturbedInput, count_kept, make_perturbed_inputs

PAIRS = [
    ("Tom likes red houses, doesn't he?", "Tom mag rote Häuser, nicht wahr?"),
    ("My old dog sleeps all day.", "Mein alter Hund schläft den ganzen Tag."),
    ("Mary and Tom saw it.", "Tom und Mary sahen es."),
]


def of_kind(name: str, number: int = 60) -> list[PerturbedInput]:
    return [one for one in make_perturbed_inputs(PAIRS, number, seed=3) if one.perturbation.name == name]


def test_every_kind_has_the_requested_number() -> None:
    found = make_perturbed_inputs(PAIRS, 103)
    assert len(found) == 103
    counts = {way.name: sum(one.perturbation is way for one in found) for way in PERTURBATIONS}
    assert set(counts.values()) == {10, 11}


def test_inputs_are_reproducible_by_seed() -> None:
    assert make_perturbed_inputs(PAIRS, 50) == make_perturbed_inputs(PAIRS, 50)
    assert make_perturbed_inputs(PAIRS, 50) != make_perturbed_inputs(PAIRS, 50, seed=2)


def test_an_empty_list_of_pairs_is_refused() -> None:
    with pytest.raises(ValueError, match="no sentences"):
        make_perturbed_inputs([], 10)


def test_references_stay_translations() -> None:
    by_target = {target: source for source, target in PAIRS}
    for one in of_kind("upper case"):
        assert one.reference is not None
        assert one.text == by_target[one.reference].upper()
    assert all(one.text.islower() for one in of_kind("lower case"))
    for one in of_kind("no punctuation"):
        assert not set(one.text) & set(".,?")
        assert not set(one.reference or ".") & set(".,?")


def test_other_names_are_on_both_sides() -> None:
    found = of_kind("other names")
    assert found
    for one in found:
        assert one.kept
        assert all(name in (one.reference or "") for name in one.kept)
        assert "Tom" not in one.text and "Tom" not in (one.reference or "")


@pytest.mark.parametrize(
    ("source", "target", "fits"),
    [
        ("Tom's dog sleeps.", "Toms Hund schläft.", False),
        ("Tom slept.", "Tom sah, wie Tom schlief.", False),
        ("Tom slept.", "Tom und Maria schliefen.", False),
        ("Tomorrow Tom sleeps.", "Morgen schläft Tom.", True),
    ],
)
def test_names_are_replaced_if_both_sides_have_the_same_ones(source: str, target: str, fits: bool) -> None:
    found = [one for one in make_perturbed_inputs([(source, target)], 60) if one.perturbation.name == "other names"]
    assert bool(found) == fits
    assert all("Tom " not in one.text and "Tom" not in (one.reference or "") for one in found)


def test_inputs_with_numbers_expect_them_in_the_output() -> None:
    for one in of_kind("numbers"):
        assert one.reference is None
        assert one.kept
        assert all(digits in one.text for digits in one.kept)


def test_long_inputs_are_several_sentences() -> None:
    for one in of_kind("long"):
        assert len(one.text) > 2 * min(len(source) for source, _ in PAIRS)
        assert one.text.count(".") == 1


def test_kept_words_are_counted() -> None:
    one = PerturbedInput(PERTURBATIONS[5], "It is 10:30.", None, kept=("10", "30"))
    assert count_kept(one, "Es ist 10 Uhr.") == (1, 2)
