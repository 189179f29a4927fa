"""Glossaries: created, changed and deleted."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from app.errors import GlossaryNotFound, StorageFull, StorageUnavailable
from app.glossaries.store import FILE_NAME, Dictionary, GlossaryStore
from model.text.glossary import GlossaryTerm
from tests.faults.injection.scenario import History, Scenario, Trial, Value, check_databases, check_names, refused_as

NUM_TERMS = 200


def dictionary(target: str, word: str) -> Dictionary:
    """Terms with a word of their own."""
    terms = tuple(GlossaryTerm(f"source {number}", f"{word} {number}") for number in range(NUM_TERMS))
    return Dictionary("en", target, terms)


class Glossaries(Scenario):
    """Two glossaries: one is changed and deleted, the other one is kept."""

    name = "glossaries"
    store = "glossaries (SQLite, rollback journal)"

    def run(self, folder: Path, trial: Trial) -> None:
        """Create, change and delete glossaries."""

        def attempt(step: str, act: Callable[[], Value]) -> Value | None:
            return trial.attempt(step, lambda: refused_as((StorageFull, StorageUnavailable), act))

        with closing(GlossaryStore(folder / "new")) as store:
            first = attempt("create 1", lambda: store.create("1", [dictionary("de", "first")]).id)
            second = attempt("create 2", lambda: store.create("2", [dictionary("de", "old")]).id)
            if second is not None:
                attempt("replace 2", lambda: store.replace(second, dictionary("de", "new")))
                attempt("update 2", lambda: store.update(second, "two", [dictionary("fr", "more")]).name)
            if first is not None:
                attempt("delete 1", lambda: store.delete(first))
            trial.heal()
            third = attempt("create 3", lambda: store.create("3", [dictionary("de", "third")]).id)
            if third is not None:
                assert attempt("read 3", lambda: store.get(third).name) in ("3", None)

    def check(self, folder: Path, history: History) -> None:
        """Every change that was answered is there, whole; another one is there whole or not at all."""
        with closing(GlossaryStore(folder / "new")) as store:
            self._check_first(store, history)
            if "create 2" in history.accepted:
                self._check_second(store, history, history.accepted["create 2"])
            if "create 3" in history.accepted:
                terms = store.dictionary(history.accepted["create 3"], "en", "de").terms
                assert terms == dictionary("de", "third").terms
            assert len(store.all()) <= sum(step.startswith("create") for step in history.tried)
            for glossary in store.all():
                assert all(info.num_terms == NUM_TERMS for info in glossary.dictionaries)
            store.create("later", [dictionary("de", "later")])
        check_databases(folder)
        check_names(folder / "new", {FILE_NAME})

    def _check_first(self, store: GlossaryStore, history: History) -> None:
        if "create 1" not in history.accepted:
            return
        try:
            store.get(history.accepted["create 1"])
        except GlossaryNotFound:
            assert "delete 1" in history.tried, "glossary 1 is lost"
        else:
            assert "delete 1" not in history.accepted, "glossary 1 is not deleted"

    def _check_second(self, store: GlossaryStore, history: History, id: str) -> None:
        info = store.get(id)
        terms = store.dictionary(id, "en", "de").terms
        if "replace 2" not in history.accepted:
            assert terms == dictionary("de", "old").terms or "replace 2" in history.tried
        else:
            assert terms == dictionary("de", "new").terms, "the replaced terms are lost"
        is_updated = info.name == "two"
        assert is_updated == (len(info.dictionaries) == 2), "half of a change"
        assert is_updated or "update 2" not in history.accepted, "the update is lost"
        assert not is_updated or "update 2" in history.tried
