"""The model of each text of a request, with a detector that knows two words of each language."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NoReturn, TypeVar

import pytest

from app.errors import DetectedPairNotServed, LanguageNotDetected
from app.models.registry import LoadedModel, Registry
from app.serving import model_choice
from app.serving.detection import Detection, LanguageDetector
from app.serving.model_choice import ModelChoice, ModelChooser, Unchanged
from model.errors import InvalidMarkup, UnsupportedPair
from model.text.glossary import GlossaryTerm
from model.translation.confidence import NOTHING_TRANSLATED
from model.translation.options import TranslationOptions
from tests.app.fakes import FakeTranslator, WordDetector, manifest_of

pytestmark = pytest.mark.anyio


PLAIN = TranslationOptions()


def registry(**models: str) -> Registry[LoadedModel]:
    result: Registry[LoadedModel] = Registry()
    for name, pairs in models.items():
        result.add(LoadedModel(FakeTranslator(manifest=manifest_of(name, *pairs.split()))))
    return result


_T = TypeVar("_T")


async def at_once(run: Callable[[], _T]) -> _T:
    return run()


async def never(run: Callable[[], object]) -> NoReturn:
    raise AssertionError("nothing may run off the loop")


async def route(
    result: Registry[LoadedModel],
    *texts: str,
    source: str | None = "auto",
    target: str | None = "en",
    detector: LanguageDetector | None = None,
    options: TranslationOptions = PLAIN,
) -> Sequence[ModelChoice[LoadedModel] | Unchanged | Exception]:
    return await ModelChooser(result, detector or WordDetector(), at_once).choose(texts, source, target, options)


async def test_an_explicit_pair_needs_no_detection() -> None:
    result = registry(a="de-en", b="fr-en")
    choices = await ModelChooser(result, WordDetector(), never).choose(["der", "le"], "fr", None, PLAIN)
    assert all(
        isinstance(choice, ModelChoice) and choice.model.name == "b" and choice.detected is None for choice in choices
    )
    with pytest.raises(UnsupportedPair):
        await ModelChooser(result, WordDetector(), never).choose(["der"], "it", None, PLAIN)


@pytest.mark.parametrize("remembers", [True, False])
async def test_the_language_of_a_repeated_text_is_remembered_if_anything_is(
    remembers: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    examined: list[str] = []

    def other_than(text: str, *languages: str) -> Detection | None:
        examined.append(text)
        return Detection("fr", 0.9, ("fr",)) if text == "le" else None

    monkeypatch.setattr(model_choice, "other_than", other_than)
    chooser = ModelChooser(registry(a="de-en"), WordDetector(), never, remembers=remembers)
    for _ in range(2):
        french, german = await chooser.choose(["le", "der"], "de", "en", PLAIN)
        assert isinstance(french, ModelChoice) and isinstance(german, ModelChoice)
        assert french.detected is not None and german.detected is None
    assert examined == ["le", "der"] * (1 if remembers else 2)


@pytest.mark.parametrize("auto", ["auto", "AUTO", "Auto"])
async def test_each_text_goes_to_the_model_of_its_language(auto: str) -> None:
    german, french = await route(registry(a="de-en", b="fr-en"), "der", "le", source=auto)
    assert isinstance(german, ModelChoice) and isinstance(french, ModelChoice)
    assert (german.model.name, german.source, german.target) == ("a", "de", "en")
    assert (french.model.name, french.source, french.target) == ("b", "fr", "en")
    assert french.detected is not None
    assert (french.detected.language, french.detected.confidence) == ("fr", 0.9)


async def test_texts_without_letters_are_returned_unchanged_without_detection() -> None:
    chooser = ModelChooser(registry(a="de-en"), WordDetector(), never)
    assert await chooser.choose(["", " \n", "12 — 7"], "auto", "EN", PLAIN) == [Unchanged("zxx", "en", None)] * 3
    assert await chooser.choose([""], "auto", None, PLAIN) == [Unchanged("zxx", "zxx", None)]


@pytest.mark.parametrize(
    "document",
    [
        "<style>le {}</style><script>le()</script><!-- le --><p>der</p>",
        '<img src="le" alt="der">',
        "<p><code>le</code> der",
        "<i>le</i><p>der</p>",
        "&#100;er",
    ],
)
async def test_the_language_of_a_document_is_that_of_what_is_translated_in_it(document: str) -> None:
    options = TranslationOptions(format="html", ignore_tags=("i",))
    (choice,) = await route(registry(a="de-en", b="fr-en"), document, options=options)
    assert isinstance(choice, ModelChoice)
    assert choice.source == "de"


async def test_a_document_in_which_nothing_is_translated_is_returned_unchanged() -> None:
    options = TranslationOptions(format="html")
    documents = ["<script>der</script>", '<p class="der">12 <code>der</code></p>', "<pre>der</pre>", ""]
    choices = await route(registry(a="de-en"), *documents, options=options)
    assert choices == [Unchanged("zxx", "en", None)] * 4


async def test_a_document_that_cannot_be_read_fails_alone() -> None:
    options = TranslationOptions(format="xml")
    failed, choice = await route(registry(a="de-en"), "<a>der", "<a>der</a>", options=options)
    assert isinstance(failed, InvalidMarkup)
    assert isinstance(choice, ModelChoice)


async def test_a_text_in_the_target_language_is_returned_unchanged() -> None:
    (result,) = await route(registry(a="de-en"), "the", target="en-GB")
    assert isinstance(result, Unchanged)
    assert (result.source, result.target) == ("en", "en")
    assert result.detected is not None and result.detected.language == "en"


async def test_a_text_of_no_loaded_language_fails_alone() -> None:
    good, bad = await route(registry(a="de-en"), "der", "слово")
    assert isinstance(good, ModelChoice)
    assert isinstance(bad, LanguageNotDetected)
    assert "de-en" in str(bad)


async def test_a_text_whose_pair_is_not_loaded_fails_alone_with_the_detected_language() -> None:
    good, bad = await route(registry(a="de-en", b="en-fr"), "der", "le")
    assert isinstance(good, ModelChoice)
    assert isinstance(bad, DetectedPairNotServed)
    assert all(part in str(bad) for part in ("'fr'", "0.90", "'en'", "de-en, en-fr"))


async def test_the_target_may_be_omitted_if_the_source_has_one_pair() -> None:
    result = registry(a="de-en", b="en-de en-fr")
    german, english = await route(result, "der", "the", target=None)
    assert isinstance(german, ModelChoice) and (german.source, german.target) == ("de", "en")
    assert isinstance(english, DetectedPairNotServed)
    assert "no target is named" in str(english)


async def test_an_unknown_target_is_refused_before_detection() -> None:
    with pytest.raises(UnsupportedPair, match="target 'it'"):
        await ModelChooser(registry(a="de-en"), WordDetector(), never).choose(["der"], "auto", "it", PLAIN)


async def test_of_varieties_detected_as_one_language_the_one_with_a_pair_is_chosen() -> None:
    result = registry(a="zho_Hans-en", b="zho_Hant-de de-zho_Hant")
    detector = WordDetector({"字": ("zho_Hans", "zho_Hant")})
    to_german, to_english, unchanged = [
        (await route(result, "字", target=target, detector=detector))[0] for target in ("de", "en", "zh-TW")
    ]
    assert isinstance(to_german, ModelChoice) and isinstance(to_english, ModelChoice)
    assert (to_german.model.name, to_german.source) == ("b", "zho_Hant")
    assert to_german.detected is not None and to_german.detected.language == "zho_Hant"
    assert (to_english.model.name, to_english.source) == ("a", "zho_Hans")
    assert isinstance(unchanged, Unchanged)
    assert unchanged.source == "zho_Hant"


async def test_a_text_that_is_its_own_translation_has_no_score_and_no_tokens() -> None:
    translation_options = TranslationOptions(
        return_alignment=True, return_confidence=True, glossary=(GlossaryTerm("a", "b"),)
    )
    answer = Unchanged("en", "en", None).translation("the", translation_options)
    assert (answer.text, answer.source, answer.target, answer.finish_reason) == ("the", "en", "en", "stop")
    assert (answer.score, answer.alternatives, answer.alignment, answer.glossary) == (None, (), (), ())
    assert (answer.num_source_tokens, answer.num_target_tokens) == (0, 0)
    assert answer.confidence == NOTHING_TRANSLATED
    plain = Unchanged("en", "en", None).translation("the", TranslationOptions())
    assert (plain.alignment, plain.confidence, plain.glossary) == (None, None, None)
