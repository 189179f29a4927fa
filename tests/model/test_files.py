"""Files that survive a power cut: what is written through, and in which order."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from model.process.files import atomic_write, put_in_place


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


def fail_to_write(path: Path, *, shared: bool) -> None:
    with atomic_write(path, shared=shared) as unfinished:
        unfinished.write_text("ne")
        raise OSError("The disk is full.")


@pytest.mark.parametrize("shared", [False, True])
def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path, shared: bool) -> None:
    path = tmp_path / "new folder" / "a"
    with atomic_write(path, shared=shared) as unfinished:
        unfinished.write_text("old")
        assert not path.exists()
    with pytest.raises(OSError, match="disk"):
        fail_to_write(path, shared=shared)
    assert path.read_text() == "old"
    assert list(path.parent.iterdir()) == [path]
