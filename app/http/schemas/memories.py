"""Bodies of ``/memories``, and examples."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from app.http.schemas.answers import AnswerBody
from app.http.schemas.fields import Language, PartOfBody, RequestBody, Text, measured, without_nul
from app.http.schemas.memory_fields import MemoryIds
from app.http.schemas.requests import request_examples
from app.memories.lookup import DEFAULT_THRESHOLD, MIN_THRESHOLD
from app.memories.unit import MAX_TEXT_CHARACTERS

MAX_NAME_CHARACTERS = 1_000
MAX_UNITS_AT_ONCE = 1_000
MAX_MATCHES = 20

MEMORY_ID = "8c6f1c0e-30d5-4a0e-8a48-4f0a4c1f7b11"
"""The memory of examples."""


def _not_blank(text: str) -> str:
    if not text.strip():
        raise PydanticCustomError("blank", "must not be blank")
    return without_nul(text)


UnitText = Annotated[str, Field(max_length=MAX_TEXT_CHARACTERS), AfterValidator(_not_blank)]
"""One side of a unit."""

MemoryName = Annotated[str, Field(max_length=MAX_NAME_CHARACTERS), AfterValidator(_not_blank)]


class MemoryRequest(RequestBody):
    """A new translation memory."""

    name: MemoryName
    """Its name."""

    source: Language
    """The language of its source texts; translations may have any languages."""


class UnitRequest(PartOfBody):
    """A text and its translation."""

    source: UnitText
    """The text: a sentence, or several that are looked up together."""

    target: UnitText
    """Its translation."""


class UnitsRequest(RequestBody):
    """Units to add to a translation memory."""

    units: Annotated[list[UnitRequest], Field(min_length=1, max_length=MAX_UNITS_AT_ONCE), measured(MAX_UNITS_AT_ONCE)]
    """The units; one with the same source and language as a stored one replaces it."""

    target: Language
    """The language of the translations."""

    source: Language | None = None
    """The language of the texts; required for `corrections`, and otherwise that of the memory."""


class MatchesRequest(RequestBody):
    """A sentence to look up."""

    text: Text
    """The sentence."""

    source: Language
    """Its language."""

    target: Language
    """The language of the translations."""

    memory: MemoryIds | None = None
    """The id of a translation memory, or several; null for all of the caller."""

    threshold: float = Field(DEFAULT_THRESHOLD, ge=MIN_THRESHOLD, le=1.0)
    """The lowest similarity; 1 for equal sentences only."""

    limit: int = Field(5, ge=1, le=MAX_MATCHES)
    """Most matches."""


class MemoryBody(AnswerBody):
    """A translation memory."""

    id: str
    """Its id."""

    name: str
    """Its name."""

    source: str
    """The language of its source texts."""

    targets: dict[str, int]
    """The languages of its translations, each with its number of units."""

    units: int
    """Number of its units."""

    corrections: bool
    """Whether it is the memory of the caller's corrected sentences, which requests also name `corrections`."""

    created_at: datetime
    """When it was created."""

    updated_at: datetime
    """When units were last added or deleted."""


class MemoriesBody(AnswerBody):
    """The translation memories of the caller."""

    memories: list[MemoryBody]
    """The memories, the oldest first."""


class DeletedMemoriesBody(AnswerBody):
    """What was deleted."""

    deleted: int
    """Number of memories."""


class AddedUnitsBody(AnswerBody):
    """What was added to a memory."""

    memory: str
    """The id of the memory."""

    added: int
    """New units."""

    replaced: int
    """Units whose translation was changed."""

    unchanged: int
    """Units that the memory had already."""


class ImportedBody(AddedUnitsBody):
    """What a file has added to a memory."""

    skipped: int
    """Units without a text in the memory's language and a translation, or with a text that is too long."""


class UnitBody(AnswerBody):
    """A unit of a memory."""

    id: int
    """Its id."""

    source: str
    """The text."""

    target: str
    """Its translation."""

    language: str
    """The language of the translation."""

    created_at: datetime
    """When it was added."""

    updated_at: datetime
    """When its translation was last changed."""

    used_at: datetime | None
    """When it last answered a request; null if it never did."""


class UnitsBody(AnswerBody):
    """A page of units, the oldest first."""

    units: list[UnitBody]
    """The units."""

    next: int | None
    """The `after` of the next page; null if there may be no more units."""


class MatchBody(AnswerBody):
    """A stored translation of a sentence or of a similar one."""

    source: str
    """The stored sentence."""

    target: str
    """Its translation."""

    score: float
    """The similarity, 0 to 1; 1 if the sentences are equal."""

    memory: str
    """The id of its memory."""

    unit: int
    """Its id in the memory."""


class MatchesBody(AnswerBody):
    """Stored translations, the best first."""

    matches: list[MatchBody]
    """The matches."""


_TIME = datetime(2026, 3, 1, 8, 30, tzinfo=UTC)

MEMORY = MemoryBody(
    id=MEMORY_ID,
    name="Manuals",
    source="en",
    targets={"de": 2},
    units=2,
    corrections=False,
    created_at=_TIME,
    updated_at=_TIME,
)

MEMORIES = MemoriesBody(memories=[MEMORY])

DELETED_MEMORIES = DeletedMemoriesBody(deleted=1)

ADDED_UNITS = AddedUnitsBody(memory=MEMORY_ID, added=1, replaced=0, unchanged=0)

IMPORTED = ImportedBody(memory=MEMORY_ID, added=2, replaced=0, unchanged=0, skipped=0)

UNIT = UnitBody(
    id=17,
    source="Close the valve.",
    target="Schließen Sie das Ventil.",
    language="de",
    created_at=_TIME,
    updated_at=_TIME,
    used_at=None,
)

UNITS = UnitsBody(units=[UNIT], next=None)

MATCHES = MatchesBody(
    matches=[
        MatchBody(
            source="Close the valve.", target="Schließen Sie das Ventil.", score=0.8889, memory=MEMORY_ID, unit=17
        )
    ]
)

MEMORY_REQUESTS = request_examples({"a memory": {"name": "Manuals", "source": "en"}})

_UNITS: dict[str, Any] = {
    "units": [{"source": "Close the valve.", "target": "Schließen Sie das Ventil."}],
    "target": "de",
}

UNITS_REQUESTS = request_examples(
    {"a unit": _UNITS, "a corrected sentence, with corrections as the id": {**_UNITS, "source": "en"}}
)

MATCHES_REQUESTS = request_examples(
    {"a sentence": {"text": "Close the valves.", "source": "en", "target": "de", "threshold": 0.7}}
)
