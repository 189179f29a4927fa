"""What all formats have in common: units of text, and their replacement by translations."""

from __future__ import annotations

import html
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from app.documents.formats.encodings import Declaration, TextEncoding, decoded
from app.documents.formats.languages import LanguageMark
from app.errors import DocumentRefused
from app.serving.detection import has_letters
from model.translation.options import TextFormat

_TAG = re.compile(r"<[^<>]*>")
# No character has such a number, and Python reads no longer one.
_LONG_NUMBER = re.compile(r"&#(?:0*+[0-9]{8,}|[xX]0*+[0-9a-fA-F]{7,});?")

MAX_UNITS = 100_000
"""Units of a document: paragraphs, cells, subtitles."""


@dataclass(frozen=True)
class Unit:
    """A part of a document that is translated by itself: a paragraph, a cell, some subtitles.

    Args:
        text: Its text or markup.
        format: What the text is written in.
    """

    text: str
    format: TextFormat = "text"

    @property
    def words(self) -> str:
        """Its text without tags, for counting sentences and detecting the language."""
        return self.text if self.format == "text" else unescaped(_TAG.sub(" ", self.text))


def unescaped(text: str) -> str:
    """The characters that a text of HTML stands for.

    Args:
        text: A text without tags.
    """
    return html.unescape(_LONG_NUMBER.sub("\ufffd", text))


class DocumentFile(ABC):
    """A file that has been read. Its constructor takes the bytes, and raises DocumentRefused if they are broken."""

    keeps_source = False
    """Whether translations are written beside their sources, so that those equal to them are written, too."""

    target_language = ""
    """The language of the translations that it has, as it names it; empty if it has none."""

    @property
    def named_language(self) -> str:
        """The language that the file names as its own; empty if none."""
        return ""

    def __init__(self) -> None:
        self._units: list[Unit] = []
        self._puts: list[Callable[[str], None]] = []  # one for each unit

    @property
    def units(self) -> list[Unit]:
        """What is to be translated, in the order of the document."""
        return self._units

    def write(self, translations: Sequence[str | None], target: str) -> bytes:
        """The file with its units translated; to be called once.

        A unit that has no translation, or is replaced by the same text, stays byte for byte.

        Args:
            translations: One for each unit, in order; None leaves the unit as it is.
            target: The target language, for formats that name it.
        """
        self._replace_units(translations)
        return self.to_bytes(target)

    def _replace_units(self, translations: Sequence[str | None]) -> None:
        """Replace the units; what they refer to in the file is then forgotten."""
        for unit, put, translation in zip(self._units, self._puts, translations, strict=True):
            if translation is not None and (self.keeps_source or translation != unit.text):
                put(translation)
        self._puts = []

    @abstractmethod
    def to_bytes(self, target: str) -> bytes:
        """The file in its present state.

        Args:
            target: The target language.
        """

    def add(self, unit: Unit, put: Callable[[str], None]) -> None:
        """Add a unit; a plain text without letters is none.

        Args:
            unit: The unit.
            put: Replaces it by its translation.

        Raises:
            DocumentRefused: There are too many.
        """
        if unit.format != "text" or has_letters(unit.text):
            self._units.append(unit)
            self._puts.append(put)
            self._check_number()

    def include(self, part: DocumentFile) -> None:
        """Add the units of another file, which is a part of this one.

        Raises:
            DocumentRefused: There are too many.
        """
        self._units += part._units
        self._puts += part._puts
        self._check_number()

    def _check_number(self) -> None:
        if len(self._units) > MAX_UNITS:
            raise DocumentRefused(f"The document has more than {MAX_UNITS} paragraphs; send it in parts.")


class TextFile(DocumentFile):
    """A text file, in which stretches of characters are replaced, and everything else is kept byte for byte.

    Args:
        data: The file.

    Raises:
        DocumentRefused: It is no text.
    """

    declaration: Declaration | None = None
    """How files of the format declare their encoding."""

    def __init__(self, data: bytes) -> None:
        super().__init__()
        self.text, self._encoding = decoded(data, self.declaration)
        self._data = data
        self._replaced: list[tuple[int, int, str]] = []

    @property
    def encoding(self) -> TextEncoding:
        """How the characters are stored."""
        return self._encoding

    @cached_property
    def line_end(self) -> str:
        """The characters that end its lines."""
        return "\r\n" if "\r\n" in self.text else "\n"

    @property
    def is_changed(self) -> bool:
        """Whether anything was replaced."""
        return bool(self._replaced)

    def replace(self, start: int, end: int, text: str) -> None:
        """Replace ``text[start:end]`` in the file that will be written; stretches do not overlap."""
        self._replaced.append((start, end, text))

    def withdraw(self, start: int, end: int) -> None:
        """Undo the last replacements if they are in ``text[start:end]``."""
        while self._replaced and start <= self._replaced[-1][0] < end:
            self._replaced.pop()

    def add_stretch(self, start: int, end: int, format: TextFormat = "text") -> None:
        """Add ``text[start:end]`` as a unit that its translation replaces."""
        self.add(Unit(self.text[start:end], format), lambda translation: self.replace(start, end, translation))

    def language_marks(self) -> Iterable[LanguageMark]:
        """What depends on the language of the file."""
        return ()

    @property
    def named_language(self) -> str:
        """The language that the file names as its own, without a region if it does so somewhere; empty if none."""
        return min((mark.language for mark in self.language_marks() if mark.language), key=len, default="")

    def in_language(self, text: str, target: str) -> str:
        """A text that replaces a stretch, with the target language where the text names its language."""
        return text

    def to_bytes(self, target: str) -> bytes:
        """The file with its stretches replaced, which names the target language as its own."""
        return self.written(target) if self._replaced else self._data

    def written(self, target: str) -> bytes:
        """As :meth:`to_bytes`, also if no stretch is replaced."""
        stretches = [(start, end, self.in_language(text, target)) for start, end, text in self._replaced]
        if target:
            stretches += [(mark.start, mark.end, mark.write(target)) for mark in self.language_marks()]
        return self._encoding.encode(with_stretches(self.text, sorted(stretches)))


def with_stretches(text: str, stretches: Iterable[tuple[int, int, str]]) -> str:
    """A text with other texts instead of some stretches.

    Args:
        text: The text.
        stretches: The first character of each, the one after its last, and the new text, in order. One in another one
            is left out.
    """
    parts: list[str] = []
    done = 0
    for start, end, new in stretches:
        if start >= done:
            parts += [text[done:start], new]
            done = end
    return "".join([*parts, text[done:]])


def count_sentences(units: Sequence[Unit], language: str) -> list[int]:
    """The number of sentences of each unit, one at least. It is for progress, and need not be exact.

    Args:
        units: The units.
        language: Their language, without a region.
    """
    # Imported here: a document that is only taken in is not segmented.
    from model.text.segmentation import split_text

    return [
        max(
            1,
            sum(
                has_letters(text[segment.start : segment.end])
                for segment in split_text(text, language, lambda start, end: True)
            ),
        )
        for text in (unit.words for unit in units)
    ]
