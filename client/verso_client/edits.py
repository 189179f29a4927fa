"""The sentences of a translated document, and changes of them."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class DocumentSentence:
    """A sentence of a document beside its translation.

    Args:
        number: Its number in the document, from 0.
        text: The number of its paragraph, cell or subtitle.
        source: The sentence; inline elements are markers such as ``{1}`` and ``{/1}``.
        translation: Its translation, with the same markers.
        edited: Whether the translation is another one than the machine's.
        confirmed: Whether the translation is confirmed.
        machine_translation: The machine's translation, if it is edited.
        markers: The numbers of its markers, each with the text that its element shows and that is not translated.
    """

    number: int
    text: int
    source: str
    translation: str
    edited: bool
    confirmed: bool
    machine_translation: str | None = None
    markers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SentencePage:
    """A page of the sentences of a document.

    Args:
        filename: The name of the file.
        source: The language of the document.
        target: The target language.
        sentences: The sentences, in order.
        next: The ``after`` of the next page; None if there may be no more sentences.
        total: The number of all sentences of the document.
        edited: The number of edited ones.
        confirmed: The number of confirmed ones.
        expires_at: When the service deletes the document and its edits (ISO 8601).
    """

    filename: str
    source: str
    target: str
    sentences: tuple[DocumentSentence, ...]
    next: int | None
    total: int
    edited: int
    confirmed: int
    expires_at: str


@dataclass(frozen=True, slots=True)
class ChangedSentences:
    """The sentences of a document that were changed.

    Args:
        sentences: The sentences as they are now.
        total: As for :class:`SentencePage`.
        edited: The number of edited ones.
        confirmed: The number of confirmed ones.
        expires_at: When the service deletes the document and its edits (ISO 8601).
        remembered: Those of them that are stored as corrections now; None if the service stores none.
    """

    sentences: tuple[DocumentSentence, ...]
    total: int
    edited: int
    confirmed: int
    expires_at: str
    remembered: int | None = None


@dataclass(frozen=True, slots=True)
class SentenceEdit:
    """A change of a sentence.

    Args:
        number: The number of the sentence.
        translation: Its translation, with each of its markers once; None to keep the one that it has.
        confirmed: Whether it is confirmed; by default it stays so if the translation does not change.
    """

    number: int
    translation: str | None = None
    confirmed: bool | None = None
