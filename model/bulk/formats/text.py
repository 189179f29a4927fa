"""Text files: each line is a text, as in ``verso translate``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TextIO

from model.bulk.formats.format import changed, numbered_lines
from model.bulk.rows import Columns, SourceRow, TranslatedRow


class TextLines:
    """Each line of the output is the translation of that line. The line of an error is empty."""

    def check(self, path: Path, columns: Columns) -> None:
        """Look at the first line."""
        next(self.rows(path, columns), None)

    def rows(self, path: Path, columns: Columns) -> Iterator[SourceRow]:
        """The lines."""
        for _, text, _ in numbered_lines(path):
            yield SourceRow(text)

    def write(
        self, path: Path, out: Path, errors: Path, columns: Columns, rows: Iterator[TranslatedRow]
    ) -> Iterator[int]:
        """Write a line for each line."""
        with ExitStack() as files:
            sink = files.enter_context(out.open("w", encoding="utf-8", newline="\n"))
            error_sink: TextIO | None = None
            for number, _, position in numbered_lines(path):
                row = next(rows, None)
                if row is None:
                    raise changed(path)
                if row.error is not None:
                    error_sink = error_sink or files.enter_context(errors.open("w", encoding="utf-8", newline="\n"))
                    error_sink.write(json.dumps({"line": number, columns.error: row.error}, ensure_ascii=False) + "\n")
                if columns.has_confidence:
                    sink.write("\t" if row.confidence is None else f"{row.confidence:.4f}\t")
                sink.write(f"{row.translation or ''}\n")
                yield position
            if next(rows, None) is not None:
                raise changed(path)
