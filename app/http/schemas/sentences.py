"""Bodies of ``/documents/{id}/sentences``, and examples."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from app.documents.stored_sentence import SentenceChange
from app.http.schemas.answers import AnswerBody, is_none
from app.http.schemas.fields import PartOfBody, RequestBody, measured
from app.http.schemas.requests import request_examples

MAX_CHANGES = 100
"""The most sentences that one request changes."""


class SentenceBody(AnswerBody):
    """A sentence of a document beside its translation."""

    number: int
    """Its number in the document, from 0."""

    text: int
    """The number of the paragraph, cell or subtitle that it belongs to, from 0."""

    source: str
    """The sentence. Inline elements are markers with numbers: `Please {1}click{/1} here`."""

    translation: str
    """Its translation, with the same markers."""

    edited: bool
    """Whether the translation is another one than the machine's."""

    confirmed: bool
    """Whether the translation is confirmed."""

    machine_translation: str | None = Field(default=None, exclude_if=is_none)
    """The machine's translation; absent unless `edited`."""

    markers: dict[int, str] | None = Field(default=None, exclude_if=is_none)
    """The numbers of its markers, each with the text that its element shows and that is not translated, such as code;
    empty for others. Other numbers in braces are text. Absent without markers."""


class _CountsBody(AnswerBody):
    """What is known of all sentences of a document."""

    total: int
    """All sentences of the document."""

    edited: int
    """Those with another translation than the machine's."""

    confirmed: int
    """Those that are confirmed."""

    expires_at: datetime
    """When the document and its edits will be deleted: a day after it was translated or last changed."""


class SentencesPageBody(_CountsBody):
    """A page of sentences, in the order of the document."""

    filename: str
    """The name of the file."""

    source: str
    """The language of the document."""

    target: str
    """The target language."""

    sentences: list[SentenceBody]
    """The sentences."""

    next: int | None
    """The `after` of the next page; null if there may be no more sentences."""


class ChangedSentencesBody(_CountsBody):
    """The sentences that a request changed."""

    sentences: list[SentenceBody]
    """The sentences as they are now, in the order of the request."""

    remembered: int | None = Field(default=None, exclude_if=is_none)
    """Those of them that are stored as corrections now; absent unless `VERSO_SUGGESTIONS` is `on`."""


class SentenceChangeBody(PartOfBody):
    """A change of a sentence."""

    number: Annotated[int, Field(ge=0, le=10**12)]
    """The number of the sentence."""

    translation: str | None = None
    """Its translation, with each of its markers once, and with its placeholders. Absent: it stays."""

    confirmed: bool | None = None
    """Whether the translation is confirmed. Absent: it stays confirmed if the translation does not change."""

    @model_validator(mode="after")
    def _changes_something(self) -> SentenceChangeBody:
        if self.translation is None and self.confirmed is None:
            raise PydanticCustomError("no_change", "has neither translation nor confirmed; send one of them")
        return self

    def change(self) -> SentenceChange:
        """The change that it describes."""
        return SentenceChange(self.number, self.translation, self.confirmed)


class SentenceChangesBody(RequestBody):
    """Changes of sentences; all of them are made, or none."""

    sentences: Annotated[list[SentenceChangeBody], measured(MAX_CHANGES), Field(min_length=1, max_length=MAX_CHANGES)]
    """The changes, at most one of each sentence."""


SENTENCE_CHANGES = request_examples(
    {
        "another translation, confirmed": {
            "sentences": [{"number": 0, "translation": "Guten Tag.", "confirmed": True}]
        },
        "confirmed as it is": {"sentences": [{"number": 0, "confirmed": True}]},
    }
)

_COUNTS = {"total": 1, "edited": 1, "confirmed": 1, "expires_at": datetime(2026, 3, 2, 8, 30, tzinfo=UTC)}

_SENTENCE = SentenceBody(
    number=0,
    text=0,
    source="Good morning.",
    translation="Guten Tag.",
    edited=True,
    confirmed=True,
    machine_translation="Guten Morgen.",
)

SENTENCES_PAGE = SentencesPageBody.model_validate(
    {
        **_COUNTS,
        "filename": "document.txt",
        "source": "en",
        "target": "de",
        "sentences": [_SENTENCE],
        "next": None,
    }
)

CHANGED_SENTENCES = ChangedSentencesBody.model_validate({**_COUNTS, "sentences": [_SENTENCE]})
