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
    result: Registry[LoadedModel] = Registry()
    for model in models:
        result.add(model)
    return result


def route(result: Registry[LoadedModel], source: str | None, target: str | None) -> tuple[str, str]:
    chosen, pair = result.find(source, target)
    return chosen.name, "-".join(pair)


def test_each_pair_is_served_by_the_model_that_has_it() -> None:
    result = registry(model("a", "en-de", "de-en"), model("b", "fr-en"))
    assert route(result, "de", "en") == ("a", "de-en")
    assert route(result, "fr", "en") == ("b", "fr-en")


def test_the_first_of_several_models_serves_what_both_have() -> None:
    result = registry(model("a", "en-de"), model("b", "fr-en", "en-de"), model("c", "eng-deu"))
    assert route(result, "en", "de") == ("a", "en-de")
    result.remove("a")
    assert route(result, "en", "de") == ("b", "en-de")
    result.remove("b")
    assert route(result, "en", "de") == ("c", "eng-deu"), "in the spelling of the model"


def test_one_language_is_enough_if_it_has_a_single_pair() -> None:
    result = registry(model("a", "en-de", "de-en"), model("b", "fr-en"))
    assert route(result, "fr", None) == ("b", "fr-en")
    assert route(result, None, "de") == ("a", "en-de")
    with pytest.raises(UnsupportedPair):
        result.find(None, "en")
    with pytest.raises(UnsupportedPair):
        result.find(None, None)


def test_both_languages_may_be_omitted_if_there_is_one_pair_even_in_two_models() -> None:
    assert route(registry(model("a", "en-de"), model("b", "eng_Latn-deu_Latn")), None, None) == ("a", "en-de")


def test_an_unknown_pair_is_refused_with_the_served_pairs() -> None:
    result = registry(model("a", "en-de"), model("b", languages=("fr", "es", "it")))
    with pytest.raises(UnsupportedPair, match=r"The pairs are en-de, any of fr, es, it to any other of them"):
        result.find("en", "fr")
    with pytest.raises(UnsupportedPair):
        result.find(None, None)


def test_a_pair_of_a_model_of_many_languages_is_found() -> None:
    result = registry(model("a", "en-de"), model("b", languages=("fra_Latn", "eng_Latn", "deu_Latn")))
    assert route(result, "FR", "en-US") == ("b", "fra_Latn-eng_Latn")
    assert route(result, "en", "de") == ("a", "en-de")
    with pytest.raises(UnsupportedPair):
        result.find("fr", "fr")


def test_a_language_code_matches_the_closest_of_all_models() -> None:
    result = registry(model("a", "en-pt-BR"), model("b", "en-pt"))
    assert route(result, "en", "pt") == ("b", "en-pt")
    assert route(result, "en", "pt-BR") == ("a", "en-pt-BR")


def test_the_registry_lists_all_pairs_and_languages() -> None:
    result = registry(model("a", "en-de"), model("b", "fr-en", "en-de"))
    assert result.pairs == LanguagePairs((("en", "de"), ("fr", "en")))
    result.remove("b")
    assert result.pairs == LanguagePairs((("en", "de"),))
    assert (result.names, len(result)) == (["a"], 1)


def test_pairs_that_are_never_used_are_listed() -> None:
    result = registry(model("a", "en-de", "de-en"))
    assert result.add(model("b", "fr-en")) == LanguagePairs()
    assert result.add(model("c", "eng-deu", "en-fr")) == LanguagePairs((("eng", "deu"),))
    many = result.add(model("d", languages=("de", "en", "it")))
    assert set(many.pairs) == {("en", "de"), ("de", "en")}
    assert result.add(model("e", languages=("it", "de", "ja"))).any_to_any == ("it", "de")
