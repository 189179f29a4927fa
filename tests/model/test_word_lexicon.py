"""Word links: words that always come together are found, in both orders, and kept with the run."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from model.errors import ArtifactError
from model.training.word_lexicon import WordLexicon

WORDS = {"house": "Haus", "tree": "Baum", "dog": "Hund", "green": "grün", "small": "klein", "sees": "sieht"}
PAIRS = [(f"{a} {b} {c}.", f"{WORDS[c]} {WORDS[a]} {WORDS[b]}.") for a, b, c in itertools.permutations(WORDS, 3)]


@pytest.fixture(scope="module")
def lexicon() -> WordLexicon:
    return WordLexicon.learn(PAIRS)


def linked(lexicon: WordLexicon, first: str, second: str) -> dict[str, str]:
    return {first[slice(*link.first)]: second[slice(*link.second)] for link in lexicon.links(first, second)}


def test_words_are_linked_whatever_their_order(lexicon: WordLexicon) -> None:
    assert linked(lexicon, "The dog sees a tree", "Baum sieht Hund") == {"dog": "Hund", "sees": "sieht", "tree": "Baum"}


def test_every_word_has_one_partner_at_most(lexicon: WordLexicon) -> None:
    links = lexicon.links("dog dog tree", "Hund Baum Baum Hund")
    assert [(link.first_index, link.second_index) for link in links] == [(0, 0), (2, 2)]


def test_names_and_numbers_are_linked_with_themselves(lexicon: WordLexicon) -> None:
    assert linked(lexicon, "Balsora has 17 trees", "17 Bäume in Balsora") == {"Balsora": "Balsora", "17": "17"}


def test_a_link_can_be_read_from_the_other_side(lexicon: WordLexicon) -> None:
    (link,) = lexicon.links("the dog", "Hund")
    assert link.swapped().swapped() == link
    assert (link.swapped().first, link.swapped().second_index) == ((0, 4), 1)


def test_sentences_without_words_have_no_links(lexicon: WordLexicon) -> None:
    assert lexicon.links("", "Hund") == lexicon.links("dog", "...") == []


def test_a_lexicon_is_learned_once_and_then_read(tmp_path: Path) -> None:
    path = tmp_path / "lexicon.json.gz"
    learned = WordLexicon.load_or_learn(path, PAIRS)
    stored = WordLexicon.load_or_learn(path, [])
    assert (stored.forward, stored.backward, stored.frequent) == (learned.forward, learned.backward, learned.frequent)


def test_a_damaged_lexicon_is_named(tmp_path: Path) -> None:
    path = tmp_path / "lexicon.json.gz"
    path.write_bytes(b"no gzip")
    with pytest.raises(ArtifactError, match=r"lexicon\.json\.gz cannot be read: Not a gzipped file"):
        WordLexicon.load_or_learn(path, PAIRS)
    with pytest.raises(ArtifactError, match=r"missing\.json\.gz cannot be read: .*No such file"):
        WordLexicon.load(tmp_path / "missing.json.gz")
