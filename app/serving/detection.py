"""Language detection: among the loaded languages with the library lingua, and of texts in other languages.

The language of a short text, such as the single word *Hallo*, is sometimes detected wrongly. Callers that know the
language should name it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.serving.identification import other_language
from model.languages import closest, plain_code
from model.text.placeholders import without_spans
from model.translation.options import TranslationOptions

if TYPE_CHECKING:
    import lingua

logger = logging.getLogger("app.detection")

MAX_CHARACTERS = 3_000
"""Maximum number of characters used, from the first letter on; more do not change the result and take milliseconds."""

HIGH_ACCURACY_LANGUAGES = 8
"""Maximum number of languages for lingua's high accuracy mode.

Loading two languages takes 60 MB and 0.4 s, eight languages 240 MB and 1 s, and all 75 languages 1.2 GB. In low
accuracy mode, which makes more errors on texts of a few words, all 75 languages take 80 MB and 0.5 s.
"""


@dataclass(frozen=True)
class Detection:
    """The language of a text.

    Args:
        language: Its code, in the spelling of a loaded model; that of a language that is not loaded if the text is
            almost certainly in it.
        confidence: Its probability among the loaded languages, or among all, 0 to 1.
        alike: All loaded codes that the detector does not distinguish (``zh-Hans`` and ``zh-Hant``), ``language``
            first.
    """

    language: str
    confidence: float
    alike: tuple[str, ...]


def has_letters(text: str) -> bool:
    """Whether a text has letters; the language of numbers, symbols and emoji cannot be detected."""
    return any(character.isalpha() for character in text)


def words_of(text: str, options: TranslationOptions) -> str:
    """The text that the language is detected from: of a document, only what is translated.

    Args:
        text: The text or document.
        options: The options of the request, with the format.

    Raises:
        InvalidMarkup: The text is not a valid document of the format.
    """
    if options.format == "text":
        return text
    # Imported here: plain text needs no parsers.
    from model.translation.document import read_document

    texts = read_document(text, options).texts
    return "\n".join(without_spans(text.text, text.protected) for text in texts)


def other_than(text: str, *languages: str) -> Detection | None:
    """The language of a text that is almost certainly in none of some languages.

    Args:
        text: The text.
        languages: Their codes.
    """
    other = other_language(text, languages)
    return None if other is None else Detection(*other, (other[0],))


class LanguageDetector:
    """Detects languages. Its data is loaded on first use, and again when the languages change.

    It may be used from any thread; calls are processed one after the other.
    """

    def __init__(self) -> None:
        """Load nothing yet."""
        self._lock = threading.Lock()
        self._languages: tuple[str, ...] = ()
        self._codes: dict[lingua.Language, tuple[str, ...]] = {}
        self._detector: lingua.LanguageDetector | None = None

    def detect(self, texts: Sequence[str], languages: tuple[str, ...]) -> list[Detection | None]:
        """Detect the languages of texts.

        Args:
            texts: The texts.
            languages: Codes of the loaded languages; those that lingua does not support are never detected.

        Returns:
            For each text its language, or None if no loaded language uses its letters and no other is certain.
        """
        with self._lock:
            if languages != self._languages:
                self._prepare(languages)
            return [other_than(text, *languages) or self._detect(text) for text in texts]

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

        start_time = time.perf_counter()
        if self._detector is not None:
            self._detector.unload_language_models()  # all detectors share them
        self._detector = None
        self._codes = supported_languages(languages)
        high_accuracy = len(self._codes) <= HIGH_ACCURACY_LANGUAGES
        # lingua keeps the interpreter lock while it loads. Languages are loaded one at a time, for 0.1 to 0.3 s each,
        # so that the event loop can run in between.
        for number in range(1, len(self._codes) + 1):
            builder = lingua.LanguageDetectorBuilder.from_languages(*list(self._codes)[:number])
            if not high_accuracy:
                builder = builder.with_low_accuracy_mode()
            self._detector = builder.with_preloaded_language_models().build()
        self._languages = languages
        fields = {
            "languages": [codes[0] for codes in self._codes.values()],
            "accuracy": "high" if high_accuracy else "low",
            "duration_ms": round((time.perf_counter() - start_time) * 1000),
        }
        logger.info("language detection is ready", extra={"fields": fields})


def supported_languages(languages: Sequence[str]) -> dict[lingua.Language, tuple[str, ...]]:
    """The given languages that lingua supports.

    Args:
        languages: Codes in any spelling.

    Returns:
        The given codes of each language, the most general code first: ``zh-Hans`` and ``zh-Hant`` are both Chinese.
    """
    import lingua

    by_code = {language.iso_code_639_1.name.lower(): language for language in lingua.Language.all()}
    codes_by_language: dict[lingua.Language, list[str]] = {}
    plain_codes: dict[lingua.Language, str] = {}
    for code in languages:
        plain = closest(code, tuple(by_code)) or closest(plain_code(code), tuple(by_code))
        if plain is not None:
            codes_by_language.setdefault(by_code[plain], []).append(code)
            plain_codes[by_code[plain]] = plain
    ordered: dict[lingua.Language, tuple[str, ...]] = {}
    for language, codes in codes_by_language.items():
        plainest = closest(plain_codes[language], tuple(codes)) or codes[0]
        ordered[language] = (plainest, *(code for code in codes if code != plainest))
    return ordered
