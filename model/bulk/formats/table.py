"""The formats by name, and the endings of files they are known by."""

from __future__ import annotations

from typing import Literal

from model.bulk.formats.format import Format
from model.bulk.formats.json_lines import JsonLines
from model.bulk.formats.parquet import Parquet
from model.bulk.formats.text import TextLines

FileType = Literal["parquet", "jsonl", "text"]

FORMATS: dict[FileType, Format] = {"parquet": Parquet(), "jsonl": JsonLines(), "text": TextLines()}

ENDINGS: dict[str, FileType] = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".txt": "text",
}
