"""The processes that read and write documents: their limits, and the result for a file that exceeds them."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from app.documents.file_process import FileProcess
from app.documents.formats.document_file import Unit
from app.documents.formats.table import FORMATS, DocumentFormat
from app.errors import DocumentRefused, DocumentTooComplex, NotReady
from tests.app.documents.test_refusals import FILES

TEXT = FORMATS[".txt"]
ROOT = Path(__file__).resolve().parents[3]

pytestmark = pytest.mark.anyio

FORMAT = """
import os, signal, time
from app.documents.formats.plain_text import PlainText

class Hostile(PlainText):
    def __init__(self, data):
        super().__init__(data)
        exec(self.text)
"""
"""A format that runs what a file says, as if a fault of a library let it."""


@pytest.fixture
def hostile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DocumentFormat:
    """A format of such files, known to the process by a module that is imported when Python starts."""
    (tmp_path / "hostile_format.py").write_text(FORMAT)
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\n"
        "if 'app.documents.file_worker' in sys.orig_argv:\n"
        "    from app.documents.formats import table\n"
        "    import hostile_format\n"
        "    table.DocumentFormat.load = lambda format: hostile_format.Hostile\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    return TEXT


@pytest.fixture
async def files() -> AsyncIterator[FileProcess]:
    files = FileProcess()
    yield files
    await files.close()


async def test_a_file_is_read_and_written_by_a_process(files: FileProcess) -> None:
    content = b"One. Two.\n\nThree."
    result = await files.read(TEXT, content, "en")
    assert (result.units, result.num_sentences) == ([Unit("One. Two."), Unit("Three.")], [2, 1])
    assert (await files.read(TEXT, content)).num_sentences == []
    assert await files.write(TEXT, content, {1: "Drei.", 0: None}, "de") == b"One. Two.\n\nDrei."


async def test_the_event_loop_does_not_wait_while_many_units_are_made(
    files: FileProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: set[int] = set()

    def make(*values: str) -> Unit:
        threads.add(threading.get_ident())
        return Unit(*values)  # type: ignore[arg-type]

    monkeypatch.setattr("app.documents.file_process.Unit", make)

    assert len((await files.read(TEXT, b"One.\n\nTwo.")).units) == 2
    assert threads and threading.get_ident() not in threads


async def test_a_refusal_has_its_reason_and_the_process_goes_on(files: FileProcess) -> None:
    with pytest.raises(DocumentRefused, match="encoding"):
        await files.read(TEXT, b"\x81\x01")
    assert (await files.read(TEXT, b"a")).units == [Unit("a")]


@pytest.mark.parametrize(
    "code",
    ["os.kill(os.getpid(), signal.SIGSEGV)", "os._exit(0)", "b = bytearray(2**31)", "b = [0] * 2**28"],
)
async def test_a_file_that_ends_its_process_or_takes_its_memory_is_refused(
    files: FileProcess, code: str, hostile: DocumentFormat
) -> None:
    with pytest.raises(DocumentTooComplex):
        await files.read(hostile, code.encode())
    assert (await files.read(hostile, b"word = 1")).units == [Unit("word = 1")]


@pytest.mark.parametrize(
    ("limit", "code"), [("PROCESSOR_S = 1", "while True: pass"), ("PROCESSOR_S, WALL_FACTOR = 1, 1", "time.sleep(60)")]
)
async def test_a_file_that_takes_too_long_is_refused(
    files: FileProcess, limit: str, code: str, hostile: DocumentFormat, tmp_path: Path
) -> None:
    path = tmp_path / "hostile_format.py"
    path.write_text(f"{path.read_text()}\nimport sys\nexec({limit!r}, vars(sys.modules['__main__']))\n")
    # The limits are those of the program, which runs as __main__ and is complete when the format is loaded.
    site = tmp_path / "sitecustomize.py"
    site.write_text(
        site.read_text()
        .replace("    import hostile_format\n", "")
        .replace("hostile_format.Hostile", "__import__('hostile_format').Hostile")
    )

    with pytest.raises(DocumentTooComplex):
        await files.read(hostile, code.encode())


def test_the_process_of_a_file_imports_nothing() -> None:
    code = (
        "import sys, app.documents.file_worker as worker\n"
        "worker._load_formats()\n"
        "loaded = set(sys.modules)\n"
        "for suffix, content in eval(sys.stdin.read()).items():\n"
        "    kind, value = worker.answer(suffix, content, 'en', None, '')\n"
        "    assert kind == 'units', value\n"
        "    assert worker.answer(suffix, content, None, dict(enumerate(value[0])), 'de')[0] == 'file'\n"
        "print(sorted(set(sys.modules) - loaded))\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], input=repr(FILES), capture_output=True, text=True, cwd=ROOT, check=True
    )
    assert ran.stdout.strip() == "[]"


async def test_a_file_gets_no_settings_and_cannot_write(
    files: FileProcess, hostile: DocumentFormat, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("VERSO_ADMIN_TOKEN", "secret")
    path = tmp_path / "written"
    code = "self.text = ' '.join(os.environ)"
    assert "VERSO" not in (await files.read(hostile, code.encode())).units[0].text
    with pytest.raises(RuntimeError, match="File too large"):
        await files.read(hostile, f"os.write(os.open({str(path)!r}, os.O_CREAT | os.O_WRONLY), b'x')".encode())
    assert not path.exists() or not path.read_text()


async def test_the_process_is_ended_with_a_call_that_is_cancelled(files: FileProcess, hostile: DocumentFormat) -> None:
    await files.read(hostile, b"a = 1")
    before = os.times()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.3):
            await files.read(hostile, b"while True: pass")
    assert (await files.read(hostile, b"a = 1")).units
    assert os.times().children_user - before.children_user < 10  # it may take 20 s of processor time


async def test_one_file_at_a_time_is_read(files: FileProcess, hostile: DocumentFormat) -> None:
    began = time.monotonic()
    await asyncio.gather(*(files.read(hostile, b"time.sleep(0.2)") for _ in range(3)))
    assert time.monotonic() - began >= 0.6


async def test_a_system_without_processes_says_so(files: FileProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise BlockingIOError("Resource temporarily unavailable")

    monkeypatch.setattr("subprocess.Popen", fail)

    with pytest.raises(NotReady, match="refuses to start a process"):
        await files.read(TEXT, b"a")
