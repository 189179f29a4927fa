"""A scenario: what a store is used for, and what its next start must find."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from tests.faults.injection.shim import Shim

Value = TypeVar("Value")


class Refused(Exception):
    """A step was refused as the documentation says.

    Args:
        reason: The code of the error, or its message.
    """


class Unexpected(AssertionError):
    """Something happened that the documentation excludes."""


@dataclass
class History:
    """What was tried, and what was answered.

    Args:
        tried: The steps that were begun, in order.
        accepted: The steps that were answered as done, with what was answered.
        refused: The steps that were answered with an error.
    """

    tried: list[str] = field(default_factory=list)
    accepted: dict[str, Any] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)

    def note(self, text: str) -> None:
        """Follow a note of :class:`Trial`."""
        kind, step, value = json.loads(text)
        if kind == "tried":
            self.tried.append(step)
        elif kind == "accepted":
            self.accepted[step] = value
        else:
            self.refused[step] = value

    def copy(self) -> History:
        """As it is now."""
        return History(list(self.tried), dict(self.accepted), dict(self.refused))


class Trial:
    """One run of a scenario.

    Args:
        shim: Counts its operations.
        notes: A file that has its history also if the process ends.
        patience: After so many failing operations, no further one fails where the scenario waits for the disk.
    """

    def __init__(self, shim: Shim, notes: Path, patience: int = 12) -> None:
        self.history = History()
        self._shim = shim
        self._notes = os.open(notes, os.O_CREAT | os.O_TRUNC | os.O_WRONLY)
        self._patience = patience
        self._is_healed = False

    def attempt(self, step: str, act: Callable[[], Value]) -> Value | None:
        """Take a step; returns its answer, or None if it is refused.

        Args:
            step: Its name, which no other step has.
            act: Takes it, and returns what JSON can represent.

        Raises:
            Unexpected: It is refused although the disk works again.
        """
        self.begin(step)
        return self.end(step, act)

    def begin(self, step: str) -> None:
        """Note that a step begins."""
        self._note("tried", step, None)

    def end(self, step: str, read: Callable[[], Value]) -> Value | None:
        """End a step; returns its answer, or None if it is refused.

        Args:
            step: Its name.
            read: As ``act`` of :meth:`attempt`.

        Raises:
            Unexpected: It is refused although the disk works again.
        """
        try:
            answer = read()
        except Refused as refusal:
            self._note("refused", step, str(refusal))
            if self._is_healed:
                raise Unexpected(f"{step} is refused although the disk works again: {refusal}") from refusal
            return None
        self._note("accepted", step, answer)
        return answer

    def heal(self) -> None:
        """Let the disk work again if an operation has failed: from here on every step must succeed.

        A fault that has not begun yet meets one of the operations that follow, so their steps may be refused.
        """
        if self._shim.num_failures:
            self._is_healed = True
            self._shim.heal()

    def heal_after_patience(self) -> None:
        """Let the disk work again if enough operations have failed; called while the scenario waits for it."""
        if self._shim.num_failures > self._patience:
            self._shim.heal()

    def _note(self, kind: str, step: str, value: object) -> None:
        text = json.dumps([kind, step, value])
        self.history.note(text)
        self._shim.note(text)
        os.write(self._notes, f"{text}\n".encode())


class Scenario(ABC):
    """What a store is used for."""

    name: str
    """Its name, as ``--scenario`` takes it."""

    store: str
    """What it uses, for the table."""

    merges_writes = False
    """Whether writes to a file that follow each other count as one operation: a run takes long."""

    may_abort = False
    """Whether a fault may end the process (SIGABRT), which then counts as a kill."""

    def prepare(self, scratch: Path) -> None:  # noqa: B027  (most have nothing to prepare)
        """Make what all runs share.

        Args:
            scratch: A folder for it.
        """

    def seed(self, folder: Path) -> None:  # noqa: B027  (most begin without a file)
        """Write what the folder has before a run; it is on the disk."""

    @abstractmethod
    def run(self, folder: Path, trial: Trial) -> None:
        """Use the store. Errors other than documented ones, which become :class:`Refused`, are failures."""

    @abstractmethod
    def check(self, folder: Path, history: History) -> None:
        """Start again, and check what the store has.

        Raises:
            AssertionError: Something is lost, doubled or half, or remains.
        """


def check_databases(folder: Path) -> None:
    """Check that every SQLite database in a folder is whole."""
    for path in folder.rglob("*.sqlite*"):
        if path.suffix in (".sqlite", ".sqlite3"):
            with closing(sqlite3.connect(path)) as connection:
                assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)], path


def check_names(folder: Path, allowed: Iterable[str]) -> None:
    """Check that a folder has no other files; the write-ahead log of a database may be there."""
    names = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    logs = {f"{name}{ending}" for name in allowed for ending in ("-wal", "-shm")}
    assert names <= {*allowed, *logs}, f"{sorted(names - set(allowed))} remain in {folder.name}"


def check_start_error(error: Exception) -> None:
    """Check that a start that failed names the setting."""
    assert any(name in str(error) for name in ("VERSO_KEYS_DB", "VERSO_DATA_DIR")), error


def emptied(folder: Path) -> Path:
    """A folder, without what it had."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def refused_as(errors: Sequence[type[Exception]], act: Callable[[], Value]) -> Value:
    """Call a function whose documented errors are refusals.

    Raises:
        Refused: It raised one of them.
    """
    try:
        return act()
    except tuple(errors) as error:
        raise Refused(f"{type(error).__name__}: {error}") from error
