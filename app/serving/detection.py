"""Which language a text is in, among those that are loaded; by lingua, offline.

Short texts are sometimes detected wrongly: a single word such as *Hallo* is little evidence. Callers that know the
language should name it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from model.languages import closest, plain_code

if TYPE_CHECKING:
    import lingua

logger = logging.getLogger("app.detection")

MAX_CHARACTERS = 3_000
"""Characters of a text that are used, from its first letter on: more changes nothing and takes milliseconds."""

HIGH_ACCURACY_LANGUAGES = 8
"""Most languages detected with lingua's high accuracy.

Two languages take 60 MB and 0.4 s to load, eight 240 MB and 1 s, all 75 of lingua 1.2 GB. In low accuracy,
which has more errors on texts of a few words, all 75 take 80 MB and 0.5 s.
"""


@dataclass(frozen=True)
class Detection:
    """The language of a text.

    Args:
        language: Its code, spelled as a loaded model does.
        confidence: Its probability among the languages loaded, 0 to 1.
        alike: All loaded codes the detector cannot distinguish from it (``zh-Hans`` and ``zh-Hant``), itself first.
    """

    language: str
    confidence: float
    alike: tuple[str, ...]


def has_letters(text: str) -> bool:
    """Whether there is anything to detect: numbers, rules and emoji are the same in every language."""
    return any(character.isalpha() for character in text)


class LanguageDetector:
    """Detects languages. Its data are loaded when first needed, and again when the loaded languages change.

    May be used from any thread; texts are processed one after the other.
    """

    def __init__(self) -> None:
        """Load nothing yet."""
        self._lock = threading.Lock()
        self._languages: tuple[str, ...] = ()
        self._codes: dict[lingua.Language, tuple[str, ...]] = {}
        self._detector: lingua.LanguageDetector | None = None

    def detect(self, texts: Sequence[str], languages: tuple[str, ...]) -> list[Detection | None]:
        """The languages of texts.

        Args:
            texts: The texts.
            languages: Codes of the languages to consider; those lingua does not support are never found.

        Returns:
            For each text its language, or None if none of them uses its letters.
        """
        with self._lock:
            if languages != self._languages:
                self._prepare(languages)
            return [self._detect(text) for text in texts]

    def _detect(self, text: str) -> Detection | None:
        first_letter = next((index for index, character in enumerate(text) if character.isalpha()), None)
        if self._detector is None or first_letter is None:
            return None
        values = self._detector.compute_language_confidence_values(text[first_letter : first_letter + MAX_CHARACTERS])
        best = values[0]
        if best.value <= 0.0:
            return None
        codes = self._codes[best.language]
        return Detection(codes[0], round(best.value, 4), codes)

    def _prepare(self, languages: tuple[str, ...]) -> None:
        import lingua

        began = time.perf_counter()
        if self._detector is not None:
            self._detector.unload_language_models()  # which all detectors share
        self._detector = None
        self._codes = known_languages(languages)
        high_accuracy = len(self._codes) <= HIGH_ACCURACY_LANGUAGES
        # lingua holds the interpreter's lock while it loads a language. One at a time, for 0.1 to 0.3 s each, lets the
        # event loop run in between.
        for number in range(1, len(self._codes) + 1):
            builder = lingua.LanguageDetectorBuilder.from_languages(*list(self._codes)[:number])
            if not high_accuracy:
                builder = builder.with_low_accuracy_mode()
            self._detector = builder.with_preloaded_language_models().build()
        self._languages = languages
        fields = {
            "languages": [codes[0] for codes in self._codes.values()],
            "accuracy": "high" if high_accuracy else "low",
            "duration_ms": round((time.perf_counter() - began) * 1000),
        }
        logger.info("language detection is ready", extra={"fields": fields})


def known_languages(languages: Sequence[str]) -> dict[lingua.Language, tuple[str, ...]]:
    """The languages lingua supports among those given.

    Args:
        languages: Codes in any spelling.

    Returns:
        For each its codes as given, the plainest first: ``zh-Hans`` and ``zh-Hant`` are both Chinese.
    """
    import lingua

    by_code = {language.iso_code_639_1.name.lower(): language for language in lingua.Language.all()}
    found: dict[lingua.Language, list[str]] = {}
    plain_codes: dict[lingua.Language, str] = {}
    for code in languages:
        plain = closest(code, tuple(by_code)) or closest(plain_code(code), tuple(by_code))
        if plain is not None:
            found.setdefault(by_code[plain], []).append(code)
            plain_codes[by_code[plain]] = plain
    ordered: dict[lingua.Language, tuple[str, ...]] = {}
    for language, codes in found.items():
        plainest = closest(plain_codes[language], tuple(codes)) or codes[0]
        ordered[language] = (plainest, *(code for code in codes if code != plainest))
    return ordered
