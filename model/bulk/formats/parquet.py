"""Parquet files."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from model.bulk.formats.format import changed
from model.bulk.rows import Columns, SourceRow, TranslatedRow
from model.errors import DataError

_ROWS_AT_ONCE = 1_024
_ROWS_IN_A_GROUP = 10_000
"""Rows that are kept in memory until they are written."""


class Parquet:
    """The output has the columns of the input as they are, and those of the translation behind them."""

    def check(self, path: Path, columns: Columns) -> None:
        """Look at the schema."""
        import pyarrow as pa

        schema = _metadata(path).schema.to_arrow_schema()
        names = ", ".join(map(repr, schema.names))
        if columns.text not in schema.names:
            raise DataError(
                f"{path} has no column {columns.text!r}; it has {names}. Name the column of the text with --column."
            )
        kind = schema.field(columns.text).type
        kind = kind.value_type if pa.types.is_dictionary(kind) else kind
        if not (pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)):
            raise DataError(
                f"The column {columns.text!r} of {path} has the type {kind}; it must be text. Its columns are {names}."
            )
        for name in columns.added:
            if name in schema.names:
                raise DataError(
                    f"{path} has a column {name!r}, which the translation would get; name another one with "
                    "--output-column."
                )

    def rows(self, path: Path, columns: Columns) -> Iterator[SourceRow]:
        """The column of the text."""
        for batch in _batches(path, _ROWS_AT_ONCE, [columns.text]):
            for text in batch.column(columns.text).to_pylist():
                yield SourceRow(text)

    def write(
        self, path: Path, out: Path, errors: Path, columns: Columns, rows: Iterator[TranslatedRow]
    ) -> Iterator[int]:
        """Write the table with more columns, compressed as it was."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        metadata = _metadata(path)
        schema = metadata.schema.to_arrow_schema()
        for name in columns.added:
            schema = schema.append(pa.field(name, pa.float64() if name == columns.confidence else pa.string()))
        num_bytes, num_done = path.stat().st_size, 0
        with pq.ParquetWriter(out, schema, compression=_compression(metadata)) as sink:
            for batch in _batches(path, _ROWS_IN_A_GROUP):
                batch_rows = list(islice(rows, batch.num_rows))
                if len(batch_rows) < batch.num_rows:
                    raise changed(path)
                new = [pa.array(values, schema.field(name).type) for name, values in _added(columns, batch_rows)]
                sink.write_batch(pa.RecordBatch.from_arrays([*batch.columns, *new], schema=schema))
                num_done += batch.num_rows
                yield num_bytes * num_done // metadata.num_rows
        if next(rows, None) is not None:
            raise changed(path)


def _added(columns: Columns, rows: list[TranslatedRow]) -> Iterator[tuple[str, list[Any]]]:
    """The values of each new column."""
    yield columns.translation, [row.translation for row in rows]
    yield columns.error, [row.error for row in rows]
    if columns.has_confidence:
        yield columns.confidence, [row.confidence for row in rows]


def _compression(metadata: Any) -> str:
    """The compression of a file's first column; that of the format's implementations for a file without rows."""
    if not metadata.num_row_groups:
        return "snappy"
    return str(metadata.row_group(0).column(0).compression).lower().replace("uncompressed", "none")


def _metadata(path: Path) -> Any:
    """The metadata of a file.

    Raises:
        DataError: It is damaged.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.read_metadata(path)
    except (pa.ArrowException, OSError) as error:
        raise _unreadable(path, error) from error


def _batches(path: Path, num_rows: int, columns: list[str] | None = None) -> Iterator[Any]:
    """The rows of a file in batches.

    Raises:
        DataError: It is damaged.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            yield from file.iter_batches(num_rows, columns=columns)
    except (pa.ArrowException, OSError) as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: Exception) -> DataError:
    return DataError(
        f"{path} cannot be read as Parquet: {str(error).rstrip('.')}. If it was cut short, restore it from a copy."
    )
