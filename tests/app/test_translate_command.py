"""``verso translate`` with words and documents on the command line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from app.commands.main import main

Command = Callable[..., int]


@pytest.fixture
def translate(toy_bundle: Path) -> Command:
    def run(*arguments: str) -> int:
        return main(["translate", *arguments, "--model", str(toy_bundle), "--device", "cpu", "--quiet"])

    return run


@pytest.fixture
def letter(tmp_path: Path) -> Path:
    path = tmp_path / "letter.md"
    path.write_text("---\nlayout: page\n---\n\nthe red house `code`\n", encoding="utf-8")
    return path


def test_words_are_translated(translate: Command, capsys: pytest.CaptureFixture[str]) -> None:
    assert translate("the red house", "--target", "de") == 0
    quoted = capsys.readouterr().out
    assert translate("the", "red", "house", "--target", "de") == 0
    assert capsys.readouterr().out == quoted
    assert quoted.count("\n") == 1


def test_a_document_is_translated_into_a_new_file_beside_it(
    translate: Command, letter: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert translate(str(letter), "--target", "de", "--source", "en") == 0
    new = letter.with_name("letter.de.md")
    assert capsys.readouterr().out == f"{new}\n"
    text = new.read_text(encoding="utf-8")
    assert text.startswith("---\nlayout: page\n---\n\n")
    assert "`code`" in text
    assert translate(str(letter), "--target", "de", "--source", "en") == 1
    assert "nothing is overwritten" in capsys.readouterr().err


def test_documents_that_fail_do_not_keep_others_from_being_translated(
    translate: Command, letter: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = tmp_path / "broken.docx"
    broken.write_bytes(b"no archive")
    assert translate(str(broken), str(letter), "--target", "de", "--source", "en", "--out", str(tmp_path / "new")) == 1
    assert (tmp_path / "new" / "letter.de.md").exists()
    assert "broken.docx" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["missing.docx"], "There is no file missing.docx"),
        (["{letter}", "hello"], "There is no file hello"),
        (["{folder}"], "is a folder"),
        (["{letter}", "--search"], "--search is for words and lines"),
        (["{letter}", "--format", "html"], "--format is for words and lines"),
        (["hello", "--out", "new"], "--out"),
    ],
)
def test_what_cannot_be_done_is_said(
    translate: Command, letter: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], reason: str
) -> None:
    named = [argument.format(letter=letter, folder=letter.parent) for argument in arguments]
    assert translate(*named, "--target", "de") == 1
    assert reason in capsys.readouterr().err
