"""One worker: it has loaded the model and translates rows. A row that cannot be translated gets an error."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from model.bulk.job import Job
from model.bulk.rows import PlacedRow, TranslatedRow
from model.errors import ModelError
from model.translation.results import Translation
from model.translator import Translator


class Worker:
    """A translator of rows.

    Args:
        job: What to do with them.

    Raises:
        ArtifactError: The bundle is not there, or another one.
        DeviceError: The device is not there.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._translator = Translator.load(job.bundle, job.device, job.num_threads, job.sha256, shortlist=job.shortlist)

    def translate(self, rows: Sequence[PlacedRow]) -> list[TranslatedRow]:
        """Translate rows.

        Args:
            rows: Some rows; their sentences share batches.

        Returns:
            One for each, in order.
        """
        torch.set_num_threads(self._job.num_threads)  # it applies to one thread, and Ray may change it
        texts = [row.text for row in rows if row.text is not None and row.error is None]
        answers = iter(self._translate(texts))
        return [
            TranslatedRow(row.file, row.row, row.failure, error=row.error)
            if row.text is None or row.error is not None
            else _answered(row, next(answers))
            for row in rows
        ]

    def _translate(self, texts: Sequence[str]) -> Sequence[Translation | str]:
        """The translation of each text, or why it has none."""
        try:
            job = self._job
            return self._translator.translate(texts, job.options, job.source, job.target)
        except Exception as error:  # noqa: BLE001  (the error of one text must not fail the others)
            if len(texts) == 1:
                return [_reason(error)]
        # Which text it was is found by translating each alone.
        return [row for text in texts for row in self._translate([text])]


def _answered(row: PlacedRow, answer: Translation | str) -> TranslatedRow:
    if isinstance(answer, str):
        return TranslatedRow(row.file, row.row, error=answer)
    confidence = answer.confidence
    return TranslatedRow(
        row.file,
        row.row,
        translation=answer.text,
        confidence=None if confidence is None else confidence.score,
        num_sentences=answer.num_sentences,
        num_source_tokens=answer.num_source_tokens,
        num_target_tokens=answer.num_target_tokens,
        is_cut=answer.finish_reason == "length",
    )


def _reason(error: Exception) -> str:
    return str(error) if isinstance(error, ModelError) else f"{type(error).__name__}: {error}"
