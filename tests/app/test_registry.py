"""The registry: which model serves a pair."""

from __future__ import annotations

import pytest

from app.models.registry import LoadedModel, Registry
from model.errors import UnsupportedPair
from model.languages import LanguagePairs
from tests.app.fakes import FakeTranslator, manifest_of


def model(name: str, *pairs: str, languages: tuple[str, ...] = ()) -> LoadedModel:
    return LoadedModel(FakeTranslator(manifest=manifest_of(name, *pairs, languages=languages)))


def registry(*models: LoadedModel) -> Registry[LoadedModel]:
    found: Registry[LoadedModel] = Registry()
    for one in models:
        found.add(one)
    return found


def route(found: Registry[LoadedModel], source: str | None, target: str | None) -> tuple[str, str]:
    chosen, pair = found.find(source, target)
    return chosen.name, "-".join(pair)


def test_each_pair_is_served_by_the_model_that_has_it() -> None:
    found = registry(model("a", "en-de", "de-en"), model("b", "fr-en"))
    assert route(found, "de", "en") == ("a", "de-en")
    assert route(found, "fr", "en") == ("b", "fr-en")


def test_the_first_of_several_models_serves_what_both_have() -> None:
    found = registry(model("a", "en-de"), model("b", "fr-en", "en-de"), model("c", "eng-deu"))
    assert route(found, "en", "de") == ("a", "en-de")
    found.remove("a")
    assert route(found, "en", "de") == ("b", "en-de")
    found.remove("b")
    assert route(found, "en", "de") == ("c", "eng-deu"), "in the spelling of the model"


def test_one_language_is_enough_if_it_has_a_single_pair() -> None:
    found = registry(model("a", "en-de", "de-en"), model("b", "fr-en"))
    assert route(found, "fr", None) == ("b", "fr-en")
    assert route(found, None, "de") == ("a", "en-de")
    with pytest.raises(UnsupportedPair):
        found.find(None, "en")
    with pytest.raises(UnsupportedPair):
        found.find(None, None)


def test_both_languages_may_be_omitted_if_there_is_one_pair_even_in_two_models() -> None:
    assert route(registry(model("a", "en-de"), model("b", "eng_Latn-deu_Latn")), None, None) == ("a", "en-de")


def test_an_unknown_pair_is_refused_with_the_served_pairs() -> None:
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


def test_a_language_code_matches_the_closest_of_all_models() -> None:
    found = registry(model("a", "en-pt-BR"), model("b", "en-pt"))
    assert route(found, "en", "pt") == ("b", "en-pt")
    assert route(found, "en", "pt-BR") == ("a", "en-pt-BR")


def test_the_registry_lists_all_pairs_and_languages() -> None:
    found = registry(model("a", "en-de"), model("b", "fr-en", "en-de"))
    assert found.pairs == LanguagePairs((("en", "de"), ("fr", "en")))
    found.remove("b")
    assert found.pairs == LanguagePairs((("en", "de"),))
    assert (found.names, len(found)) == (["a"], 1)


def test_pairs_that_are_never_used_are_listed() -> None:
    found = registry(model("a", "en-de", "de-en"))
    assert found.add(model("b", "fr-en")) == LanguagePairs()
    assert found.add(model("c", "eng-deu", "en-fr")) == LanguagePairs((("eng", "deu"),))
    many = found.add(model("d", languages=("de", "en", "it")))
    assert set(many.pairs) == {("en", "de"), ("de", "en")}
    assert found.add(model("e", languages=("it", "de", "ja"))).any_to_any == ("it", "de")
