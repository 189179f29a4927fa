"""JSON lines: each line is an object with fields; blank lines stay."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from model.bulk.formats.format import changed, numbered_lines
from model.bulk.rows import Columns, SourceRow, TranslatedRow
from model.errors import DataError

_LINES_TO_CHECK = 100
"""Number of first lines among which one must have the field of the text."""


class JsonLines:
    """The output has the same lines, byte by byte, with fields for the translation at the end of each object."""

    def check(self, path: Path, columns: Columns) -> None:
        """Look at the first lines."""
        fields: dict[str, None] = {}
        for number, line, _ in islice(numbered_lines(path), _LINES_TO_CHECK):
            if line.strip():
                fields |= dict.fromkeys(_parse(path, number, line, columns))
        if fields and columns.text not in fields:
            raise DataError(
                f"{path} has no field {columns.text!r} in its first {_LINES_TO_CHECK} lines; it has "
                f"{', '.join(map(repr, fields))}. Name the field of the text with --column."
            )

    def rows(self, path: Path, columns: Columns) -> Iterator[SourceRow]:
        """The field of each line."""
        for number, line, _ in numbered_lines(path):
            if not line.strip():
                yield SourceRow(None)
                continue
            fields = _parse(path, number, line, columns)
            text = fields.get(columns.text)
            if columns.text not in fields:
                yield SourceRow(None, f"there is no field {columns.text!r}")
            elif text is None:
                yield SourceRow(None)
            elif isinstance(text, str):
                half = re.search("[\ud800-\udfff]", text)
                yield (
                    SourceRow(text)
                    if half is None
                    else SourceRow(
                        None, f"the field {columns.text!r} has half a surrogate pair at character {half.start()}"
                    )
                )
            else:
                yield SourceRow(None, f"the field {columns.text!r} is no text: {json.dumps(text)[:50]}")

    def write(
        self, path: Path, out: Path, errors: Path, columns: Columns, rows: Iterator[TranslatedRow]
    ) -> Iterator[int]:
        """Write an object for each object."""
        with out.open("w", encoding="utf-8", newline="\n") as sink:
            for _, line, position in numbered_lines(path):
                row = next(rows, None)
                if row is None:
                    raise changed(path)
                sink.write(_with_fields(line, columns, row) + "\n" if line.strip() else line + "\n")
                yield position
            if next(rows, None) is not None:
                raise changed(path)


def _parse(path: Path, number: int, line: str, columns: Columns) -> dict[str, Any]:
    """The fields of a line.

    Raises:
        DataError: It is no object, or has a field of the output.
    """
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DataError(
            f"Line {number} of {path} is not JSON: {error}. If the file was cut short, restore it from a copy."
        ) from error
    if not isinstance(fields, dict):
        raise DataError(f"Line {number} of {path} is {line.strip()[:50]!r}; each line must be a JSON object.")
    for name in columns.added:
        if name in fields:
            raise DataError(
                f"Line {number} of {path} has a field {name!r}, which the translation would get; "
                "name another one with --output-column."
            )
    return fields


def _with_fields(line: str, columns: Columns, row: TranslatedRow) -> str:
    """A line with the fields of its translation. The other fields keep their bytes: rewritten numbers could differ."""
    added: dict[str, Any] = {columns.translation: row.translation}
    if row.error is not None:
        added[columns.error] = row.error
    if columns.has_confidence:
        added[columns.confidence] = row.confidence
    before = line.rstrip().removesuffix("}").rstrip()
    comma = "" if before.endswith("{") else ", "
    return before + comma + json.dumps(added, ensure_ascii=False).removeprefix("{")
