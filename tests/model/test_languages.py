from __future__ import annotations

import pytest

from model.languages import LanguagePairs, closest, merge, plain_code, standard_code

PAIRS = LanguagePairs((("en", "de"), ("de", "en"), ("fr", "en")))
GROUP = LanguagePairs((), ("eng_Latn", "deu_Latn", "fra_Latn"))


@pytest.mark.parametrize(
    ("code", "standard"),
    [
        ("EN", "en"),
        (" en ", "en"),
        ("en_us", "en-US"),
        ("eng", "en"),
        ("eng_Latn", "en"),
        ("zho_Hant", "zh-Hant"),
        ("iw", "he"),
        ("no language", "no language"),
        ("", ""),
    ],
)
def test_a_code_has_one_standard_spelling(code: str, standard: str) -> None:
    assert standard_code(code) == standard


@pytest.mark.parametrize(
    ("code", "supported", "meant"),
    [
        ("EN", ("de", "en"), "en"),
        ("en-US", ("de", "en"), "en"),
        ("eng", ("de", "en"), "en"),
        ("en", ("deu_Latn", "eng_Latn"), "eng_Latn"),
        ("no", ("nb", "sv"), "nb"),
        ("pt", ("pt-BR", "pt"), "pt"),
        ("zh-TW", ("zh-Hans", "zh-Hant"), "zh-Hant"),
        ("nl", ("de", "en"), None),
        ("xx", ("de", "en"), None),
        ("english", ("de", "en"), None),
        ("en", (), None),
    ],
)
def test_a_code_matches_the_closest_supported_one(code: str, supported: tuple[str, ...], meant: str | None) -> None:
    assert closest(code, supported) == meant


@pytest.mark.parametrize(
    ("code", "plain"),
    [("zho_Hant", "zh"), ("arb_Arab", "ar"), ("pt-BR", "pt"), ("EN", "en"), ("no language", "no language")],
)
def test_the_language_alone_has_neither_script_nor_region(code: str, plain: str) -> None:
    assert plain_code(code) == plain


def test_pairs_are_found_by_either_language() -> None:
    assert PAIRS.find("EN", "de-AT") == [("en", "de")]
    assert PAIRS.find("fr", None) == [("fr", "en")]
    assert PAIRS.find(None, "en") == [("de", "en"), ("fr", "en")]
    assert PAIRS.find(None, None) == list(PAIRS.pairs)
    assert PAIRS.find("en", "fr") == []
    assert PAIRS.find("it", None) == []


def test_any_language_of_a_group_is_translated_into_any_other() -> None:
    assert GROUP.find("en", "de") == [("eng_Latn", "deu_Latn")]
    assert GROUP.find("en", "en") == []
    assert len(GROUP.find("en", None)) == 2
    assert len(GROUP.find(None, None)) == 6
    assert ("eng_Latn", "fra_Latn") in GROUP
    assert ("eng_Latn", "eng_Latn") not in GROUP
    assert ("eng_Latn", "ita_Latn") not in GROUP
    assert "eng_Latn" not in GROUP


def test_a_pair_both_listed_and_in_a_group_is_found_once() -> None:
    both = LanguagePairs((("en", "de"),), ("en", "de"))
    assert both.find(None, None) == [("en", "de"), ("de", "en")]


def test_the_example_is_a_pair_of_either_kind() -> None:
    assert all(pairs.example in pairs for pairs in (PAIRS, GROUP))


def test_languages_are_listed_once_in_order() -> None:
    pairs = LanguagePairs((("en", "de"), ("fr", "en")), ("de", "it"))
    assert pairs.sources == ("en", "fr", "de", "it")
    assert pairs.targets == ("de", "en", "it")
    assert pairs.languages == ("en", "fr", "de", "it")


def test_pairs_are_described_in_one_line() -> None:
    assert PAIRS.describe() == "en-de, de-en, fr-en"
    assert PAIRS.describe(at_most=1) == "en-de, 2 more"
    assert GROUP.describe(at_most=2) == "any of eng_Latn, deu_Latn and 1 more to any other of them"
    assert LanguagePairs().describe() == "none"


def test_merged_pairs_are_unique() -> None:
    other = LanguagePairs((("fr", "en"), ("en", "fr")))
    assert merge([PAIRS, other]) == LanguagePairs((*PAIRS.pairs, ("en", "fr")))
    assert merge([]) == LanguagePairs()


def test_merging_two_groups_makes_no_pairs_between_them() -> None:
    merged = merge([LanguagePairs((), ("en", "de", "fr")), LanguagePairs((("en", "it"), ("en", "de")), ("es", "pt"))])
    assert merged.any_to_any == ("en", "de", "fr")
    assert set(merged.pairs) == {("en", "it"), ("es", "pt"), ("pt", "es")}
    assert ("en", "es") not in merged
    assert ("en", "de") in merged
