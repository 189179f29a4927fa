"""Which files are translated, and where to."""

from __future__ import annotations

from pathlib import Path

import pytest

from model.bulk.files import find_files, prepare_folder
from model.errors import ConfigError, DataError


def write(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("a line\n", encoding="utf-8")


def names(*inputs: Path | str, out: Path) -> list[str]:
    return [file.name for file in find_files([str(input) for input in inputs], out)]


def test_a_file_is_written_under_its_own_name(tmp_path: Path) -> None:
    write(tmp_path, "in/a.txt")
    (files,) = find_files([str(tmp_path / "in" / "a.txt")], tmp_path / "out")
    assert (files.name, files.type, files.num_bytes) == ("a.txt", "text", 7)
    assert files.source == (tmp_path / "in" / "a.txt").resolve()


def test_files_of_a_folder_keep_their_paths_and_what_programs_write_for_themselves_is_skipped(tmp_path: Path) -> None:
    write(tmp_path / "in", "b/c.JSONL", "a.parquet", "_SUCCESS", ".hidden.txt", "b/.git/x.txt")
    assert names(tmp_path / "in", out=tmp_path / "out") == ["a.parquet", "b/c.JSONL"]


def test_files_of_a_pattern_keep_their_paths_behind_the_first_wildcard(tmp_path: Path) -> None:
    write(tmp_path / "in", "x/1.txt", "x/y/2.txt", "x/3.md")
    assert names(f"{tmp_path}/in/**/*.txt", out=tmp_path / "out") == ["x/1.txt", "x/y/2.txt"]


def test_a_file_that_is_named_twice_is_translated_once(tmp_path: Path) -> None:
    write(tmp_path, "a.txt")
    assert names(tmp_path / "a.txt", f"{tmp_path}/*.txt", out=tmp_path / "out") == ["a.txt"]


def test_two_files_with_one_output_are_refused(tmp_path: Path) -> None:
    write(tmp_path, "one/a.txt", "two/a.txt")
    with pytest.raises(ConfigError, match=r"one/a\.txt and .*two/a\.txt would both be written"):
        names(tmp_path / "one" / "a.txt", tmp_path / "two" / "a.txt", out=tmp_path / "out")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ("in/missing.txt", "There is no file or folder"),
        ("in/*.nothing", "No file fits the pattern"),
        ("empty", "contains no file"),
        ("in/notes.md", r"ending of .*notes\.md names no format; known are \.parquet.*--file-type"),
    ],
)
def test_what_is_not_there_is_named(tmp_path: Path, arguments: str, reason: str) -> None:
    write(tmp_path, "in/notes.md")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=reason):
        names(tmp_path / arguments, out=tmp_path / "out")


def test_a_file_type_stands_above_endings(tmp_path: Path) -> None:
    write(tmp_path, "test.en")
    (files,) = find_files([str(tmp_path / "test.en")], tmp_path / "out", "text")
    assert files.type == "text"


@pytest.mark.parametrize(("arguments", "out"), [("in", "in/new"), ("in", "in"), ("in/a.txt", "in")])
def test_an_output_folder_among_the_inputs_is_refused(tmp_path: Path, arguments: str, out: str) -> None:
    write(tmp_path, "in/a.txt")
    with pytest.raises(ConfigError, match="name another folder"):
        names(tmp_path / arguments, out=tmp_path / out)


def test_an_output_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    write(tmp_path, "a.txt")
    with pytest.raises(DataError, match=r"a\.txt/out cannot be written: .*--out"):
        prepare_folder(tmp_path / "a.txt" / "out")
