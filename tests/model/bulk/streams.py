"""Translators of rows that need neither Ray nor a model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from model.bulk.files import BulkFile
from model.bulk.job import Job
from model.bulk.reading import read_rows
from model.bulk.rows import Columns, PlacedRow, TranslatedRow
from model.translation.options import TranslationOptions

COLUMNS, OPTIONS = Columns(), TranslationOptions()


def a_job(
    *,
    columns: Columns = COLUMNS,
    options: TranslationOptions = OPTIONS,
    max_characters: int = 100,
) -> Job:
    return Job(Path("/nowhere.pt"), "ab" * 32, "cpu", 1, False, "en", "de", options, columns, max_characters)


def shouted(row: PlacedRow) -> TranslatedRow:
    """A translation is the text in capitals."""
    if row.text is None:
        return TranslatedRow(row.file, row.row, row.failure, error=row.error)
    return TranslatedRow(row.file, row.row, translation=row.text.upper(), confidence=0.5, num_sentences=1)


class ShoutingStream:
    """Translates the rows of files in this process.

    Args:
        job: What is done with texts.

    Attributes:
        num_texts: Texts that were translated.
        dies_after: Texts after which it fails, as when the process is killed.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self.num_texts = 0
        self.dies_after: int | None = None

    def __call__(self, files: Sequence[BulkFile]) -> Iterator[TranslatedRow]:
        for number, file in enumerate(files):
            for row in read_rows(number, file, self._job):
                if self.num_texts == self.dies_after:
                    raise KeyboardInterrupt
                self.num_texts += 1
                yield shouted(row)
