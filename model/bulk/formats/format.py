"""What a format of files offers, and what formats share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from model.bulk.rows import Columns, SourceRow, TranslatedRow
from model.errors import DataError
from model.text.utf8 import decode


class Format(Protocol):
    """Reads the texts of a file, and writes the file again with their translations."""

    def check(self, path: Path, columns: Columns) -> None:
        """Look at the beginning of a file.

        Raises:
            DataError: It is damaged, or its columns are others.
        """
        ...

    def rows(self, path: Path, columns: Columns) -> Iterator[SourceRow]:
        """The rows of a file, in order.

        Raises:
            DataError: The file is damaged.
        """
        ...

    def write(
        self, path: Path, out: Path, errors: Path, columns: Columns, rows: Iterator[TranslatedRow]
    ) -> Iterator[int]:
        """Write a file with its translations, while they come.

        Args:
            path: The file that :meth:`rows` read.
            out: The file to write.
            errors: A file for errors of rows, of formats that have no columns; written only if there are any.
            columns: The names of columns.
            rows: The results of the rows, in order.

        Yields:
            Bytes of the input that are done.

        Raises:
            DataError: The file is damaged, or was changed after :meth:`rows` read it.
        """
        ...


def changed(path: Path) -> DataError:
    """The error for a file that has other rows than it had when it was read."""
    return DataError(f"{path} was changed while it was translated; run the command again.")


def numbered_lines(path: Path) -> Iterator[tuple[int, str, int]]:
    """The lines of a text file: number from 1, text without the line break, and bytes of the file up to its end.

    Raises:
        DataError: The file cannot be read, or a line is not UTF-8.
    """
    num_bytes = 0
    try:
        with path.open("rb") as source:
            for number, line in enumerate(source, start=1):
                num_bytes += len(line)
                yield number, decode(line.removesuffix(b"\n").removesuffix(b"\r"), number, str(path)), num_bytes
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}.") from error
