"""Pairs with placeholders, terms and forms of address: only the controls are added, and both sides agree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest

from model.errors import ConfigError
from model.text.symbols import FORMAL, INFORMAL, TERM_END, TERM_START, TERM_TARGET, Part, Symbol
from model.text.tokenizer_training import learn_tokenizer
from model.training.batches import BatchMaker
from model.training.controlled_pairs import (
    ControlledPairs,
    content_links,
    form_of_address,
    with_placeholders,
    with_terms,
)
from model.training.controls import Controls
from model.training.corpus import LoadedCorpus
from model.training.word_lexicon import WordLexicon
from tests.model.test_word_lexicon import PAIRS

LEXICON = WordLexicon.learn(PAIRS)
LEXICON.frequent = frozenset({"sees", "sieht"})


def symbols(parts: Sequence[Part]) -> list[str]:
    return [part.name for part in parts if isinstance(part, Symbol)]


def text(parts: Sequence[Part]) -> str:
    return "".join(part for part in parts if isinstance(part, str))


def test_links_of_frequent_words_carry_no_meaning() -> None:
    first, second = "dog sees tree.", "Baum sieht Hund."
    stored = content_links(LEXICON.links(first, second), LEXICON, first, second)
    assert [first[slice(*link.first)] for link in stored] == ["dog", "tree"]


@pytest.mark.parametrize("seed", range(40))
def test_both_sides_have_the_same_placeholders_once_each(seed: int) -> None:
    source, target = PAIRS[seed]
    product = with_placeholders(source, target, LEXICON.links(source, target), np.random.default_rng(seed))
    assert product is not None
    assert sorted(symbols(product[0])) == sorted(symbols(product[1]))
    assert set(Counter(symbols(product[0])).values()) == {1}
    words = [Counter(text(parts).replace(".", " ").split()) for parts in product]
    assert not words[0] - Counter(source.replace(".", " ").split()), "no word is new"
    assert not words[1] - Counter(target.replace(".", " ").split())


def test_a_sentence_whose_words_have_no_partner_gets_no_placeholder_inside() -> None:
    rng = np.random.default_rng(1)
    for _ in range(50):
        product = with_placeholders("Oh dear.", "Ach je.", [], rng)
        assert product is None or (text(product[0]).strip(), text(product[1]).strip()) == ("Oh dear.", "Ach je.")


@pytest.mark.parametrize("seed", range(20))
def test_a_term_stands_behind_its_word_and_the_rest_stays(seed: int) -> None:
    source, target = PAIRS[seed]
    links = LEXICON.links(source, target)
    product = with_terms(source, target, links, LEXICON, False, np.random.default_rng(seed))
    assert product is not None
    parts, headers = product
    rest, terms = "", []
    position = 0
    while position < len(parts):
        part = parts[position]
        if part == Symbol(TERM_START):
            word, middle, term, end = parts[position + 1 : position + 5]
            assert (middle, end) == (Symbol(TERM_TARGET), Symbol(TERM_END))
            terms.append((word, term))
            rest += str(word)
            position += 5
        else:
            rest += str(part)
            position += 1
    assert rest == source
    assert terms
    assert all(str(term).split()[0] in text(headers) for _, term in terms)


def test_a_dictionary_form_is_the_shortest_of_a_words_translations_with_its_stem() -> None:
    lexicon = WordLexicon({"houses": {"häusern": 0.4, "häuser": 0.3, "haus": 0.1, "hauptstadt": 0.1}}, {})
    links = WordLexicon({"houses": {"häusern": 0.9}}, {"häusern": {"houses": 0.9}}).links("houses", "Häusern")
    result = set()
    for seed in range(30):
        terms = with_terms("houses", "Häusern", links, lexicon, False, np.random.default_rng(seed))
        assert terms is not None
        assert terms[1] == ["Häusern"]
        result.add(terms[0][3])
    assert result == {"Häusern", "Häuser"}


def test_some_terms_are_other_words_than_the_translations_and_replace_them() -> None:
    tables = (
        {"houses": {"häusern": 0.9}, "books": {"büchern": 0.9}},
        {word: {"houses": 0.9} for word in ("häusern", "büchern", "tüchern", "hügel", "dächern", "ern", "x1ern")},
    )
    lexicon = WordLexicon(*tables, frequent=["dächern"])
    assert lexicon.words_ending_like("Häusern", is_first=False) == ["büchern", "häusern", "tüchern"]
    links = lexicon.links("in houses.", "in Häusern.")
    targets: Counter[str] = Counter()
    for seed in range(200):
        terms = with_terms("in houses.", "in Häusern.", links, lexicon, False, np.random.default_rng(seed))
        assert terms is not None
        term = str(terms[0][4])
        assert text(terms[1]) == f"in {term}."
        targets[term] += 1
    assert set(targets) == {"Häusern", "Büchern", "Tüchern"}
    assert 30 < targets["Büchern"] + targets["Tüchern"] < 80


@pytest.mark.parametrize(
    ("german", "english", "symbol"),
    [
        ("Kannst du mir helfen?", "Can you help me?", INFORMAL),
        ("Ich habe euch gesehen.", "I saw you.", INFORMAL),
        ("Deine Tür ist offen.", "Your door is open.", INFORMAL),
        ("Können Sie mir helfen?", "Can you help me?", FORMAL),
        ("Klicken Sie auf OK.", "Click OK.", FORMAL),
        ("Sie haben gewonnen.", "You have won.", FORMAL),
        ("Ihr habt gewonnen.", "You have won.", INFORMAL),
        ("Ihr seid spät, und eure Suppe ist kalt.", "You are late and your soup is cold.", INFORMAL),
        ("Ihr Hund schläft.", "Your dog is asleep.", FORMAL),
        ("Ihr neuer Hund hat Ihr Bett entdeckt.", "Your new dog has discovered your bed.", FORMAL),
        ("Sie haben gewonnen.", "They have won.", None),
        ("Sie sagte, dass du kommst.", "She said you would come.", INFORMAL),
        ("Er kommt. Sie kommt auch.", "He is coming. She is, too.", None),
        ("Hast du Ihnen geschrieben?", "Did you write to you?", None),
        ("Das Haus ist groß.", "The house is big.", None),
    ],
)
def test_the_form_of_address_is_found_or_left_open(german: str, english: str, symbol: str | None) -> None:
    assert form_of_address(german, english) == symbol


def test_shares_are_bounded() -> None:
    with pytest.raises(ConfigError, match="placeholders"):
        Controls(placeholders=1.5)
    with pytest.raises(ConfigError, match=r"come to 1\.2"):
        Controls(placeholders=0.6, glossary=0.6)


def test_batches_hold_what_is_told_in_its_share_and_the_same_again() -> None:
    tokenizer = learn_tokenizer([side for pair in PAIRS for side in pair] * 3, 348, ["de", "en"], reserve_symbols=True)
    pairs = [*PAIRS, ("You see a dog.", "Du siehst einen Hund."), ("You see a tree.", "Sie sehen einen Baum.")]
    controlled = ControlledPairs(Controls(placeholders=0.4, glossary=0.3, formality=0.5), LEXICON, ("en", "de"))

    def epoch() -> list[tuple[list[str], list[str]]]:
        maker = BatchMaker(
            [LoadedCorpus(pairs * 4)],
            ("en", "de"),
            [("en", "de"), ("de", "en")],
            tokenizer,
            batch_tokens=400,
            max_tokens=60,
            seed=1,
            controlled=controlled,
        )
        return [
            (tokenizer.pieces(source), tokenizer.target_pieces(target))
            for batch in maker.epoch(0)
            for source, target in zip(batch.source.tolist(), batch.target.tolist(), strict=True)
        ]

    rows = epoch()
    assert rows == epoch()
    placeholders = terms = 0
    for source, target in rows:
        headers = [piece for piece in source if piece.startswith("<ph")]
        assert sorted(headers) == sorted(piece for piece in target if piece.startswith("<ph"))
        placeholders += bool(headers)
        terms += TERM_START in source
        assert not {FORMAL, INFORMAL, TERM_START} & set(target)
    assert 0.3 < placeholders / len(rows) < 0.5
    assert 0.2 < terms / len(rows) < 0.4
    addressed = Counter(source[1] for source, _ in rows if source[1] in (FORMAL, INFORMAL))
    assert 0 < addressed[FORMAL] < 4 and 0 < addressed[INFORMAL] < 4, "half of the four each, in German alone"
