"""The translation memories that a request has chosen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from app.memories.lookup import DEFAULT_THRESHOLD, Lookup, Pairs
from app.serving.request import MemoryChoice
from model.translation.memory import MemoryMatch

if TYPE_CHECKING:
    from app.memories.service import MemoryService

_T = TypeVar("_T")

_SENTENCES_A_CALL = 8
"""Sentences of a request that are looked up in a row, before those of other requests."""


@dataclass(frozen=True)
class ChosenMemories:
    """The memories of a request; see :meth:`MemoryService.chosen`."""

    service: MemoryService
    owner: str | None
    choice: MemoryChoice

    @property
    def steers(self) -> bool:
        """See :class:`app.serving.request.Memory`."""
        return self.choice.threshold is not None

    async def exact(self, texts: Sequence[str], source: str, target: str) -> Sequence[MemoryMatch | None]:
        """See :class:`app.serving.request.Memory`."""
        if not self.service.has_any:
            return [None] * len(texts)
        matches = await self._by_slices(texts, source, target, Lookup.exact)
        self.service.note_used(matches)
        return matches

    async def best(self, sentences: Sequence[str | None], source: str, target: str) -> Sequence[MemoryMatch | None]:
        """See :class:`app.serving.request.Memory`."""
        if not self.service.has_any:
            return [None] * len(sentences)
        threshold = DEFAULT_THRESHOLD if self.choice.threshold is None else self.choice.threshold
        matches = await self._by_slices(sentences, source, target, partial(Lookup.best, threshold=threshold))
        self.service.note_used([match for match in matches if match is not None and match.is_exact])
        return matches

    async def _by_slices(
        self,
        texts: Sequence[_T],
        source: str,
        target: str,
        search: Callable[[Lookup, Pairs, Sequence[_T]], list[MemoryMatch | None]],
    ) -> list[MemoryMatch | None]:
        """Look up some texts at a time, so that a long request does not delay others."""
        matches: list[MemoryMatch | None] = []
        for begin in range(0, len(texts), _SENTENCES_A_CALL):
            part = texts[begin : begin + _SENTENCES_A_CALL]

            def look_up(lookup: Lookup, part: Sequence[_T] = part) -> list[MemoryMatch | None]:
                return search(lookup, lookup.pairs(self.owner, self.choice.ids, source, target), part)

            matches += await self.service.look_up(look_up)
        return matches
