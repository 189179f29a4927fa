"""Files that survive a power cut: what is written through, and in which order."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from model.process.files import atomic_write, make_folder, put_in_place, remove_abandoned, working_folder


def test_content_is_on_the_disk_before_the_name_and_the_name_before_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[str] = []
    replace = os.replace

    def note_sync(handle: int) -> None:
        events.append("folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else "content")

    def note_replace(*paths: Path) -> None:
        events.append("name")
        replace(*paths)

    monkeypatch.setattr(os, "fsync", note_sync)
    monkeypatch.setattr(os, "replace", note_replace)
    written, path = tmp_path / "a.part", tmp_path / "a"
    path.write_text("old")
    written.write_text("new")
    put_in_place(written, path)
    assert events == ["content", "name", "folder"]
    assert (path.read_text(), written.exists()) == ("new", False)


def fail_to_write(path: Path) -> None:
    with atomic_write(path) as unfinished:
        unfinished.write_text("ne")
        raise OSError("The disk is full.")


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "new folder" / "a"
    with atomic_write(path) as unfinished:
        unfinished.write_text("old")
        assert not path.exists()
    with pytest.raises(OSError, match="disk"):
        fail_to_write(path)
    assert path.read_text() == "old"
    assert list(path.parent.iterdir()) == [path]


def test_writers_of_the_same_file_have_files_of_their_own_and_the_last_one_wins(tmp_path: Path) -> None:
    path = tmp_path / "a"
    with atomic_write(path) as outer:
        outer.write_text("outer")
        with atomic_write(path) as inner:
            assert inner != outer
            inner.write_text("inner")
        assert path.read_text() == "inner"
    assert path.read_text() == "outer"
    assert list(tmp_path.iterdir()) == [path]


def test_the_unfinished_file_of_a_killed_process_is_taken_over(tmp_path: Path) -> None:
    path = tmp_path / "a"
    (tmp_path / "a.unfinished").write_text("much that was never complete")
    (tmp_path / "a.unfinished.folder").mkdir()
    (tmp_path / "a.unfinished.folder" / "half").touch()
    with atomic_write(path) as unfinished, working_folder(unfinished) as folder:
        assert unfinished.read_text() == "" and not list(folder.iterdir())
        unfinished.write_text("new")
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


def test_abandoned_files_are_removed_and_those_that_are_being_written_are_not(tmp_path: Path) -> None:
    (tmp_path / "old.unfinished").touch()
    (tmp_path / "old.unfinished.folder").mkdir()
    (tmp_path / "without its file.unfinished.folder").mkdir()
    with atomic_write(tmp_path / "new") as unfinished:
        unfinished.write_text("new")
        remove_abandoned(tmp_path)
        assert list(tmp_path.iterdir()) == [unfinished]
    assert (tmp_path / "new").read_text() == "new"


def test_new_folders_are_on_the_disk_before_their_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda handle: synced.append(os.fstat(handle).st_ino))
    make_folder(tmp_path / "a" / "b")
    assert synced == [tmp_path.stat().st_ino, (tmp_path / "a").stat().st_ino]
    make_folder(tmp_path / "a" / "b")
    assert len(synced) == 2
