"""Bodies of requests and answers, for the OpenAPI document and for the answers, and an example of each."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from app.version import installed_version


class _Body(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True, use_attribute_docstrings=True)


class TranslateParameters(_Body):
    """What to translate; other fields are ignored."""

    q: str | list[str]
    """A text or a list of texts. In forms and queries, line breaks become `\\n`."""

    source: str
    """The language of the texts, or `auto`: it is then detected for each text. Any case."""

    target: str
    """The language of the translation."""

    format: Literal["text", "html"] = "text"
    """What the texts are written in; of `html` only the text is translated."""

    alternatives: int = Field(0, ge=0)
    """Most other translations of each text; the service has a limit."""

    api_key: str | None = None
    """A key, where the service has keys; else accepted and not needed."""


class DetectParameters(_Body):
    """What to detect the language of; other fields are ignored."""

    q: str
    """A text."""


class FileParameters(_Body):
    """What to translate; other fields are ignored."""

    file: bytes
    """A document."""

    source: str
    """Its language, or `auto`."""

    target: str
    """The language of the translation."""


class TranslatedFile(_Body):
    """Where a translated document is."""

    translatedFileUrl: str
    """The address to download it from."""


class SuggestParameters(_Body):
    """A better translation; other fields are ignored."""

    q: str
    """The text."""

    s: str
    """Its translation."""

    source: str
    """The language of the text."""

    target: str
    """The language of the translation."""


class DetectionBody(_Body):
    """A detected language."""

    confidence: float
    """Its probability among the loaded languages, 0 to 100."""

    language: str
    """Its code."""


class TranslateAnswer(_Body):
    """Translations, in the form of `q`: each field is one value for a text, and a list for a list of texts."""

    translatedText: str | list[str]
    """The translation."""

    detectedLanguage: DetectionBody | list[DetectionBody] | None = None
    """The detected language, if `source` is `auto`."""

    alternatives: list[str] | list[list[str]] | None = None
    """Other translations, best first, if `alternatives` asks for any."""


class LanguageBody(_Body):
    """A language."""

    code: str
    """Its code."""

    name: str
    """Its English name."""

    targets: list[str]
    """Codes of the languages it can be translated to, and its own."""


class NamedLanguage(_Body):
    """A language that an interface may choose at first."""

    code: str
    """Its code."""

    name: str
    """Its English name."""


class LanguageChoice(_Body):
    """The languages that an interface may choose at first."""

    source: NamedLanguage
    """Of the text."""

    target: NamedLanguage
    """Of the translation."""


class SettingsBody(_Body):
    """What interfaces want to know about the service."""

    charLimit: int
    """Most characters in one text."""

    frontendTimeout: int
    """Milliseconds an interface should wait after a key press."""

    apiKeys: bool
    """Whether there are keys."""

    keyRequired: bool
    """Whether a key is needed."""

    suggestions: bool
    """Whether `POST /suggest` is enabled."""

    filesTranslation: bool
    """Whether `POST /translate_file` is enabled."""

    supportedFilesFormat: list[str]
    """Endings of the files it takes."""

    language: LanguageChoice
    """Languages to begin with."""


class HealthBody(_Body):
    """Whether the service translates."""

    status: Literal["ok"]
    """Always `ok`; otherwise the answer is an error."""


class ErrorBody(_Body):
    """Any error."""

    error: str
    """What is wrong."""


TRANSLATE_REQUESTS: dict[str, dict[str, Any]] = {
    "one text": {"q": "Good morning.", "source": "en", "target": "de"},
    "HTML, as Mastodon sends it": {
        "q": ["<p>Good morning, <strong>world</strong>.</p>", ""],
        "source": "auto",
        "target": "de",
        "format": "html",
        "api_key": "",
    },
    "alternatives": {"q": "The house is old.", "source": "en", "target": "de", "alternatives": 2},
}

DETECT_REQUEST = {"q": "Guten Morgen!"}

SUGGEST_REQUEST = {"q": "Good morning.", "s": "Guten Morgen.", "source": "en", "target": "de"}

TRANSLATED = TranslateAnswer(translatedText="Guten Morgen.")

DETECTED = [DetectionBody(confidence=98.2, language="de")]

LANGUAGES = [
    LanguageBody(code="de", name="German", targets=["de", "en"]),
    LanguageBody(code="en", name="English", targets=["de", "en"]),
]

FRONTEND_SETTINGS = SettingsBody(
    charLimit=50_000,
    frontendTimeout=500,
    apiKeys=False,
    keyRequired=False,
    suggestions=False,
    filesTranslation=True,
    supportedFilesFormat=[".docx", ".html", ".srt", ".txt"],
    language=LanguageChoice(
        source=NamedLanguage(code="auto", name="Auto Detect"), target=NamedLanguage(code="en", name="English")
    ),
)

FILE_TRANSLATED = TranslatedFile(
    translatedFileUrl="http://localhost:8000/libretranslate/download_file/0f3c9d5e8a7b4c21b6d0e9f8a7c6b5d4.letter.docx"
)

HEALTHY = HealthBody(status="ok")

SPEC = {"openapi": "3.1.0", "info": {"title": "Verso", "version": installed_version()}, "paths": {}}
