"""Stored glossaries: how terms are read, where they are kept, and which of them occur in a text."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import GlossaryNotFound, GlossaryPairMissing, GlossaryStoreFull, InvalidGlossary, StorageUnavailable
from app.glossaries import store as store_module
from app.glossaries import terms as terms_module
from app.glossaries.store import FILE_NAME, Dictionary, GlossaryStore, OwnerBounds
from app.glossaries.terms import merge_glossaries, parse_csv, parse_tsv, terms_in, to_tsv
from model.text.glossary import Glossary, GlossaryTerm, find_terms
from model.translation.options import MAX_TERMS


def terms(**pairs: str) -> Glossary:
    return tuple(GlossaryTerm(source, target) for source, target in pairs.items())


def en_de(**pairs: str) -> Dictionary:
    return Dictionary("en", "de", terms(**pairs))


def test_terms_are_written_as_they_are_read() -> None:
    glossary_terms = parse_tsv("house\tGebäude\r\n\n cat \tder Kater\t".removesuffix("\t"))
    assert glossary_terms == terms(house="Gebäude", cat="der Kater")
    assert parse_tsv(to_tsv(glossary_terms)) == glossary_terms


def test_csv_has_quotes_and_languages_that_are_ignored() -> None:
    text = 'a,b,en,de\n"quoted ""word""","with, comma",en,de\n\nc,d'
    assert parse_csv(text) == (
        GlossaryTerm("a", "b"),
        GlossaryTerm('quoted "word"', "with, comma"),
        GlossaryTerm("c", "d"),
    )


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "no entries"),
        (" \n", "no entries"),
        ("a", "Line 1"),
        ("a\tb\nc\td\te", "Line 2"),
        ("a\t", "1 to 200"),
        ("a\tb\nc\t" + "d" * 201, "Line 2"),
        ("a\tb\n\na\tc", "Line 3 of the entries has the same source"),
        ("a\tb\x00c", "control character"),
        ("a\tb\u2028c", "control character"),
    ],
)
def test_wrong_tsv_is_refused_with_its_line(text: str, part: str) -> None:
    with pytest.raises(InvalidGlossary, match=part):
        parse_tsv(text)


@pytest.mark.parametrize("text", ["a", "a,b,c", 'a,"b', 'a,"b"c', "a,b\na,c", "a," + "b" * 200_000])
def test_wrong_csv_is_refused(text: str) -> None:
    with pytest.raises(InvalidGlossary):
        parse_csv(text)


def test_a_language_pair_has_a_maximum_of_terms(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terms_module, "MAX_STORED_TERMS", 2)
    with pytest.raises(InvalidGlossary, match="more than 2"):
        parse_tsv("a\tb\nc\td\ne\tf")
    with pytest.raises(InvalidGlossary, match="more than 2"):
        merge_glossaries([terms(a="b", c="d"), terms(e="f")])


def test_of_equal_terms_the_first_counts() -> None:
    assert merge_glossaries([terms(a="1", b="2"), terms(a="3", c="4")]) == terms(a="1", b="2", c="4")


def test_only_terms_that_a_text_holds_are_used() -> None:
    glossary_terms = terms(house="Gebäude", cat="Kater", dog="Hund")
    assert terms_in(glossary_terms, ["Two HOUSES", "and a cat."], "en") == terms(house="Gebäude", cat="Kater")


def test_parts_of_words_do_not_count() -> None:
    glossary_terms = tuple(GlossaryTerm(f"w{number}", "x") for number in range(1000))
    assert terms_in(glossary_terms, ["w999"], "en") == (glossary_terms[999],)
    text = " ".join(f"w{number}{number}" for number in range(100, 300))
    assert terms_in(glossary_terms, [text + " w5"], "en") == (glossary_terms[5],)


def test_a_text_with_more_terms_than_a_request_may_have_is_refused() -> None:
    glossary_terms = tuple(GlossaryTerm(f"w{number}", "x") for number in range(MAX_TERMS + 1))
    text = " ".join(term.source for term in glossary_terms)
    with pytest.raises(InvalidGlossary, match=f"More than {MAX_TERMS} terms"):
        terms_in(glossary_terms, [text], "en")


@pytest.fixture(params=["memory", "folder"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> GlossaryStore:
    return GlossaryStore(None if request.param == "memory" else tmp_path / "data")


def test_a_glossary_is_found_with_its_dictionaries_in_order(store: GlossaryStore) -> None:
    glossary = store.create("Animals", [Dictionary("de", "en", terms(Kater="cat")), en_de(cat="Kater", dog="Hund")])
    assert store.get(glossary.id) == glossary
    assert store.all() == [glossary]
    assert [(dictionary.source, dictionary.target, dictionary.num_terms) for dictionary in glossary.dictionaries] == [
        ("de", "en", 1),
        ("en", "de", 2),
    ]
    assert store.dictionary(glossary.id, "EN-us", "deu_Latn") == en_de(cat="Kater", dog="Hund")
    store.close()


def test_terms_are_added_and_replaced(store: GlossaryStore) -> None:
    glossary_id = store.create("Animals", [en_de(cat="Kater", dog="Hund")]).id
    changed = store.update(glossary_id, "Pets", [en_de(cat="Katze", cow="Kuh"), Dictionary("en", "fr", terms(a="b"))])
    assert changed.name == "Pets"
    assert [dictionary.num_terms for dictionary in changed.dictionaries] == [3, 1]
    assert set(store.dictionary(glossary_id, "en", "de").terms) == set(terms(cat="Katze", dog="Hund", cow="Kuh"))
    store.replace(glossary_id, en_de(fox="Fuchs"))
    assert store.dictionary(glossary_id, "en", "de").terms == terms(fox="Fuchs")
    store.close()


def test_glossaries_and_dictionaries_are_deleted(store: GlossaryStore) -> None:
    glossary_id = store.create("Animals", [en_de(cat="Kater"), Dictionary("de", "en", terms(Kater="cat"))]).id
    store.delete_dictionary(glossary_id, "en", "de")
    assert [dictionary.source for dictionary in store.get(glossary_id).dictionaries] == ["de"]
    with pytest.raises(GlossaryPairMissing, match="name those of one: de-en"):
        store.delete_dictionary(glossary_id, "en", "de")
    store.delete(glossary_id)
    for use in (store.get, store.delete):
        with pytest.raises(GlossaryNotFound):
            use(glossary_id)
    assert store.all() == []
    store.close()


def test_the_languages_must_leave_a_single_dictionary(store: GlossaryStore) -> None:
    glossary_id = store.create("Animals", [en_de(cat="Kater"), Dictionary("en", "fr", terms(cat="chat"))]).id
    assert store.dictionary(glossary_id, None, "fr").target == "fr"
    for languages in ((None, None), ("en", None), ("de", "en")):
        with pytest.raises(GlossaryPairMissing):
            store.dictionary(glossary_id, *languages)
    store.close()


def test_glossaries_are_bounded(store: GlossaryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "MAX_GLOSSARIES", 2)
    monkeypatch.setattr(store_module, "MAX_CHARACTERS", 30)
    first = store.create("1", [en_de(a="b")])
    with pytest.raises(GlossaryStoreFull, match="30 characters"):
        store.create("2", [en_de(a="b" * 40)])
    assert store.all() == [first]
    with pytest.raises(GlossaryStoreFull):
        store.update(first.id, "renamed", [en_de(c="d" * 40)])
    assert store.all() == [first]
    store.create("2", [en_de(a="b")])
    with pytest.raises(GlossaryStoreFull, match="2 glossaries"):
        store.create("3", [en_de(a="b")])
    for glossary in store.all():
        store.delete(glossary.id)
    store.delete(store.create("4", [en_de(a="b" * 25)]).id)
    store.create("5", [en_de(a="b" * 25)])  # what was deleted leaves its room
    store.close()


def test_glossaries_in_a_folder_outlive_the_store(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "data"
    first = GlossaryStore(folder)
    glossary = first.create("Animals", [en_de(cat="Kater")])
    first.close()
    second = GlossaryStore(folder)
    assert second.all() == [glossary]
    assert second.dictionary(glossary.id, "en", "de") == en_de(cat="Kater")
    second.close()


def test_a_file_that_cannot_be_opened_is_an_error_of_the_disk_and_not_of_the_next_try(tmp_path: Path) -> None:
    store = GlossaryStore(tmp_path)
    (tmp_path / FILE_NAME).mkdir()
    with pytest.raises(StorageUnavailable):
        store.create("g", [en_de(cat="Katze")])
    (tmp_path / FILE_NAME).rmdir()
    assert store.create("g", [en_de(cat="Katze")]).name == "g"
    store.close()


def test_what_one_key_stores_is_bounded_apart_from_others(tmp_path: Path) -> None:
    store = GlossaryStore(tmp_path, OwnerBounds(glossaries=2, characters=30))
    first, second = store.owned_by("a"), store.owned_by("b")
    glossary = first.create("1", [en_de(a="b")])
    with pytest.raises(GlossaryStoreFull, match="the terms of a key may have 30 characters"):
        first.update(glossary.id, None, [en_de(c="d" * 40)])
    first.create("2", [en_de(a="b")])
    with pytest.raises(GlossaryStoreFull, match="a key may have 2 glossaries"):
        first.create("3", [en_de(a="b")])
    second.create("1", [en_de(a="b" * 25)])
    for _ in range(3):
        store.create("nobody's", [en_de(a="b" * 40)])  # where there are no keys, only the sum is bounded
    store.close()


def test_glossaries_are_private(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "data"
    store = GlossaryStore(folder)
    store.create("1", [en_de(a="b")])
    assert (folder.parent.stat().st_mode & 0o777, folder.stat().st_mode & 0o777) == (0o700, 0o700)
    assert (folder / FILE_NAME).stat().st_mode & 0o777 == 0o600
    store.close()
    (folder / FILE_NAME).chmod(0o644)  # as an earlier release made it
    again = GlossaryStore(folder)
    assert len(again.all()) == 1
    assert (folder / FILE_NAME).stat().st_mode & 0o777 == 0o600
    again.close()


TEXTS = st.text(alphabet="abAB-. s", max_size=30)
SOURCES = st.text(alphabet="abAB-. s", min_size=1, max_size=8).map(str.strip).filter(bool)


@given(
    st.lists(SOURCES, unique=True, min_size=1, max_size=20), st.lists(TEXTS, max_size=3), st.sampled_from(["en", "fr"])
)
def test_the_terms_found_are_those_that_each_text_holds_by_itself(
    sources: list[str], texts: list[str], language: str
) -> None:
    glossary_terms = tuple(GlossaryTerm(source, "x") for source in sources)
    expected = tuple(term for term in glossary_terms if any(find_terms(text, (term,), language, ()) for text in texts))
    assert terms_in(glossary_terms, texts, language) == expected


def test_a_search_is_ended_by_what_is_called_meanwhile() -> None:
    calls = 0

    def check() -> None:
        nonlocal calls
        calls += 1
        if calls > 3:
            raise TimeoutError

    with pytest.raises(TimeoutError):
        terms_in(terms(a="b"), ["word " * 100_000], "en", check)
