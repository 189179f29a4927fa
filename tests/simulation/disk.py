"""What outlasts a process: the file of keys and usage, and what clients know of their requests."""

from __future__ import annotations

import contextlib
import random
import shutil
import sqlite3
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import cache
from pathlib import Path

from app.accounts.store import KeyStore
from app.accounts.usage import UsageStore
from app.documents.document import DATABASE
from tests.simulation.app_scenario import KEYS
from tests.simulation.kernel import BEGIN
from tests.simulation.ledger import require

MEMORY = Path("/dev/shm")
"""A folder without a disk, if the system has one."""

TIME_OF_DAY = 1_780_271_995.0
"""Seconds since 1970 at the beginning: five seconds before a month ends."""

_FULL = 2
"""SQLite's number of ``PRAGMA synchronous = FULL``."""


class WriteAheadLog:
    """The log of a SQLite database in write-ahead mode, of which a power cut takes what was not synced.

    A commit syncs the log if ``synchronous`` is ``FULL``. What follows the last sync may be there in parts, in any
    order, but SQLite reads up to the first part that is missing, so that a shorter log has the same effect.

    Args:
        path: The database.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._log = path.with_name(f"{path.name}-wal")
        self._num_synced = 0

    def written(self, connection: sqlite3.Connection) -> None:
        """A transaction may have been written.

        Args:
            connection: The one that wrote it, with its ``synchronous``.
        """
        with contextlib.suppress(sqlite3.ProgrammingError):  # it is closed
            if connection.execute("PRAGMA synchronous").fetchone()[0] >= _FULL:
                self._num_synced = self._size

    @contextlib.contextmanager
    def as_left(self, rng: random.Random | None) -> Iterator[None]:
        """Leave what a killed process has written; it writes more and closes its connections in the block.

        Args:
            rng: Draws how much of the log remains after a power cut; None if there was none.
        """
        database = self._path.read_bytes() if self._path.exists() else None
        log = self._log.read_bytes() if self._log.exists() else b""
        yield
        if database is None:
            return
        for left in self._path.parent.glob(f"{self._path.name}?*"):
            left.unlink()
        self._path.write_bytes(database)
        kept = len(log) if rng is None else rng.randint(min(self._num_synced, len(log)), len(log))
        self._log.write_bytes(log[:kept])

    @property
    def _size(self) -> int:
        return self._log.stat().st_size if self._log.exists() else 0


class Disk:
    """The file of keys and usage of one simulation, and the account of what it must contain."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None)
        self.path = Path(self._folder.name) / "keys.db"
        self.path.write_bytes(_template()[0])
        self.path.chmod(0o600)
        self.tokens = _template()[1]
        self.ids = [token.split("_")[1] for token in self.tokens]
        self.revoked: set[int] = set()
        self.faults: list[tuple[str, bool]] = []
        self.num_faults = 0
        self.folder = Path(self._folder.name) / "data"
        """Of the documents."""
        self.documents_log = WriteAheadLog(self.folder / "documents" / DATABASE)
        self._log = WriteAheadLog(self.path)
        self.file_faults: list[str] = []
        self.document_faults: list[tuple[str, bool]] = []
        self.num_documents = 0
        """Attempts to add documents."""
        self._answered: dict[tuple[int, str], list[int]] = defaultdict(list)
        self._unknown: dict[tuple[int, str], list[int]] = defaultdict(list)

    def close(self) -> None:
        """Delete the file."""
        self._folder.cleanup()

    def revoke(self, key: int, now: float) -> None:
        """Revoke a key, as the command of the operator does."""
        self.revoked.add(key)
        with closing(KeyStore(self.path, make=False)) as store:
            store.revoke(self.ids[key], now)
            self._log.written(store._connection)

    @contextlib.contextmanager
    def as_left(self, rng: random.Random | None) -> Iterator[None]:
        """Leave what a killed process has written; it writes more and closes its connections in the block.

        Files of documents are as they were: each is written through before the transaction that names it.

        Args:
            rng: Draws what remains after a power cut of what was not synced; None if there was none.
        """
        with self._log.as_left(rng), self.documents_log.as_left(rng):
            yield

    def answered(self, key: int, id: str, num_characters: int) -> None:
        """A client got an answer."""
        self._answered[key, id].append(num_characters)

    def unknown(self, key: int, id: str, num_characters: int) -> None:
        """A client cannot know whether its request was counted: it left, or the process was killed."""
        self._unknown[key, id].append(num_characters)

    def check(self, *, keeps_quota: bool) -> None:
        """Each answered request was counted once, and no refused one.

        Args:
            keeps_quota: Whether the quota must have been kept.
        """
        with closing(UsageStore(self.path)) as store:
            usage = store.all()
        for key, id in enumerate(self.ids):
            characters = sum(month.characters for month in usage if month.key == id)
            requests = sum(month.requests for month in usage if month.key == id)
            answered = {request: of for (owner, request), of in self._answered.items() if owner == key}
            unknown = {request: of for (owner, request), of in self._unknown.items() if owner == key}
            most = {request: answered.get(request, []) + unknown.get(request, []) for request in answered | unknown}
            bounds = sum(map(min, (most[request] for request in answered))), sum(map(max, most.values()))
            require(bounds[0] <= characters <= bounds[1], "characters counted", key, characters, *bounds)
            require(len(answered) <= requests <= len(most), "requests counted", key, requests, len(answered), len(most))
            quota = KEYS[key].characters_per_month
            if quota is not None and keeps_quota:
                for month in usage:
                    require(month.key != id or month.characters <= quota, "a quota is exceeded", month)

    def attach(self, store: UsageStore) -> None:
        """Let writes of a store fail when faults are due, and note which of them are synced."""
        self._log.written(store._connection)
        for name in ("settle_all", "reserve", "release"):
            vars(store)[name] = self._failing(name, getattr(store, name), store._connection)

    def _failing(self, name: str, method: Callable[..., object], connection: sqlite3.Connection) -> object:
        def call(*args: object) -> object:
            try:
                return call_or_fail(*args)
            finally:
                self._log.written(connection)

        def call_or_fail(*args: object) -> object:
            fault = next((fault for fault in self.faults if fault[0] == name), None)
            if fault is None:
                return method(*args)
            self.faults.remove(fault)
            self.num_faults += 1
            if fault[1]:
                method(*args)
            raise sqlite3.OperationalError("disk I/O error")

        return call


@cache
def _template() -> tuple[bytes, list[str]]:
    """A file with all keys, and their tokens; making it takes longer than a simulation."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "keys.db"
        now = TIME_OF_DAY
        with closing(KeyStore(path)) as store:
            tokens = [
                store.create(
                    f"key {number}",
                    ["translate", "documents"],
                    now,
                    expires_at=None if limits.expires_s is None else now + limits.expires_s,
                    characters_per_month=limits.characters_per_month,
                    requests_per_minute=limits.requests_per_minute,
                    concurrent_sentences=limits.concurrent_sentences,
                    priority=limits.priority,
                )[1].text
                for number, limits in enumerate(KEYS)
            ]
        copy = Path(folder) / "copy.db"
        shutil.copy(path, copy)
        return copy.read_bytes(), tokens


def time_of_day(now: float) -> float:
    """Seconds since 1970 at a clock time."""
    return TIME_OF_DAY + now - BEGIN
