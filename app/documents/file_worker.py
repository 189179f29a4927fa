"""The program of the processes that read and write documents: ``python -m app.documents.file_worker``.

It takes jobs from its standard input and answers on its standard output. A fork of it handles each file, with limits of
memory, processor time and open files, and ends afterwards: what a file does to its process touches no other file, and
all memory of it is returned. The fork for the next file waits for its job, so that no job waits for a fork. A fork that
does not answer ends this process, too, with the code ``FILE_FAILED``.

Jobs and answers are pickles of plain values, so nothing but strings, bytes, numbers and lists passes either way. The
limits protect the service from files that cost too much; they are no sandbox for code that a file may bring to run.
"""

from __future__ import annotations

import contextlib
import gc
import os
import resource
import signal
import sys
import traceback
from collections.abc import Mapping, Sequence
from typing import IO, TYPE_CHECKING, Any

from app.documents.formats.document_file import Unit, count_sentences
from app.documents.formats.table import FORMATS
from app.documents.positions import unpacked
from app.errors import DocumentRefused, DocumentTooComplex
from app.processes.messages import read_message, write_message

if TYPE_CHECKING:
    from app.documents.sentences import Division

FILE_FAILED = 3
"""Exit code: the process of a file ended without an answer."""

_ANSWERED = 5
"""Exit code of the process of a file that has answered; a library that ends the process does not use it."""

_NO_JOB = 6
"""Exit code of a process that was to handle a file when the input ended."""

NO_PROCESS = 4
"""Exit code: the system starts no process for a file."""

MEMORY_BYTES = 768 * 2**20
MEMORY_PER_BYTE = 32
"""Memory that the process of a file may use, and how much more for each byte of the file."""

PROCESSOR_S = 20
PROCESSOR_BYTES_PER_S = 500_000
"""Seconds of processor time for a file, and the bytes of it for which there is one more."""

WALL_FACTOR = 3
"""How many times as long a file may take on a clock."""

OPEN_FILES = 16

MAX_SENTENCES = 200_000
"""Sentences of a document that is edited: a bound on what is stored for it."""


def answer(
    suffix: str,
    content: bytes,
    language: str | None,
    translations: Mapping[int, str | None] | None,
    target: str,
    positions: Mapping[int, bytes] | None = None,
    edits: Mapping[int, Mapping[int, str | None]] | None = None,
) -> Any:
    """The answer to a job.

    Args:
        suffix: The ending of the file's name.
        content: The file.
        language: Its language, if its sentences are to be counted.
        translations: The translations of its units by their index, to write them; None to read the units.
        target: The target language of these translations.
        positions: The positions of the sentences in these translations (:func:`app.documents.positions.packed`), to
            edit them.
        edits: Edited sentences by the index of their unit and by their own in it, to write them; None for one that is
            right as it is. Without them, the sentences are listed.

    Returns:
        A kind and its value: ``units`` with texts, formats, numbers of sentences and the language of
        translations, ``sentences`` with a tuple for each (unit, index in it, source, translation, markers), ``file``
        with the bytes of the
        translated file, ``refused`` or ``complex`` with the reason, which may be None, or ``error`` with a traceback.
    """
    try:
        file = FORMATS[suffix].read(content)
        if translations is not None and positions is not None:
            if edits is None:
                return "sentences", _sentences(file.units, translations, positions)
            translations = _with_edits(file.units, translations, positions, edits)
        if translations is not None:
            return "file", file.write([translations.get(index) for index in range(len(file.units))], target)
        units = file.units
        texts, formats = [unit.text for unit in units], [unit.format for unit in units]
        num_sentences = [] if language is None else count_sentences(units, language)
        return "units", (texts, formats, num_sentences, file.target_language)
    except DocumentRefused as error:
        return "refused", str(error)
    except DocumentTooComplex as error:
        return "complex", error.reason
    except MemoryError:
        return "complex", None
    except Exception:  # noqa: BLE001  (the service logs it)
        return "error", traceback.format_exc()


def _sentences(
    units: Sequence[Unit], translations: Mapping[int, str | None], positions: Mapping[int, bytes]
) -> list[tuple[int, int, str, str, dict[int, str]]]:
    """The sentences of all units, those without a translation with their source in its place.

    Raises:
        DocumentTooComplex: There are too many.
    """
    rows: list[tuple[int, int, str, str, dict[int, str]]] = []
    for number, unit in enumerate(units):
        sentences = _division(unit, translations.get(number), positions.get(number, b"")).sentences
        for index, sentence in enumerate(sentences):
            rows.append((number, index, sentence.source, sentence.translation, dict(sentence.markers)))
        if len(rows) > MAX_SENTENCES:
            raise DocumentTooComplex(f"Its translation has more than {MAX_SENTENCES} sentences and cannot be edited")
    return rows


def _with_edits(
    units: Sequence[Unit],
    translations: Mapping[int, str | None],
    positions: Mapping[int, bytes],
    edits: Mapping[int, Mapping[int, str | None]],
) -> dict[int, str | None]:
    """The translations of units with edited sentences."""
    edited = dict(translations)
    for number, changes in edits.items():
        division = _division(units[number], translations.get(number), positions.get(number, b""))
        edited[number] = division.edited({index: text for index, text in changes.items() if text is not None})
    return edited


def _division(unit: Unit, translation: str | None, positions: bytes) -> Division:
    # Imported here: the parser of markup takes 40 ms, which other jobs may not need.
    from app.documents.sentences import divided

    return divided(unit, unit.text if translation is None else translation, unpacked(positions))


def set_limits(num_bytes: int) -> None:
    """Limit what this process may use for a file.

    Args:
        num_bytes: The size of the file.
    """
    processor_s = PROCESSOR_S + num_bytes // PROCESSOR_BYTES_PER_S
    resource.setrlimit(resource.RLIMIT_CPU, (processor_s, processor_s))
    signal.alarm(WALL_FACTOR * processor_s)  # its default action ends the process
    resource.setrlimit(resource.RLIMIT_NOFILE, (OPEN_FILES, OPEN_FILES))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
    memory_bytes = _address_space() + MEMORY_BYTES + MEMORY_PER_BYTE * num_bytes
    with contextlib.suppress(OSError, ValueError):  # macOS does not limit it
        resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))


def _address_space() -> int:
    """Bytes of address space that this process has already; 0 where the system does not say."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[0]) * resource.getpagesize()
    except OSError:
        return 0


def main() -> int:
    """Handle files until the input ends.

    Returns:
        The exit code.
    """
    jobs, answers = sys.stdin.buffer, sys.stdout.buffer
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal: the service ends this process
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")  # without memory, the system ends this process and not the service
    while True:
        try:
            child = os.fork()
        except OSError:
            return NO_PROCESS
        if not child:
            _handle_next(jobs, answers)
        _load_formats()  # once; meanwhile the first file is handled
        _, status = os.waitpid(child, 0)
        code = os.waitstatus_to_exitcode(status)
        if code != _ANSWERED:
            return 0 if code == _NO_JOB else FILE_FAILED


def _load_formats() -> None:
    """Import what any job needs, so that no fork does it again."""
    import encodings.cp437  # noqa: F401  (names in archives)
    import heapq  # noqa: F401  (Counter)

    import model.text.segmentation  # noqa: F401

    for format in FORMATS.values():
        format.load()


def _handle_next(jobs: IO[bytes], answers: IO[bytes]) -> None:
    """Answer the next job in this process, which ends."""
    code = FILE_FAILED
    try:
        gc.disable()  # what it would find is freed with the process
        try:
            job = read_message(jobs)
        except EOFError:
            code = _NO_JOB
        else:
            FORMATS[job[0]].load()  # which is no cost of the file
            set_limits(len(job[1]))
            write_message(answers, answer(*job))
            code = _ANSWERED
    finally:
        os._exit(code)


if __name__ == "__main__":
    sys.exit(main())
