"""``verso memory``."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from app.commands.main import main
from tests.app.memories.test_tmx import HEAD, TAIL, tu


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("VERSO_DATA_DIR", str(tmp_path / "data"))
    path = tmp_path / "manuals.tmx"
    path.write_text(HEAD + "".join(tu(f"Line {n}.", f"Zeile {n}.") for n in range(1_500)) + TAIL, encoding="utf-8")
    return path


def test_a_file_is_imported_listed_and_exported(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["memory", "import", str(file), "--owner", "key"]) == 0
    printed = capsys.readouterr()
    id = printed.out.strip()
    assert "manuals (en-US): 1500 units added, 0 replaced, 0 unchanged, 0 skipped" in printed.err
    assert main(["memory", "list", "--json"]) == 0
    (memory,) = json.loads(capsys.readouterr().out)
    assert (memory["id"], memory["owner"], memory["targets"]) == (id, "key", {"de": 1500})
    assert main(["memory", "list"]) == 0
    assert "manuals" in capsys.readouterr().out

    exported = file.with_name("exported.tmx")
    assert main(["memory", "export", id, str(exported)]) == 0
    assert main(["memory", "import", str(exported), "--memory", id]) == 0
    assert "1500 unchanged" in capsys.readouterr().err
    assert main(["memory", "export", id, str(exported)]) == 1, "nothing is overwritten"


def test_a_memory_is_deleted_by_its_name_or_id(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):
        assert main(["memory", "import", str(file), "--name", "Manuals"]) == 0
    id = capsys.readouterr().out.split()[0]
    assert main(["memory", "delete", "Manuals"]) == 1
    assert "2 memories are named 'Manuals'" in capsys.readouterr().err
    assert main(["memory", "delete", id]) == 0
    assert main(["memory", "delete", "Manuals"]) == 0
    assert "with 1500 units is deleted" in capsys.readouterr().err
    assert main(["memory", "delete", "Manuals"]) == 1
    assert main(["memory", "list", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == []
    with closing(sqlite3.connect(tmp_path / "data" / "memories.sqlite")) as database:
        assert database.execute("SELECT count(*) FROM units").fetchone() == (0,)


def test_what_cannot_be_done_is_one_line(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["memory", "list"]) == 1
    assert "has no translation memories" in capsys.readouterr().err
    broken = file.with_name("broken.tmx")
    broken.write_text("<tmx>", encoding="utf-8")
    assert main(["memory", "import", str(broken)]) == 1
    assert capsys.readouterr().err.startswith("error: The file is not well-formed XML")
    monkeypatch.setenv("VERSO_MAX_MEMORY_UNITS_PER_KEY", "100")
    assert main(["memory", "import", str(file)]) == 1
    assert "the limit is 100" in capsys.readouterr().err
    monkeypatch.delenv("VERSO_DATA_DIR")
    assert main(["memory", "list"]) == 1
    assert "--data-dir" in capsys.readouterr().err
