"""The translation of one document: a few units at a time, each stored when it is finished."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from app.documents.formats.document_file import Unit
from app.engine.caller import Caller, Priority
from app.errors import DeadlineExceeded, DeadlineUnreachable, LimitExceeded, NotReady, QueueFull
from app.serving.backend import TranslationBackend
from app.serving.request import TranslationRequest
from model.translation.options import TranslationOptions

BATCH_SENTENCES = 16
"""Sentences that are translated at once, about: enough to keep the processors busy, and soon done."""

NOBODY = "documents"
"""The caller of documents without an owner."""

_RETRY_S = 1.0

Store = Callable[[Mapping[int, str | None], int, int], Awaitable[None]]
"""Stores the translations of some units, given the number of their sentences and of those not translated."""


class Suspended(Exception):
    """The service stops; the document is translated further when it starts again."""


class Job:
    """Translates the units of a document.

    Args:
        service: Translates texts.
        source: The language of the document.
        target: The target language.
        options: How to translate it.
        owner: Whose it is, or nothing; its sentences take the turns of its owner's bulk.
        store: Stores translations.
    """

    def __init__(
        self,
        service: TranslationBackend[Any],
        source: str,
        target: str,
        options: TranslationOptions,
        owner: str,
        store: Store,
    ) -> None:
        self._service = service
        self._caller = Caller(owner or NOBODY, Priority.BULK)
        self._source = source
        self._target = target
        self._options = options
        self._store = store

    async def run(self, units: Sequence[Unit], num_sentences: Sequence[int], known: Mapping[int, str | None]) -> None:
        """Translate the units that are not translated yet.

        Args:
            units: All units of the document.
            num_sentences: How many sentences each of them has.
            known: The units that are translated already.

        Raises:
            Suspended: The service stops.
            Exception: No unit could be translated; the error of the last one.
        """
        failure: Exception | None = None
        has_any = any(text is not None for text in known.values())
        for batch in _batches(units, num_sentences, known):
            outcomes = await self._translate([units[index] for index in batch])
            failures = [outcome for outcome in outcomes if isinstance(outcome, Exception)]
            failure = failures[-1] if failures else failure
            has_any = has_any or len(failures) < len(outcomes)
            pairs = list(zip(batch, outcomes, strict=True))
            await self._store(
                {index: None if isinstance(outcome, Exception) else outcome for index, outcome in pairs},
                sum(num_sentences[index] for index in batch),
                sum(num_sentences[index] for index, outcome in pairs if isinstance(outcome, Exception)),
            )
        if failure is not None and not has_any:
            raise failure

    async def _translate(self, units: Sequence[Unit]) -> list[str | Exception]:
        """The translations of units of one format, or why there are none."""
        while True:
            try:
                options = replace(self._options, format=units[0].format)
                texts = [unit.text for unit in units]
                result = await self._service.translate(
                    TranslationRequest(texts, self._source, self._target, options, self._caller)
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
                return [one if isinstance(one, Exception) else one.text for one in result.results]

    async def _translate_alone(self, units: Sequence[Unit], error: Exception) -> list[str | Exception]:
        """As :meth:`_translate`, each unit alone, after they failed together; what has failed alone has its error."""
        if len(units) == 1:
            return [error]
        return [found for unit in units for found in await self._translate([unit])]


def _batches(
    units: Sequence[Unit], num_sentences: Sequence[int], known: Mapping[int, str | None]
) -> Iterator[list[int]]:
    """The units to translate, some at a time, all of one format."""
    batch: list[int] = []
    for index, unit in enumerate(units):
        if index in known:
            continue
        if batch and (
            units[batch[0]].format != unit.format
            or sum(num_sentences[one] for one in batch) + num_sentences[index] > BATCH_SENTENCES
        ):
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch
