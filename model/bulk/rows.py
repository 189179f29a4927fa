"""Rows on their way through bulk translation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

TEXT_COLUMN = "text"
TRANSLATION_COLUMN = "translation"


@dataclass(frozen=True)
class Columns:
    """The names of columns of Parquet files, and of fields of JSON lines.

    Args:
        text: Has the text to translate.
        translation: Gets the translation. The names of the other new columns begin with it.
        has_confidence: Whether a column gets the confidence.
    """

    text: str = TEXT_COLUMN
    translation: str = TRANSLATION_COLUMN
    has_confidence: bool = False

    @property
    def error(self) -> str:
        """The column that says why a row has no translation."""
        return f"{self.translation}_error"

    @property
    def confidence(self) -> str:
        """The column of the confidence."""
        return f"{self.translation}_confidence"

    @property
    def added(self) -> tuple[str, ...]:
        """The columns that an output has and its input must not have."""
        return (self.translation, self.error, *((self.confidence,) if self.has_confidence else ()))


class SourceRow(NamedTuple):
    """A row of an input.

    Args:
        text: Its text; None if it has none, or an error.
        error: Why it cannot be translated.
    """

    text: str | None
    error: str | None = None


class PlacedRow(NamedTuple):
    """A row of an input, and where it is from.

    Args:
        file: Index of its file among those that are translated.
        row: Its index in the file.
        text: As in :class:`SourceRow`.
        error: As in :class:`SourceRow`.
        failure: Why the file cannot be read from here on. Such a row is the last one of its file and has no text.
    """

    file: int
    row: int
    text: str | None
    error: str | None
    failure: str | None


class TranslatedRow(NamedTuple):
    """The result of a row.

    Args:
        file: As in :class:`PlacedRow`.
        row: As in :class:`PlacedRow`.
        failure: As in :class:`PlacedRow`.
        translation: The translation; None if there was no text, or an error.
        error: Why there is no translation.
        confidence: Of the translation, if requested.
        num_sentences: Its sentences that were decoded.
        num_source_tokens: Their tokens.
        num_target_tokens: Tokens of their translations.
        is_cut: Whether a sentence reached the bound of its tokens.
    """

    file: int
    row: int
    failure: str | None = None
    translation: str | None = None
    error: str | None = None
    confidence: float | None = None
    num_sentences: int = 0
    num_source_tokens: int = 0
    num_target_tokens: int = 0
    is_cut: bool = False
