"""The program of the processes that read TMX files of callers: ``python -m app.memories.tmx_worker``.

The file is its standard input. Its standard output has messages of plain values: ``("units", language, units)`` with
the language that the header names and a list of dictionaries from language to text, then ``("end",)`` or
``("refused", reason)``.
"""

from __future__ import annotations

import contextlib
import resource
import signal
import sys
from itertools import islice

from app.documents.file_worker import OPEN_FILES
from app.memories.tmx import TmxReader, TmxRefused
from app.processes.messages import write_message

MEMORY_BYTES = 512 * 2**20
"""Address space of the process, whatever the size of the file."""

UNITS_A_MESSAGE = 500

_READ_BYTES = 262_144


def set_limits(processor_s: int) -> None:
    """Limit what this process may use.

    Args:
        processor_s: Seconds of processor time.
    """
    resource.setrlimit(resource.RLIMIT_CPU, (processor_s, processor_s))
    resource.setrlimit(resource.RLIMIT_NOFILE, (OPEN_FILES, OPEN_FILES))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
    with contextlib.suppress(OSError, ValueError):  # macOS does not limit it
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))


def main() -> int:
    """Read the file.

    Returns:
        The exit code.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal: the service ends this process
    set_limits(int(sys.argv[1]))
    reader = TmxReader()
    source, messages = sys.stdin.buffer, sys.stdout.buffer
    try:
        while True:
            data = source.read(_READ_BYTES)
            units = reader.feed(data) if data else reader.close()
            remaining = iter(units)
            while batch := [dict(unit.texts) for unit in islice(remaining, UNITS_A_MESSAGE)]:
                write_message(messages, ("units", reader.source_language, batch))
            if not data:
                write_message(messages, ("end",))
                return 0
    except TmxRefused as error:
        write_message(messages, ("refused", str(error)))
        return 0


if __name__ == "__main__":
    sys.exit(main())
