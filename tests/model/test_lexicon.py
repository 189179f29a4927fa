"""The lexicon of a model: entries, sentences that have them, the file of a bundle."""

from __future__ import annotations

import pytest

from model.errors import ArtifactError
from model.text.glossary import GlossaryTerm
from model.text.lexicon import MAX_BYTES, Lexicon

PAIR = ("de", "en")
ENTRIES = {
    PAIR: [
        GlossaryTerm("Wolkenkratzer", "skyscraper"),
        GlossaryTerm("ratifizieren", "ratify"),
        GlossaryTerm("Dunkle Energie", "dark energy"),
        GlossaryTerm("Energie", "energy"),
        GlossaryTerm("Schneider", "tailor"),
    ]
}
LEXICON = Lexicon(ENTRIES)


def words(text: str, *, occupied: tuple[tuple[int, int], ...] = ()) -> list[tuple[str, str]]:
    return [(text[slice(*span)], target) for span, target in LEXICON.find(text, PAIR, occupied)]


def test_entries_match_with_endings_and_the_longest_first() -> None:
    assert words("Fünf Wolkenkratzern fehlt Dunkle Energie.") == [
        ("Wolkenkratzern", "skyscraper"),
        ("Dunkle Energie", "dark energy"),
    ]


def test_an_entry_in_lower_case_matches_in_any_case_and_one_with_a_capital_as_written_and_in_capitals() -> None:
    assert words("Ratifizieren! RATIFIZIEREN") == [("Ratifizieren", "ratify"), ("RATIFIZIEREN", "ratify")]
    assert words("wolkenkratzer, WOLKENKRATZER") == [("WOLKENKRATZER", "skyscraper")]


def test_an_entry_matches_whole_words_only() -> None:
    assert words("Wolkenkratzerbau, Energiebedarf, Windenergie") == []


@pytest.mark.parametrize("text", ["Sehr geehrte Frau Schneider,", "der Maler Schneider", "Prof. Schneider"])
def test_a_surname_is_no_entry(text: str) -> None:
    assert words(text) == []
    assert words("Der Schneider lachte über den Schneider.") == [("Schneider", "tailor")] * 2


def test_occupied_spans_contain_no_entry() -> None:
    assert words("Dunkle Energie", occupied=((0, 6),)) == [("Energie", "energy")]


def test_a_pair_without_entries_has_none() -> None:
    assert LEXICON.find("Wolkenkratzer", ("de", "fr"), ()) == []


def test_the_file_of_a_lexicon_gives_the_same_lexicon() -> None:
    content = LEXICON.to_bytes()
    assert content.decode().splitlines()[0] == "de-en\tWolkenkratzer\tskyscraper"
    assert Lexicon.from_bytes(content).to_bytes() == content
    assert Lexicon.from_bytes(content).num_entries == {PAIR: 5}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\xff", "is not UTF-8"),
        (b"de-en\tHaus\n", "Line 1"),
        (b"de\tHaus\thouse\n", "Line 1"),
        (b"de-en\tHaus\thouse\tx\n", "Line 1"),
        (b"de-en\tHaus 3\thouse\n", "at least two letters"),
        (b"de-en\taa bb cc dd ee\thouse\n", "at most 4 words"),
        (b"de-en\tHaus\t" + b"x" * 101 + b"\n", "at most 100 characters"),
        (b"de-en\tHaus\t\n", "at least two letters"),
        (b"\n" * (MAX_BYTES + 1), "Leave entries out"),
    ],
)
def test_a_damaged_file_is_refused(content: bytes, message: str) -> None:
    with pytest.raises(ArtifactError, match=message):
        Lexicon.from_bytes(content)
