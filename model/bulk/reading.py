"""The rows of files, one after the other, as workers get them."""

from __future__ import annotations

from collections.abc import Iterator

from model.bulk.files import BulkFile
from model.bulk.job import Job
from model.bulk.rows import PlacedRow
from model.errors import DataError


def read_rows(number: int, file: BulkFile, job: Job) -> Iterator[PlacedRow]:
    """The rows of a file. Where it cannot be read any further, the last row says why.

    Args:
        number: Its index among the files of the run.
        file: The file.
        job: What is done with its texts.
    """
    index = 0
    try:
        for text, error in file.format.rows(file.source, job.columns):
            if text is not None and len(text) > job.max_characters:
                error = (
                    f"the text has {len(text)} characters and --max-characters is {job.max_characters}; raise it, or "
                    "split the text"
                )
                text = None
            yield PlacedRow(number, index, text, error, None)
            index += 1
    except DataError as failure:
        yield PlacedRow(number, index, None, None, str(failure))
