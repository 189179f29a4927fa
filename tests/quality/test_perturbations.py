"""Perturbed inputs and the counts of their translations."""

from __future__ import annotations

import json
import re
import unicodedata
from pathlib import Path

import pytest

from benchmarks.quality.perturbations import PERTURBATIONS
from benchmarks.quality.perturbed_inputs import (
    PerturbedInput,
    count_kept,
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
    return [one for one in make_perturbed_inputs(PAIRS, number, seed=3) if one.perturbation.name == name]


def test_every_kind_has_the_requested_number() -> None:
    found = make_perturbed_inputs(PAIRS, 10 * len(PERTURBATIONS) + 3)
    counts = {way.name: sum(one.perturbation is way for one in found) for way in PERTURBATIONS}
    assert sorted(counts.values()) == [10] * (len(PERTURBATIONS) - 3) + [11] * 3


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
    found = [one for one in make_perturbed_inputs([(source, target)], 161) if one.perturbation.name == "other names"]
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
    one = PerturbedInput(PERTURBATIONS[0], "It is 10:30.", None, kept=("10", "30"))
    assert count_kept(one, "Es ist 10 Uhr.") == (1, 2)


@pytest.mark.parametrize("name", ["people", "places", "companies", "emoji", "code"])
def test_what_is_put_in_is_on_both_sides_and_expected_in_the_output(name: str) -> None:
    found = of_kind(name)
    assert found
    for one in found:
        assert one.kept
        assert all(part in one.text and part in (one.reference or "") for part in one.kept)


def test_people_take_the_place_of_a_frequent_name_or_speak() -> None:
    texts = [one.text for one in of_kind("people")]
    assert any(": My old dog sleeps all day." in text for text in texts)
    assert any(text.endswith(" likes red houses, doesn't he?") and "Tom" not in text for text in texts)
    assert any(text.startswith("Mary and ") or text.endswith(" and Tom saw it.") for text in texts)


def test_places_stand_before_the_full_stop() -> None:
    assert all(
        one.text[-2:] in (").", ")?") and (one.reference or "").endswith(one.text[-2:]) for one in of_kind("places")
    )


def test_lists_have_an_item_for_each_sentence_and_their_marks_count_on() -> None:
    sources = {source for source, _ in PAIRS}
    marks = set()
    for one in of_kind("lists", 700):
        lines = [line.split(" ", 1) for line in one.text.split("\n")]
        assert 3 <= len(lines) <= 5
        assert {text for _, text in lines} <= sources
        assert [line.split(" ", 1)[0] for line in (one.reference or "").split("\n")] == [mark for mark, _ in lines]
        marks.add(tuple(mark for mark, _ in lines)[:3])
    assert marks == {("-",) * 3, ("*",) * 3, ("•",) * 3, ("1.", "2.", "3."), ("a)", "b)", "c)")}


def test_headings_have_capitals_and_no_full_stop() -> None:
    for one in of_kind("headings"):
        assert all(word[0].isupper() for word in one.text.split())
        assert one.text[-1] not in ".!?"
        assert one.reference and one.reference[-1] not in ".!?"


def test_single_words_are_words_of_the_sentences() -> None:
    words = {word.strip(",.?") for source, _ in PAIRS for word in source.split()}
    assert {one.text for one in of_kind("single words")} <= words | {"doesn"}


def test_long_sentences_have_about_a_hundred_tokens() -> None:
    for one in of_kind("100 tokens"):
        assert 80 < len(one.text.replace(",", " ,").split()) < 130
        assert one.text.count(".") == 1


def test_a_wrong_language_is_that_of_the_translation() -> None:
    targets = {target for _, target in PAIRS}
    assert all(one.text in targets and one.reference is None for one in of_kind("wrong language"))


def test_mixed_languages_end_alike_on_both_sides() -> None:
    ends = tuple(target for _, target in PAIRS)
    for one in of_kind("mixed languages"):
        assert one.reference is not None
        assert any(
            one.text.endswith(end.rstrip(".?") + ".") and one.reference.endswith(end[-8:-1] + ".") for end in ends
        )
        assert one.text != one.reference


def test_repeated_marks_replace_the_end_on_both_sides() -> None:
    for one in of_kind("repeated marks"):
        assert one.reference is not None
        assert one.text[-5:] == one.reference[-5:]


def test_every_unicode_block_occurs_in_the_default_number_of_inputs() -> None:
    inputs = [one for one in make_perturbed_inputs(PAIRS, 5000) if one.perturbation.name == "every script"]
    used = {character for one in inputs for word in one.kept for character in word}
    blocks = unicode_blocks()
    assert len(blocks) > 300
    assert all(not used.isdisjoint(block) for block in blocks)
    assert all(part in one.text.split() for one in inputs for part in one.kept)
    assert "\ufffd" not in used


def test_blocks_hold_assigned_characters_each_once() -> None:
    characters = "".join(unicode_blocks())
    assert len(set(characters)) == len(characters)
    assert {"a", "ß", "ы", "字", "한", "ꙮ", "🙂"} <= set(characters)
    assert {"Cn", "Cc", "Co", "Cs", "Zs"}.isdisjoint(map(unicodedata.category, characters))


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
    asked = ["--model", str(toy_bundle), "--device", "cpu", "--test", str(tmp_path / "train")]
    out = tmp_path / "stress.json"
    assert main([*asked, "--pair", "en-de", "--number", "69", "--show", "1", "--json", str(out)]) == 0
    rows = {row["kind"]: row for row in json.loads(out.read_text())["en-de"]}
    assert rows["all"]["inputs"] == sum(row["inputs"] for name, row in rows.items() if name != "all")
    assert rows["upper case"]["bleu"] is not None
    assert rows["fragments"]["bleu"] is None
    assert 0 <= rows["numbers"]["kept"] <= rows["numbers"]["put_in"]
    assert rows["emoji"]["kept"] == rows["emoji"]["put_in"]
    assert rows["all"]["replacement_characters"] == rows["all"]["invented_names"] == 0
    assert re.search(rf"\| all +\| +{rows['all']['inputs']} \|", capsys.readouterr().out)
    assert main([*asked, "--number", "5"]) == 1
    assert "--number is 5; there are 23 kinds" in capsys.readouterr().err
    assert main([*asked, "--pair", "en-fr"]) == 1
    assert "--pair is 'en-fr'" in capsys.readouterr().err
