"""The fields of requests that name translation memories, and their use in answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from app.http.schemas.answers import AnswerBody
from app.http.schemas.fields import RequestBody, measured
from app.memories.lookup import MAX_MEMORIES, MIN_THRESHOLD
from model.translation.memory import MemoryUse

MemoryId = Annotated[str, Field(min_length=1, max_length=100)]
"""The id of a translation memory."""


def _listed(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


MemoryIds = Annotated[
    list[MemoryId],
    Field(min_length=1, max_length=MAX_MEMORIES),
    measured(MAX_MEMORIES),
    BeforeValidator(_listed, json_schema_input_type=MemoryId | list[MemoryId]),
]
"""The id of a memory, or several."""


class MemoryFields(RequestBody):
    """The translation memories in which the sentences of a request are looked up."""

    memory: MemoryIds | None = None
    """The id of a translation memory (`/memories`), or a list of ids, of which earlier ones count first; `corrections`
    for the caller's corrected sentences. A sentence that a memory has comes back as it is stored there; a similar one
    is offered in the answer."""

    memory_threshold: float | None = Field(None, ge=MIN_THRESHOLD, le=1.0)
    """The similarity from which on the stored translation of a similar sentence is used: where the sentences differ,
    its words are replaced by those of the model, if their place is certain. With null similar sentences are only
    offered, from 0.7 on; with 1 there are none."""


class MemoryUseBody(AnswerBody):
    """A sentence that a translation memory has, or a similar one."""

    source: tuple[int, int]
    """First character of the sentence and the one after its last, in the text sent."""

    status: Literal["exact", "steered", "offered"]
    """`exact` if the sentence's translation is the stored one, `steered` if it was made from the stored translation of
    a similar sentence, `offered` if the model translated it without the memory."""

    score: float
    """The similarity of the sentence and the stored one, 0 to 1; 1 if they are equal."""

    memory: str
    """The id of the memory."""

    unit: int
    """The id of the unit in the memory."""

    stored_source: str
    """The stored sentence."""

    stored_target: str
    """Its translation."""


def memory_uses(uses: Sequence[MemoryUse] | None) -> list[MemoryUseBody] | None:
    """The uses of memories in the form of an answer."""
    if uses is None:
        return None
    return [
        MemoryUseBody(
            source=use.source,
            status=use.status,
            score=use.match.score,
            memory=use.match.memory,
            unit=use.match.unit,
            stored_source=use.match.source,
            stored_target=use.match.target,
        )
        for use in uses
    ]
