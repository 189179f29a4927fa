"""Databases that SQLite opened for reading only."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from app.storage import open_database, require_writable

SCHEMA = "CREATE TABLE IF NOT EXISTS t (x)"


def test_a_database_that_was_opened_for_reading_only_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    with closing(open_database(path, SCHEMA)) as connection:
        require_writable(connection)
        assert not connection.in_transaction
    before = path.read_bytes()
    # As SQLite does by itself if it cannot open the file for writing.
    with (
        closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as connection,
        pytest.raises(sqlite3.OperationalError, match="readonly"),
    ):
        require_writable(connection)
    assert path.read_bytes() == before
