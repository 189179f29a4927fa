"""The translation of one document: a few units at a time, each stored when it is finished."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from app.documents.document import MAX_ATTEMPTS, MemoryCounts
from app.documents.formats.codes import has_words
from app.documents.formats.document_file import Unit
from app.documents.positions import packed
from app.engine.caller import Caller, Priority
from app.errors import DeadlineExceeded, DeadlineUnreachable, DocumentTooComplex, LimitExceeded, NotReady, QueueFull
from app.serving.backend import TranslationBackend
from app.serving.request import Memory, TranslationRequest
from model.translation.options import TranslationOptions
from model.translation.results import Translation

BATCH_SENTENCES = 16
"""Approximate sentences of a batch: enough to keep the CPUs busy, and soon done."""

NOBODY = "documents"
"""The id of the caller of documents without an owner."""

_RETRY_S = 1.0

Store = Callable[[Mapping[int, str | None], int, int, Mapping[int, bytes], MemoryCounts], Awaitable[None]]
"""Stores results by unit, with the number of their sentences, the number of those that were not translated, the
positions of their sentences (:func:`app.documents.positions.packed`), and how memories were used."""


class Suspended(Exception):
    """The service stops; the next start continues with the document."""


class Job:
    """Translates the units of a document.

    Args:
        service: Translates texts.
        source: The language of the document.
        target: The target language.
        options: How to translate it.
        owner: Its owner, or empty; its sentences are bulk work of the owner.
        store: Stores translations.
        is_bilingual: Whether a text that comes back unchanged counts as not translated.
        memory: Where its sentences are looked up; None for nowhere.
    """

    def __init__(
        self,
        service: TranslationBackend[Any],
        source: str,
        target: str,
        options: TranslationOptions,
        owner: str,
        store: Store,
        is_bilingual: bool = False,
        memory: Memory | None = None,
    ) -> None:
        self._service = service
        self._caller = Caller(owner or NOBODY, Priority.BULK)
        self._source = source
        self._target = target
        self._options = options
        self._store = store
        self._is_bilingual = is_bilingual
        self._memory = memory

    async def run(
        self,
        units: Sequence[Unit],
        num_sentences: Sequence[int],
        translations: Mapping[int, str | None],
        attempt: int = 1,
    ) -> None:
        """Translate the units that have no stored result.

        Args:
            units: All units of the document.
            num_sentences: The number of sentences in each of them.
            translations: Stored results by unit; None for a unit that could not be translated.
            attempt: The number of this attempt at the next units: after :data:`MAX_ATTEMPTS` each unit is translated
                alone, and a unit at which such an attempt has ended is given up.

        Raises:
            Suspended: The service stops.
            Exception: No unit could be translated; the error of the last one.
        """
        failure: Exception | None = None
        has_any = any(text is not None for text in translations.values())
        batches = _batches(units, num_sentences, translations, alone=attempt > MAX_ATTEMPTS)
        for number, batch in enumerate(batches):
            if number == 0 and attempt > MAX_ATTEMPTS + 1:
                outcomes: list[Translation | Exception] = [
                    DocumentTooComplex("The service ended while it was translating the document")
                ]
            else:
                outcomes = await self._translate([units[index] for index in batch])
            failures = [outcome for outcome in outcomes if isinstance(outcome, Exception)]
            failure = failures[-1] if failures else failure
            has_any = has_any or len(failures) < len(outcomes)
            texts = {index: self._stored(units[index], text) for index, text in zip(batch, outcomes, strict=True)}
            await self._store(
                {index: text for index, (text, _) in texts.items()},
                sum(num_sentences[index] for index in batch),
                sum(num_sentences[index] if text is None else left for index, (text, left) in texts.items()),
                {
                    index: packed(outcome.sentences, units[index].text, outcome.text)
                    for index, outcome in zip(batch, outcomes, strict=True)
                    if not isinstance(outcome, Exception)
                },
                _memory_counts(outcome for index, outcome in zip(batch, outcomes, strict=True) if texts[index][0]),
            )
        if failure is not None and not has_any:
            raise failure

    def _stored(self, unit: Unit, outcome: Translation | Exception) -> tuple[str | None, int]:
        """The translation of a unit, and how many of its sentences stay as they are.

        There is no translation if the unit stays as it is and counts as not translated, in a file that says which are
        translated also if one of its sentences stays.
        """
        if isinstance(outcome, Exception):
            return None, 0
        is_unchanged = outcome.text == unit.text and has_words(unit.words)
        if self._is_bilingual and (is_unchanged or outcome.num_untranslated):
            return None, 0
        return outcome.text, outcome.num_untranslated

    async def _translate(self, units: Sequence[Unit]) -> list[Translation | Exception]:
        """The translations of units of one format, or their errors."""
        while True:
            try:
                options = replace(self._options, format=units[0].format, return_sentences=True)
                texts = [unit.text for unit in units]
                result = await self._service.translate(
                    TranslationRequest(texts, self._source, self._target, options, self._caller, memory=self._memory)
                )
            except (DeadlineExceeded, LimitExceeded, DeadlineUnreachable) as error:
                if error.retry_after_s is None:
                    return await self._translate_alone(units, error)
                await asyncio.sleep(error.retry_after_s)
            except QueueFull as error:
                await asyncio.sleep(error.retry_after_s or _RETRY_S)
            except NotReady as error:
                if self._service.state in ("draining", "stopped", "failed"):
                    raise Suspended from error
                await asyncio.sleep(_RETRY_S)
            else:
                return result.results

    async def _translate_alone(self, units: Sequence[Unit], error: Exception) -> list[Translation | Exception]:
        """As :meth:`_translate`, each unit alone, after ``error`` of all; a single unit gets this error."""
        if len(units) == 1:
            return [error]
        return [outcome for unit in units for outcome in await self._translate([unit])]


def _memory_counts(outcomes: Iterable[Translation | Exception]) -> MemoryCounts:
    """How memories were used for the sentences of units."""
    uses = (use for outcome in outcomes if not isinstance(outcome, Exception) for use in outcome.memory or ())
    counts = Counter(use.status for use in uses)
    return MemoryCounts(counts["exact"], counts["steered"], counts["offered"])


def _batches(
    units: Sequence[Unit], num_sentences: Sequence[int], translations: Mapping[int, str | None], alone: bool
) -> Iterator[list[int]]:
    """The units without a stored result in batches of one format, or each alone."""
    batch: list[int] = []
    for index, unit in enumerate(units):
        if index in translations:
            continue
        if batch and (
            alone
            or units[batch[0]].format != unit.format
            or sum(num_sentences[member] for member in batch) + num_sentences[index] > BATCH_SENTENCES
        ):
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch
