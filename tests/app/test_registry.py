"""Which model serves a pair."""

from __future__ import annotations

import pytest

from app.models.registry import LoadedModel, Registry
from model.errors import UnsupportedPair
from model.languages import LanguagePairs
from tests.app.fakes import FakeTranslator, manifest_of


def model(name: str, *pairs: str, languages: tuple[str, ...] = ()) -> LoadedModel:
    return LoadedModel(FakeTranslator(manifest=manifest_of(name, *pairs, languages=languages)))


def registry(*models: LoadedModel) -> Registry:
    found = Registry()
    for one in models:
        found.add(one)
    return found


def route(found: Registry, source: str | None, target: str | None) -> tuple[str, str]:
    chosen, pair = found.find(source, target)
    return chosen.name, "-".join(pair)


def test_each_pair_leads_to_the_model_that_has_it() -> None:
    found = registry(model("a", "en-de", "de-en"), model("b", "fr-en"))
    assert route(found, "de", "en") == ("a", "de-en")
    assert route(found, "fr", "en") == ("b", "fr-en")


def test_the_first_of_several_models_serves_what_both_have() -> None:
    found = registry(model("a", "en-de"), model("b", "fr-en", "en-de"), model("c", "eng-deu"))
    assert route(found, "en", "de") == ("a", "en-de")
    found.remove("a")
    assert route(found, "en", "de") == ("b", "en-de")
    found.remove("b")
    assert route(found, "en", "de") == ("c", "eng-deu"), "in the model's own spelling"


def test_one_language_is_enough_where_it_leaves_a_single_pair() -> None:
    found = registry(model("a", "en-de", "de-en"), model("b", "fr-en"))
    assert route(found, "fr", None) == ("b", "fr-en")
    assert route(found, None, "de") == ("a", "en-de")
    with pytest.raises(UnsupportedPair):
        found.find(None, "en")
    with pytest.raises(UnsupportedPair):
        found.find(None, None)


def test_nothing_needs_to_be_said_where_there_is_one_pair_though_two_models_have_it() -> None:
    assert route(registry(model("a", "en-de"), model("b", "eng_Latn-deu_Latn")), None, None) == ("a", "en-de")


def test_a_pair_nobody_has_is_refused_with_those_there_are() -> None:
    found = registry(model("a", "en-de"), model("b", languages=("fr", "es", "it")))
    with pytest.raises(UnsupportedPair, match=r"name one of: en-de, any of fr, es, it to any other of them"):
        found.find("en", "fr")
    with pytest.raises(UnsupportedPair):
        found.find(None, None)


def test_a_pair_of_a_model_of_many_languages_is_found() -> None:
    found = registry(model("a", "en-de"), model("b", languages=("fra_Latn", "eng_Latn", "deu_Latn")))
    assert route(found, "FR", "en-US") == ("b", "fra_Latn-eng_Latn")
    assert route(found, "en", "de") == ("a", "en-de")
    with pytest.raises(UnsupportedPair):
        found.find("fr", "fr")


def test_a_language_means_the_nearest_of_all_models() -> None:
    found = registry(model("a", "en-pt-BR"), model("b", "en-pt"))
    assert route(found, "en", "pt") == ("b", "en-pt")
    assert route(found, "en", "pt-BR") == ("a", "en-pt-BR")


def test_all_pairs_are_known_for_messages_and_detection() -> None:
    found = registry(model("a", "en-de"), model("b", "fr-en", "en-de"))
    assert found.pairs == LanguagePairs((("en", "de"), ("fr", "en")))
    found.remove("b")
    assert found.pairs == LanguagePairs((("en", "de"),))
    assert (found.names, len(found)) == (["a"], 1)


def test_removing_what_is_not_there_changes_nothing() -> None:
    found = registry(model("a", "en-de"))
    assert found.remove("b") is None
    assert found.names == ["a"]


def test_pairs_that_are_never_used_are_told() -> None:
    found = registry(model("a", "en-de", "de-en"))
    assert found.add(model("b", "fr-en")) == LanguagePairs()
    assert found.add(model("c", "eng-deu", "en-fr")) == LanguagePairs((("eng", "deu"),))
    many = found.add(model("d", languages=("de", "en", "it")))
    assert set(many.pairs) == {("en", "de"), ("de", "en")}
    assert found.add(model("e", languages=("it", "de", "ja"))).any_to_any == ("it", "de")
