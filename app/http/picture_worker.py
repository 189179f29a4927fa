"""The program of the process that draws pictures: ``python -m app.http.picture_worker``.

It takes the arguments of pictures from its standard input, and answers each on its standard output: ``picture`` with
the PNG file, or ``error`` with a traceback, which the service logs.
"""

from __future__ import annotations

import signal
import sys
import traceback

import numpy as np

from app.processes.messages import read_message, write_message
from model.plots import attention_heat_map


def main() -> int:
    """Draw until the input ends.

    Returns:
        The exit code.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal: the service ends this process
    jobs, answers = sys.stdin.buffer, sys.stdout.buffer
    while True:
        try:
            data, shape, rows, columns, title = read_message(jobs)
        except EOFError:
            return 0
        weights = np.frombuffer(data, np.float32).reshape(shape)
        try:
            answer: tuple[str, bytes | str] = "picture", attention_heat_map(weights, rows, columns, title)
        except Exception:  # noqa: BLE001  (the service logs it)
            answer = "error", traceback.format_exc()
        write_message(answers, answer)


if __name__ == "__main__":
    sys.exit(main())
