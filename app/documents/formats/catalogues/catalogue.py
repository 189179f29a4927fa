"""What all catalogues have in common: messages, their states, and translations written at the positions of values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

from app.documents.formats.catalogues.message_parts import message_parts
from app.documents.formats.document_file import TextFile, Unit

State = Literal["new", "unfinished", "translated", "fixed"]
"""``unfinished`` messages have a translation that must be made again; ``fixed`` ones are not for translation."""


@dataclass(frozen=True)
class Message:
    """A message of a catalogue.

    Args:
        key: Its name in the catalogue.
        source: Its texts: one, or several if it has plural forms.
        write: Writes the translations of all its texts.
        target: The translation that the file has.
        state: Whether it is to be translated.
    """

    key: str
    source: Sequence[Unit]
    write: Callable[[Sequence[str]], None]
    target: str = ""
    state: State = "new"


@dataclass
class _PendingMessage:
    """A message whose parts are not all translated.

    Args:
        message: The message.
        is_always_written: Whether a translation is written that equals the source.
        texts: The parts of each of its texts, in the file's language or translated.
        num_pending: How many parts have no translation.
    """

    message: Message
    is_always_written: bool
    texts: list[list[str]] = field(default_factory=list)
    num_pending: int = 0

    def put(self, parts: list[str], index: int, write_part: Callable[[str], str], translation: str) -> None:
        """Take the translation of a part; the last one writes the message."""
        parts[index] = write_part(translation)
        self.num_pending -= 1
        translations = ["".join(parts) for parts in self.texts] if not self.num_pending else []
        if translations and (self.is_always_written or translations != [unit.text for unit in self.message.source]):
            self.message.write(translations)


class CatalogueFile(TextFile):
    """A catalogue as text.

    A message is written when all its parts are translated; otherwise it keeps its text and its state.

    Args:
        data: The file.

    Raises:
        DocumentRefused: It is no text.
    """

    keeps_source = True
    is_bilingual = False
    """Whether it has a source and a translation of each message."""

    has_choices = False
    """Whether bars separate plural forms in its messages, as in those of Laravel and Vue."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self._declared_language = ""

    def declare_language(self, code: str) -> None:
        """Set the language that the file names for its translations; the first one counts."""
        self._declared_language = self._declared_language or code.strip()

    def add_message(self, message: Message) -> None:
        """Add the parts of a message as units, if it is to be translated.

        Args:
            message: The message.
        """
        if message.state == "translated" and message.target.strip():
            self.target_language = self._declared_language
        if message.state in ("translated", "fixed"):
            return
        pending = _PendingMessage(message, self.is_bilingual)
        for unit in message.source:
            parts = message_parts(unit.text, self.has_choices, self.is_bilingual)
            texts = [part.source for part in parts]
            pending.texts.append(texts)
            for index, part in enumerate(parts):
                if part.text:
                    num_units = len(self._units)
                    self.add(Unit(part.text, unit.format), partial(pending.put, texts, index, part.written))
                    pending.num_pending += len(self._units) - num_units

    def add_value(self, key: str, start: int, end: int, text: str, write: Callable[[str], str]) -> None:
        """Add a message that its translation replaces.

        Args:
            key: Its name in the catalogue.
            start: Its first character in the file.
            end: The character after its last.
            text: The text that it stands for.
            write: Writes a text as the file has it.
        """
        self.add_message(Message(key, [Unit(text)], lambda texts: self.replace(start, end, write(texts[0]))))

    def replace_value(self, start: int, end: int, text: str) -> None:
        """Replace ``text[start:end]``, unless it would stay the same."""
        if self.text[start:end] != text:
            self.replace(start, end, text)
