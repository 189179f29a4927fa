"""Perturbed inputs and the counts of their translations."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from benchmarks.quality.perturbed_inputs import (
    PerturbedInput,
    has_replacement_character,
    invented_names,
    make_perturbed_inputs,
)
from benchmarks.quality.stress import main
from benchmarks.quality.texts import unicode_blocks
from tests.toy import write_toy

PAIRS = [
    ("Tom likes red houses, doesn't he?", "Tom mag rote Häuser, nicht wahr?"),
    ("My old dog sleeps all day.", "Mein alter Hund schläft den ganzen Tag."),
    ("Mary and Tom saw it.", "Tom und Mary sahen es."),
]


def of_kind(name: str, number: int = 161) -> list[PerturbedInput]:
    return [case for case in make_perturbed_inputs(PAIRS, number, seed=3) if case.perturbation.name == name]


def test_inputs_are_reproducible_by_seed() -> None:
    assert make_perturbed_inputs(PAIRS, 50) == make_perturbed_inputs(PAIRS, 50)
    assert make_perturbed_inputs(PAIRS, 50) != make_perturbed_inputs(PAIRS, 50, seed=2)


def test_references_stay_translations() -> None:
    by_target = {target: source for source, target in PAIRS}
    for case in of_kind("upper case"):
        assert case.reference is not None
        assert case.text == by_target[case.reference].upper()
    assert all(item.text.islower() for item in of_kind("lower case"))
    for item in of_kind("no punctuation"):
        assert not set(item.text) & set(".,?")
        assert not set(item.reference or ".") & set(".,?")


def test_other_names_are_on_both_sides() -> None:
    cases = of_kind("other names")
    assert cases
    for case in cases:
        assert case.kept
        assert all(name in (case.reference or "") for name in case.kept)
        assert "Tom" not in case.text and "Tom" not in (case.reference or "")


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
    results = [
        case for case in make_perturbed_inputs([(source, target)], 161) if case.perturbation.name == "other names"
    ]
    assert bool(results) == fits
    assert all("Tom " not in result.text and "Tom" not in (result.reference or "") for result in results)


def test_inputs_with_numbers_expect_them_in_the_output() -> None:
    for case in of_kind("numbers"):
        assert case.reference is None
        assert case.kept
        assert all(digits in case.text for digits in case.kept)


@pytest.mark.parametrize("name", ["people", "places", "companies", "emoji", "code"])
def test_what_is_put_in_is_on_both_sides_and_expected_in_the_output(name: str) -> None:
    cases = of_kind(name)
    assert cases
    for case in cases:
        assert case.kept
        assert all(part in case.text and part in (case.reference or "") for part in case.kept)


def test_a_wrong_language_is_that_of_the_translation() -> None:
    targets = {target for _, target in PAIRS}
    assert all(case.text in targets and case.reference is None for case in of_kind("wrong language"))


def test_every_unicode_block_occurs_in_the_default_number_of_inputs() -> None:
    inputs = [case for case in make_perturbed_inputs(PAIRS, 5000) if case.perturbation.name == "every script"]
    used = {character for input in inputs for word in input.kept for character in word}
    blocks = unicode_blocks()
    assert len(blocks) > 300
    assert all(not used.isdisjoint(block) for block in blocks)
    assert all(part in item.text.split() for item in inputs for part in item.kept)
    assert "\ufffd" not in used


def test_replacement_characters_count_if_the_source_has_none() -> None:
    assert has_replacement_character("ein \ufffd", "a 🙂")
    assert not has_replacement_character("ein \ufffd", "a \ufffd")
    assert not has_replacement_character("ein 🙂", "a 🙂")


@pytest.mark.parametrize(
    ("text", "source", "names"),
    [
        ("Tom schläft.", "He sleeps.", ["Tom"]),
        ("TOM UND MARIA SCHLAFEN.", "THE CAT AND MARY SLEEP.", ["Tom"]),
        ("Tom schläft.", "tmo sleeps.", []),
        ("Maria sah Toms Hund.", "Mary saw Tom's dog.", []),
        ("Der Tomatensaft ist kalt.", "The juice is cold.", []),
    ],
)
def test_frequent_names_that_no_word_of_the_source_resembles_are_invented(
    text: str, source: str, names: list[str]
) -> None:
    assert invented_names(text, source) == names


def test_perturbed_inputs_are_translated_and_counted(
    toy_bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_toy(tmp_path)
    calls = ["--model", str(toy_bundle), "--device", "cpu", "--test", str(tmp_path / "train")]
    out = tmp_path / "stress.json"
    assert main([*calls, "--pair", "en-de", "--number", "69", "--show", "1", "--json", str(out)]) == 0
    rows = {row["kind"]: row for row in json.loads(out.read_text())["en-de"]}
    assert rows["all"]["inputs"] == sum(row["inputs"] for name, row in rows.items() if name != "all")
    assert rows["upper case"]["bleu"] is not None
    assert rows["fragments"]["bleu"] is None
    assert 0 <= rows["numbers"]["kept"] <= rows["numbers"]["put_in"]
    assert rows["emoji"]["kept"] == rows["emoji"]["put_in"]
    assert rows["all"]["replacement_characters"] == rows["all"]["invented_names"] == 0
    assert re.search(rf"\| all +\| +{rows['all']['inputs']} \|", capsys.readouterr().out)
    assert main([*calls, "--number", "5"]) == 1
    assert "--number is 5; there are 23 kinds" in capsys.readouterr().err
    assert main([*calls, "--pair", "en-fr"]) == 1
    assert "--pair is 'en-fr'" in capsys.readouterr().err
