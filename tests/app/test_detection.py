"""Language detection with lingua."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from app.serving.detection import (
    MAX_CHARACTERS,
    Detection,
    LanguageDetector,
    has_letters,
    other_than,
    supported_languages,
)

ENGLISH_GERMAN = ("en", "de")


@pytest.fixture(scope="module")
def detector() -> LanguageDetector:
    return LanguageDetector()


def languages(detections: list[Detection | None]) -> list[str | None]:
    return [None if detection is None else detection.language for detection in detections]


def test_each_text_has_its_own_language(detector: LanguageDetector) -> None:
    texts = ["The house at the end of the street is old.", "Das Haus am Ende der Straße ist alt."]
    detections = detector.detect(texts, ENGLISH_GERMAN)
    assert languages(detections) == ["en", "de"]
    assert all(detection is not None and 0.7 < detection.confidence <= 1.0 for detection in detections)


def test_a_short_text_in_a_script_of_no_loaded_language_has_no_language(detector: LanguageDetector) -> None:
    assert detector.detect(["Доброе", "12 — 34", ""], ENGLISH_GERMAN) == [None, None, None]


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Bonjour tout le monde", "fr"),
        ("La casa al final de la calle es muy vieja.", "es"),
        ("Dom na końcu ulicy jest bardzo stary.", "pl"),
        ("Доброе утро, мой друг.", "ru"),
        ("街の終わりにある家はとても古いです。", "ja"),
    ],
)
def test_a_language_that_is_not_loaded_is_named(detector: LanguageDetector, text: str, language: str) -> None:
    (detection,) = detector.detect([text], ENGLISH_GERMAN)
    assert detection is not None and (detection.language, detection.alike) == (language, (language,))
    assert 0.8 <= detection.confidence <= 1.0


@pytest.mark.parametrize(
    "text",
    [
        "Crème brûlée",  # short
        "The maître d'hôtel said that it was a déjà vu.",
        "Das Café am Boulevard hat ein Menü à la carte.",
        "He lives in Neuilly-sur-Seine, near Paris.",
        "Grüezi mitenand, i ha das Huus am End vo de Strass gseh.",  # a dialect of German
    ],
)
def test_a_text_that_may_be_in_a_loaded_language_is_in_one(detector: LanguageDetector, text: str) -> None:
    (detection,) = detector.detect([text], ENGLISH_GERMAN)
    assert detection is not None and detection.language in ENGLISH_GERMAN


@pytest.mark.parametrize(
    ("text", "stated", "other"),
    [
        ("This is an English sentence.", "de", "en"),
        ("This is an English sentence.", "en_US", None),
        ("Dies ist ein deutscher Satz.", "eng_Latn", "de"),
        ("Dette er en norsk setning om et hus.", "nb", None),
        ("Ovo je rečenica o jednoj kući.", "sr", None),  # Croatian
        ("This is an English sentence.", "xx", None),  # a language unknown to the model
    ],
)
def test_a_text_in_another_language_than_the_stated_one_is_noticed(text: str, stated: str, other: str | None) -> None:
    detection = other_than(text, stated)
    assert (detection and detection.language) == other


def test_codes_are_returned_as_they_were_given(detector: LanguageDetector) -> None:
    detections = detector.detect(["Das Haus am Ende der Straße ist alt."], ("eng_Latn", "deu_Latn"))
    assert languages(detections) == ["deu_Latn"]


def test_languages_that_are_loaded_later_are_detected_too(detector: LanguageDetector) -> None:
    text = ["La maison au bout de la rue est vieille."]
    assert languages(detector.detect(text, (*ENGLISH_GERMAN, "fra_Latn"))) == ["fra_Latn"]
    assert languages(detector.detect(text, ENGLISH_GERMAN)) == ["fr"]


def test_a_long_text_is_detected_by_its_beginning_from_the_first_letter_on(detector: LanguageDetector) -> None:
    german = "Das Haus am Ende der Straße ist alt. "
    long = "1. " * MAX_CHARACTERS + german * 100 + "The house at the end of the street is old. " * 2_000
    assert languages(detector.detect([long], ENGLISH_GERMAN)) == ["de"]


def test_languages_unknown_to_lingua_are_never_detected(detector: LanguageDetector) -> None:
    assert detector.detect(["Das Haus ist alt."], ("tlh", "xx", "nonsense")) == [None]


def test_loaded_languages_are_kept(detector: LanguageDetector, caplog: pytest.LogCaptureFixture) -> None:
    detector.detect(["a text"], ENGLISH_GERMAN)
    with caplog.at_level(logging.INFO, logger="app.detection"):
        detector.detect(["another text"], ENGLISH_GERMAN)
    assert not caplog.records


def test_many_languages_are_detected_in_low_accuracy_mode(caplog: pytest.LogCaptureFixture) -> None:
    many = ("en", "de", "fr", "es", "it", "nl", "pl", "sv", "da")
    with caplog.at_level(logging.INFO, logger="app.detection"):
        detections = LanguageDetector().detect(["Das Haus am Ende der Straße ist alt."], many)
    fields: Any = caplog.records[0]
    assert fields.fields["accuracy"] == "low"
    assert languages(detections) == ["de"]


def test_varieties_are_detected_as_their_language_with_the_shortest_code_first() -> None:
    import lingua

    supported = supported_languages(["arb_Arab", "no", "zho_Hant", "zho_Hans", "en", "tlh"])
    assert supported == {
        lingua.Language.ARABIC: ("arb_Arab",),
        lingua.Language.BOKMAL: ("no",),
        lingua.Language.CHINESE: ("zho_Hans", "zho_Hant"),
        lingua.Language.ENGLISH: ("en",),
    }


@pytest.mark.parametrize(("text", "expected"), [("", False), (" \n", False), ("12 — 7 😀", False), ("5 kg", True)])
def test_detection_needs_letters(text: str, expected: bool) -> None:
    assert has_letters(text) is expected
