"""What outlasts a process: the file of keys and usage, and what clients know of their requests."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections import defaultdict
from contextlib import closing
from functools import cache
from pathlib import Path

from app.accounts.store import KeyStore
from app.accounts.usage import UsageStore
from tests.simulation.app_scenario import KEYS
from tests.simulation.kernel import BEGIN
from tests.simulation.ledger import require

MEMORY = Path("/dev/shm")
"""A folder without a disk, if the system has one."""

TIME_OF_DAY = 1_780_271_995.0
"""Seconds since 1970 at the beginning: five seconds before a month ends."""


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
        """Let writes of a store fail when faults are due."""
        for name in ("settle_all", "reserve", "release"):
            vars(store)[name] = self._failing(name, getattr(store, name))

    def _failing(self, name: str, method: object) -> object:
        assert callable(method)

        def call(*args: object) -> object:
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
