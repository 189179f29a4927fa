"""A program that does jobs for the service, one at a time, in a process of its own."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Executor
from functools import cached_property
from typing import Any, TypeVar

from app.errors import NotReady
from app.processes.messages import read_message, write_message
from app.threads import SYSTEM, Threads

logger = logging.getLogger("app.processes")

_T = TypeVar("_T")

_KEPT_VARIABLES = (
    *("PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "PYTHONHOME", "PYTHONDONTWRITEBYTECODE"),
    *("HOME", "MPLCONFIGDIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"),  # where matplotlib finds its list of fonts
)
"""Variables of the environment that a program gets. It needs no settings and no secrets of the service."""


class WorkerEnded(Exception):
    """The process has ended without an answer.

    Args:
        exit_code: Its exit code; negative for a signal.
    """

    def __init__(self, exit_code: int) -> None:
        super().__init__(f"exit code {exit_code}")
        self.exit_code = exit_code


class WorkerProcess:
    """A process that takes jobs from its standard input and answers on its standard output. The first job starts it.

    A call that is cancelled ends the process, and the next call starts another. Belongs to the event loop.

    Args:
        module: The program.
        name: Of the thread that waits for it.
        threads: Makes the thread.
    """

    def __init__(self, module: str, name: str, threads: Threads = SYSTEM) -> None:
        self._module = module
        self._name = name
        self._threads = threads
        self._one_job = asyncio.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    @cached_property
    def _thread(self) -> Executor:
        return self._threads.pool(1, self._name)

    async def call(self, job: object, unpack: Callable[[Any], _T]) -> _T:
        """The answer to a job.

        Args:
            job: Plain values.
            unpack: Makes the result from the answer, on the thread.

        Raises:
            WorkerEnded: The process has ended without an answer.
            NotReady: The system starts no process.
        """
        async with self._one_job:
            is_cancelled = threading.Event()
            work = asyncio.get_running_loop().run_in_executor(self._thread, self._exchange, job, unpack, is_cancelled)
            work.add_done_callback(lambda done: done.exception())  # not retrieved if the call is cancelled
            try:
                return await asyncio.shield(work)
            except asyncio.CancelledError:
                is_cancelled.set()
                self._kill()  # then the thread is free for the next call
                raise

    async def close(self) -> None:
        """End the process."""
        if "_thread" not in vars(self):
            return
        self._kill()  # also while it does a job
        await asyncio.get_running_loop().run_in_executor(self._thread, self._end)
        self._thread.shutdown(wait=False)

    def _exchange(self, job: object, unpack: Callable[[Any], _T], is_cancelled: threading.Event) -> _T:
        """Send a job and wait for its answer, on the thread; :meth:`call` describes the arguments and errors.

        Args:
            job: The job.
            unpack: Makes the result.
            is_cancelled: Whether no caller waits for the answer any more.
        """
        process = self._process
        if process is None or process.poll() is not None:
            self._end()
            process = self._process = started(self._module)
        if is_cancelled.is_set():
            kill(process.pid)
        assert process.stdin is not None and process.stdout is not None
        try:
            write_message(process.stdin, job)
            answer = read_message(process.stdout)
        except (OSError, EOFError):
            self._end()
            raise WorkerEnded(process.returncode) from None
        return unpack(answer)

    def _kill(self) -> None:
        if self._process is not None:
            kill(self._process.pid)

    def _end(self) -> None:
        """Wait until the process has ended, on the thread; it is killed, or its pipes have ended."""
        process, self._process = self._process, None
        if process is None:
            return
        for stream in (process.stdin, process.stdout):
            with contextlib.suppress(OSError):
                if stream is not None:
                    stream.close()
        try:
            process.wait(1.0)
        except subprocess.TimeoutExpired:
            kill(process.pid)
            process.wait()


def kept_environment() -> dict[str, str]:
    """The environment of a program."""
    variables = {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}
    return variables | {"PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)}


def started(module: str) -> subprocess.Popen[bytes]:
    """A new process, which leads a group of its own: it and its forks are ended together.

    Args:
        module: Its program.

    Raises:
        NotReady: The system starts no process.
    """
    try:
        return subprocess.Popen(
            [sys.executable, "-P", "-m", module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=kept_environment(),
            start_new_session=True,
        )
    except OSError as error:
        logger.error("no process can be started for %s: %s", module, error)
        raise NotReady(5.0, "no_process") from None


def kill(group: int) -> None:
    """End a program and its forks, if they have not ended.

    Args:
        group: The id of its process.
    """
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)
