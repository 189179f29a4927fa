"""A store with the usual mistakes, which the trials must find."""

from __future__ import annotations

import os
from pathlib import Path

from tests.faults.injection.scenario import History, Refused, Scenario, Trial

OLD, NEW = "old " * 2000, "new " * 3000


class CarelessStore(Scenario):
    """One file is written in place, one gets its name before its content is on the disk, one is in a new folder."""

    name = "careless"
    store = "a store that writes nothing through"

    def seed(self, folder: Path) -> None:
        """The earlier contents."""
        for name in ("in place", "renamed"):
            (folder / name).write_text(OLD, encoding="utf-8")

    def run(self, folder: Path, trial: Trial) -> None:
        """Write the files."""
        trial.attempt("in place", lambda: self._write(folder / "in place"))
        trial.attempt("renamed", lambda: self._replace(folder / "renamed"))
        trial.attempt("in a folder", lambda: self._write_through(folder / "new" / "in a folder"))
        trial.heal()

    def _write(self, path: Path) -> None:
        try:
            path.write_text(NEW, encoding="utf-8")
        except OSError as error:
            raise Refused(str(error)) from error

    def _replace(self, path: Path) -> None:
        self._write(path.with_suffix(".part"))
        os.replace(path.with_suffix(".part"), path)  # an error of it is not documented

    def _write_through(self, path: Path) -> None:
        path.parent.mkdir()
        self._write(path)
        for opened in (path, path.parent):
            handle = os.open(opened, os.O_RDONLY)
            os.fsync(handle)
            os.close(handle)

    def check(self, folder: Path, history: History) -> None:
        """Every file is whole, and the new one if it was accepted."""
        mistakes = []
        for name in ("in place", "renamed", "new/in a folder"):
            step, path = name.removeprefix("new/"), folder / name
            text = path.read_text(encoding="utf-8") if path.exists() else ""
            if step in history.accepted and text in ("", OLD):
                mistakes.append(f"{step} is lost")
            if text not in (OLD, NEW, ""):
                mistakes.append(f"{step} is half")
        if list(folder.glob("*.part")):
            mistakes.append("a part remains")
        assert not mistakes, ", ".join(mistakes)
