"""Bodies of requests and answers, and an example of each."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from app.version import installed_version


class _Body(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True, use_attribute_docstrings=True)


class TranslateParameters(_Body):
    """Texts or a document to translate; other fields are ignored."""

    q: str | list[str]
    """A text or a list of texts. In forms and queries, line breaks become `\\n`."""

    source: str
    """The language of the texts in any case, or `auto` to detect it for each text."""

    target: str
    """The language of the translation."""

    format: Literal["text", "html"] = "text"
    """The format of the texts; in `html` only the text is translated."""

    alternatives: int = Field(0, ge=0)
    """Maximum number of alternatives for each text; the service has a limit."""

    api_key: str | None = None
    """A key, if the service has keys; otherwise ignored."""


class DetectParameters(_Body):
    """A text whose language to detect; other fields are ignored."""

    q: str
    """A text."""


class FileParameters(_Body):
    """Texts or a document to translate; other fields are ignored."""

    file: bytes
    """A document."""

    source: str
    """Its language, or `auto`."""

    target: str
    """The language of the translation."""


class TranslatedFile(_Body):
    """The location of a translated document."""

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


class SuggestedBody(_Body):
    """A suggestion was stored."""

    success: bool
    """Always true."""


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
    """Alternatives, best first, if `alternatives` is more than 0."""


class LanguageBody(_Body):
    """A language."""

    code: str
    """Its code."""

    name: str
    """Its English name."""

    targets: list[str]
    """Codes of the languages it can be translated to, itself included."""


class NamedLanguage(_Body):
    """A language that an interface may preselect."""

    code: str
    """Its code."""

    name: str
    """Its English name."""


class LanguageChoice(_Body):
    """The languages that an interface may preselect."""

    source: NamedLanguage
    """The language of the text."""

    target: NamedLanguage
    """The language of the translation."""


class SettingsBody(_Body):
    """Settings of the service for interfaces."""

    charLimit: int
    """Maximum number of characters in one text."""

    frontendTimeout: int
    """Milliseconds that an interface should wait after a keystroke."""

    apiKeys: bool
    """Whether the service has keys."""

    keyRequired: bool
    """Whether a key is required."""

    suggestions: bool
    """Whether `POST /suggest` is enabled."""

    filesTranslation: bool
    """Whether `POST /translate_file` is enabled."""

    supportedFilesFormat: list[str]
    """Endings of the files that it accepts."""

    language: LanguageChoice
    """Preselected languages."""


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

SUGGESTED = SuggestedBody(success=True)

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
