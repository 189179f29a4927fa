"""Bodies of ``/documents``, and examples; those of sentences are in :mod:`app.http.schemas.sentences`."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Literal

from pydantic import Field

from app.http.schemas.answers import AnswerBody, is_none
from app.http.schemas.memory_fields import MemoryFields
from app.http.schemas.problems import ProblemBody
from app.http.schemas.requests import DecodingFields, request_examples


class DocumentRequest(DecodingFields, MemoryFields):
    """How to translate a document: the fields of the form, without the file."""


class SentencesBody(AnswerBody):
    """The progress of a document."""

    done: int
    """Translated sentences."""

    total: int | None
    """All its sentences; null until its translation begins."""


class MemoryCountsBody(AnswerBody):
    """How many sentences of a document translation memories have."""

    exact: int
    """Sentences whose translation is the stored one."""

    steered: int
    """Sentences whose translation was made from the stored translation of a similar sentence."""

    offered: int
    """Sentences that the model translated without the memory, and a similar sentence is stored."""


class DocumentBody(AnswerBody):
    """A document and its progress."""

    id: str
    """Its id; without keys, anyone who knows it can get and delete the document."""

    status: Literal["queued", "running", "done", "failed", "cancelled"]
    """`queued` until documents before it are done; `failed` with a `problem`."""

    filename: str
    """The name of the file."""

    sentences: SentencesBody
    """Its progress."""

    seconds_left: float | None
    """Estimated seconds until it is done; null if unknown."""

    expires_at: datetime
    """When it and its result will be deleted."""

    untranslated: int = Field(default=0, exclude_if=lambda number: number == 0)
    """Processed sentences that could not be translated, for example because a model failed, and remain in the source
    language; absent if there are none."""

    memory: MemoryCountsBody | None = Field(default=None, exclude_if=is_none)
    """How many of the processed sentences the translation memories have; absent without `memory` in the request."""

    already_in: str | None = Field(default=None, exclude_if=is_none)
    """The target language, if the document was detected to be in it and came back unchanged; absent otherwise."""

    problem: ProblemBody | None = Field(default=None, exclude_if=is_none)
    """Why it failed; absent unless it failed."""


class ListedDocumentBody(AnswerBody):
    """A document in a list."""

    id: str
    """Its id."""

    status: Literal["queued", "running", "done", "failed", "cancelled"]
    """As in its own description."""

    filename: str
    """The name of the file."""

    created_at: datetime
    """When it was added."""

    expires_at: datetime
    """When it and its result will be deleted."""


class DocumentsBody(AnswerBody):
    """A page of documents, the newest first."""

    documents: list[ListedDocumentBody]
    """The documents."""

    next: str | None
    """The `after` of the next page; null if there may be no more documents."""


DOCUMENT_REQUESTS = request_examples(
    {
        "a text file": {"file": "Good morning.\n", "source": "en", "target": "de"},
        "fast, with a glossary": {
            "file": "The house is old.\n",
            "source": "en",
            "target": "de",
            "decoding": "greedy",
            "glossary": '[{"source": "house", "target": "Gebäude"}]',
        },
    }
)
"""Fields of forms; the file is sent as ``document.txt``."""

DOCUMENT_ID = "0f3c9d5e8a7b4c21b6d0e9f8a7c6b5d4"

DOCUMENT_ADDED = DocumentBody(
    id=DOCUMENT_ID,
    status="queued",
    filename="document.txt",
    sentences=SentencesBody(done=0, total=None),
    seconds_left=None,
    expires_at=datetime(2026, 3, 2, 8, 30, tzinfo=UTC),
)

DOCUMENT_DONE = DocumentBody(
    id=DOCUMENT_ID,
    status="done",
    filename="document.txt",
    sentences=SentencesBody(done=1, total=1),
    seconds_left=None,
    expires_at=datetime(2026, 3, 2, 8, 30, tzinfo=UTC),
)

DOCUMENTS_LISTED = DocumentsBody(
    documents=[
        ListedDocumentBody(
            id=DOCUMENT_ID,
            status="done",
            filename="document.txt",
            created_at=datetime(2026, 3, 1, 8, 29, tzinfo=UTC),
            expires_at=datetime(2026, 3, 2, 8, 30, tzinfo=UTC),
        )
    ],
    next=None,
)
