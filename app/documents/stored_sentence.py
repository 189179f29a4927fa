"""A sentence of a document with its translations, and a change of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from app.documents.edit_check import without_markers
from model.text.markup.items import MAX_SHOWN


@dataclass(frozen=True)
class StoredSentence:
    """A sentence of a document.

    Args:
        number: Its number in the document, from 0.
        unit: The number of its unit.
        source: The sentence, with markers of inline elements.
        machine_translation: The machine's translation.
        edit: The translation that replaces it, or None.
        is_confirmed: Whether the translation is confirmed.
        markers: By the number of each marker, what its element shows (:class:`app.documents.sentences.Sentence`).
    """

    number: int
    unit: int
    source: str
    machine_translation: str
    edit: str | None
    is_confirmed: bool
    markers: Mapping[int, str] = field(default_factory=dict)

    @property
    def translation(self) -> str:
        """Its translation now."""
        return self.machine_translation if self.edit is None else self.edit

    @property
    def plain(self) -> tuple[str, str] | None:
        """The sentence and its translation without markers; None if an element has text that is stored shortened."""
        if any(len(shown) > MAX_SHOWN for shown in self.markers.values()):
            return None
        return without_markers(self.source, self.markers), without_markers(self.translation, self.markers)


@dataclass(frozen=True)
class SentenceChange:
    """A change of a sentence.

    Args:
        number: The number of the sentence.
        translation: The translation; None to keep the one that it has.
        is_confirmed: Whether it is confirmed; by default it stays so if its translation does.
    """

    number: int
    translation: str | None = None
    is_confirmed: bool | None = None

    def applied(self, sentence: StoredSentence) -> tuple[str | None, bool]:
        """The edit and the confirmation of a sentence after the change."""
        edit = sentence.edit if self.translation is None else self.translation
        if edit == sentence.machine_translation:
            edit = None
        is_confirmed = sentence.is_confirmed and edit == sentence.edit
        return edit, is_confirmed if self.is_confirmed is None else self.is_confirmed
