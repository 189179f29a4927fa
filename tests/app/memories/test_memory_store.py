"""The store of translation memories and look-ups in it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import MemoryNotFound, MemoryStoreFull, MemoryUnitNotFound
from app.memories.lookup import Lookup
from app.memories.store import Added, MemoryBounds, MemoryStore
from app.memories.unit import MAX_TEXT_CHARACTERS, MAX_WORDS, Unit, normalised, words_of
from model.translation.memory import MemoryMatch

NOW = 1_000_000.0
VALVE = Unit("Close the valve before you open the lid.", "Schließen Sie das Ventil.", "de")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[MemoryStore]:
    store = MemoryStore(tmp_path, MemoryBounds(3, 100, 10_000))
    yield store
    store.close()


def memory_of(store: MemoryStore, *units: Unit, owner: str = "me", source: str = "en") -> str:
    memory = store.create(owner, "Manuals", source, NOW)
    store.add(owner, memory.id, units, NOW)
    return memory.id


def similar(store: MemoryStore, text: str, threshold: float = 0.7, owner: str | None = "me") -> list[MemoryMatch]:
    lookup = Lookup(store.connection)
    return lookup.similar(lookup.pairs(owner, (), "en", "de"), text, threshold, 5)


def test_a_sentence_is_found_whatever_its_spaces(store: MemoryStore) -> None:
    memory = memory_of(store, VALVE)
    (match,) = similar(store, "  Close the\u00a0valve before\nyou open the lid. ")
    assert (match.source, match.target, match.score, match.memory) == (VALVE.source, VALVE.target, 1.0, memory)
    assert match.is_exact


def test_a_similar_sentence_is_found_with_its_score(store: MemoryStore) -> None:
    memory_of(store, VALVE, Unit("It is raining.", "Es regnet.", "de"))
    (match,) = similar(store, "Close the valve before you open the door.")
    assert match.target == VALVE.target
    assert 0.9 < match.score < 1.0
    assert similar(store, "Close the valve before you open the door.", threshold=0.97) == []
    assert similar(store, "Nothing of the kind was ever stored here.") == []


def test_the_best_of_several_similar_sentences_comes_first(store: MemoryStore) -> None:
    memory_of(store, *(Unit(f"Turn the key {n} times to the left.", str(n), "de") for n in (2, 33, 444)))
    assert similar(store, "Turn the key 33 times to the right.")[0].target == "33"


def test_languages_match_without_their_regions_and_equal_ones_first(store: MemoryStore) -> None:
    memory_of(store, Unit("Hello.", "Servus.", "de-AT"), Unit("Hello.", "Hallo.", "de"), Unit("Hello.", "Ciao.", "it"))
    lookup = Lookup(store.connection)

    def first(target: str) -> str | None:
        (match,) = lookup.exact(lookup.pairs("me", (), "en-GB", target), ["Hello."])
        return None if match is None else match.target

    assert [first(target) for target in ("de", "de-AT", "de-CH", "it", "fr")] == [
        "Hallo.",
        "Servus.",
        "Hallo.",
        "Ciao.",
        None,
    ]


def test_a_unit_with_the_same_source_replaces_the_stored_one(store: MemoryStore) -> None:
    memory = memory_of(store, VALVE)
    better = Unit(VALVE.source + " ", "Ventil zu.", "de")
    assert store.add("me", memory, [better, Unit("New.", "Neu.", "de")], NOW + 1) == Added(new=1, replaced=1)
    assert store.add("me", memory, [better], NOW + 2) == Added(unchanged=1)
    assert [match.target for match in similar(store, VALVE.source)] == ["Ventil zu."]
    (first, _) = store.units("me", memory)
    assert (first.created, first.updated, first.used) == (NOW, NOW + 1, None)
    assert store.get("me", memory).targets == {"de": 2}


def test_no_owner_sees_or_changes_the_memories_of_another(store: MemoryStore) -> None:
    memory = memory_of(store, VALVE)
    assert store.all("other") == []
    assert similar(store, VALVE.source, owner="other") == []
    for attempt in (
        lambda: store.get("other", memory),
        lambda: store.delete("other", memory),
        lambda: store.add("other", memory, [VALVE], NOW),
        lambda: store.units("other", memory),
        lambda: store.delete_unit("other", memory, 1, NOW),
        lambda: Lookup(store.connection).pairs("other", [memory], "en", "de"),
    ):
        with pytest.raises(MemoryNotFound):
            attempt()
    assert len(similar(store, VALVE.source, owner=None)) == 1


def test_units_are_listed_in_pages_and_by_language(store: MemoryStore) -> None:
    memory = memory_of(store, *(Unit(f"Line {n}", f"{language} {n}", language) for n in range(3) for language in "ab"))
    pages = [store.units("me", memory, limit=4)]
    pages.append(store.units("me", memory, after=pages[0][-1].id, limit=4))
    assert [len(page) for page in pages] == [4, 2]
    assert sorted(unit.target for page in pages for unit in page) == ["a 0", "a 1", "a 2", "b 0", "b 1", "b 2"]
    assert [unit.target for unit in store.units("me", memory, language="b")] == ["b 0", "b 1", "b 2"]


def test_a_deleted_unit_is_not_found(store: MemoryStore) -> None:
    memory = memory_of(store, VALVE)
    (unit,) = store.units("me", memory)
    assert store.delete_unit("me", memory, unit.id, NOW).source == VALVE.source
    assert similar(store, VALVE.source) == similar(store, VALVE.source + "!") == []
    assert store.get("me", memory).targets == {}
    with pytest.raises(MemoryUnitNotFound):
        store.delete_unit("me", memory, unit.id, NOW)


def test_a_deleted_memory_is_gone_at_once_and_its_units_after_the_purge(store: MemoryStore) -> None:
    memory = memory_of(store, VALVE)
    store.delete("me", memory)
    assert similar(store, VALVE.source) == []
    assert store.purge()
    assert not store.purge()
    for table in ("units", "pairs", "frequencies", "memories", "erased_pairs"):
        assert store.connection.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,)
    assert store.connection.execute("SELECT count(*) FROM words WHERE words MATCH '1x0'").fetchone() == (0,)


def test_an_owner_has_limits_of_memories_units_and_bytes(store: MemoryStore) -> None:
    memory = memory_of(store, VALVE)
    with pytest.raises(MemoryStoreFull, match="there would be 101 units, and the limit is 100"):
        store.add("me", memory, [Unit(str(n), "x", "de") for n in range(100)], NOW)
    with pytest.raises(MemoryStoreFull, match="bytes"):
        store.add("me", memory, [Unit("long", "x" * 10_000, "de")], NOW)
    assert store.get("me", memory).num_units == 1
    memory_of(store), memory_of(store)
    with pytest.raises(MemoryStoreFull, match="limit of 3 memories"):
        memory_of(store)
    memory_of(store, owner="other")


def test_corrections_have_one_memory_for_each_language(store: MemoryStore) -> None:
    first = store.corrections("me", "en", NOW)
    assert store.corrections("me", "en", NOW).id == first.id
    assert store.corrections("me", "de", NOW).id != first.id
    assert store.corrections("other", "en", NOW).id != first.id
    store.add("me", first.id, [VALVE], NOW)
    lookup = Lookup(store.connection)
    assert [pair.memory for pair in lookup.pairs("me", ["corrections"], "en", "de")] == [first.id]
    assert lookup.pairs("me", ["corrections"], "de", "en") == []


def test_words_of_unspaced_scripts_are_pairs_of_characters(store: MemoryStore) -> None:
    assert words_of("日本語です") & words_of("日本です")
    memory_of(store, Unit("今日はとても良い天気ですね。", "Schönes Wetter heute.", "de"), source="ja")
    lookup = Lookup(store.connection)
    pairs = lookup.pairs("me", (), "ja", "de")
    assert [match.target for match in lookup.similar(pairs, "今日はとても悪い天気ですね。", 0.7, 1)]


def test_the_number_of_words_is_bounded() -> None:
    assert len(words_of(" ".join(map(str, range(1_000))))) == MAX_WORDS


@pytest.mark.parametrize(
    "unit", [Unit(" ", "x", "de"), Unit("x", "x" * (MAX_TEXT_CHARACTERS + 1), "de"), Unit("\0", "x", "de")]
)
def test_a_unit_that_cannot_be_stored_says_why(unit: Unit) -> None:
    assert unit.flaw


@given(st.text(max_size=60), st.text(max_size=60))
def test_equal_normal_forms_are_equal_words(first: str, second: str) -> None:
    assert normalised(normalised(first)) == normalised(first)
    if normalised(first) == normalised(second):
        assert words_of(normalised(first)) == words_of(normalised(second))
