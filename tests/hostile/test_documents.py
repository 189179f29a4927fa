"""No file costs more than its size: reading, writing and editing take processor time and memory in proportion to it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from app.documents.file_worker import answer
from app.settings import Settings
from tests.hostile.documents import FILES, HostileFile
from tests.hostile.measured import check_growth

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")

QUICK = {
    "txt": ("spaces", "tabs and returns", "rare spaces", "lines of other scripts", "wrapped text", "quotation marks"),
    "rst": ("titles", "rules"),
    "md": ("brackets", "spaces in a paragraph", "escapes", "formulas that do not end", "shortcodes of several lines"),
    "html": ("one tag of many attributes", "a reference with many digits", "names of the language in a paragraph"),
    "srt": ("a tag that does not end", "tags of many names", "lines"),
    "vtt": ("a tag that does not end",),
    "po": ("comments of a message", "a message of many lines"),
    "xliff": ("sources of one unit", "nested units"),
    "json": ("numbers", "a long number", "quoted braces", "nested branches"),
    "xml": ("elements", "attributes"),
    "ts": ("forms",),
    "resx": (),
    "stringsdict": ("dictionaries",),
    "strings": ("a comment that does not end",),
    "properties": ("backslashes",),
    "php": ("signs of variables",),
    "yml": ("lists", "a folded text"),
    "xcstrings": ("localizations",),
    "csv": ("quotation marks after a quoted cell", "quotation marks"),
    "docx": (
        "other runs",
        "equal runs",
        "fields that do not end",
        "one formatting of many elements",
        "nested bookmarks",
    ),
    "pptx": ("one formatting of many elements",),
    "xlsx": ("nested texts", "columns of one name"),
    "odt": ("nested spans with text", "tabs in nested spans"),
    "epub": ("half of an empty element",),
}
"""What is measured each time: what once took quadratic time, or could easily."""


MOST_CHARACTERS = Settings().max_text_characters


def is_quick(file: HostileFile) -> bool:
    return file.name in QUICK[file.suffix[1:]]


def reading_and_writing(file: HostileFile, size: int) -> Callable[[], str]:
    """Reads a file, counts its sentences, writes it with a translation of each unit, and edits each sentence of it."""
    content = file.make(size)

    def run() -> str:
        kind, value = answer(file.suffix, content, None, None, "")
        if kind != "units":
            assert kind != "error", value
            return f"{kind}: {value}"[:300]
        texts = value[0]
        if max(map(len, texts), default=0) <= MOST_CHARACTERS:  # the service refuses others before
            assert answer(file.suffix, content, "en", None, "")[0] == "units"
        translations: dict[int, str | None] = {index: f"{text} x" for index, text in enumerate(texts)}
        kind, value = answer(file.suffix, content, None, translations, "de")
        if kind != "file":
            return f"not written: {kind}: {value}"[-300:]
        kind, rows = answer(file.suffix, content, None, translations, "", {})
        assert kind == "sentences", rows
        edits: dict[int, dict[int, str | None]] = {}
        for unit, index, _, translation, _ in rows:
            edits.setdefault(unit, {})[index] = f"{translation} y"
        kind, value = answer(file.suffix, content, None, translations, "de", {}, edits)
        assert kind == "file", value
        return f"{len(texts)} units"

    return run


@pytest.mark.parametrize("file", [pytest.param(file, id=file.id) for file in FILES if is_quick(file)])
def test_the_cost_of_a_hostile_file_grows_as_its_size(file: HostileFile) -> None:
    answer(file.suffix, file.make(100), "en", None, "")  # imports
    check_growth(lambda size: reading_and_writing(file, size), 2_000, longest=64_000, enough_s=0.03)


@pytest.mark.hostile
@pytest.mark.parametrize("file", [pytest.param(file, id=file.id) for file in FILES])
def test_the_cost_of_a_large_hostile_file_grows_as_its_size(file: HostileFile) -> None:
    answer(file.suffix, file.make(100), "en", None, "")
    check_growth(lambda size: reading_and_writing(file, size), 8_000, longest=2_000_000, enough_s=0.1)


def test_each_quick_file_is_there() -> None:
    named = {(suffix, name) for suffix, names in QUICK.items() for name in names}
    assert named == {(file.suffix[1:], file.name) for file in FILES if is_quick(file)}


def test_the_process_of_documents_imports_nothing_heavy() -> None:
    code = (
        "import sys, app.documents.file_worker as worker, model.text.segmentation\n"
        "for format in worker.FORMATS.values(): format.load()\n"
        "heavy = {'torch', 'numpy', 'fastapi', 'pydantic', 'asyncio', 'lingua', 'sqlite3'} & set(sys.modules)\n"
        "print(sorted(heavy))"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    assert ran.stdout.strip() == "[]"
