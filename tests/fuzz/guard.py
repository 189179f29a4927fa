"""Watches what a process does while it reads an input: nothing from a file may run, and nothing else be touched."""

from __future__ import annotations

import os
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]

FORBIDDEN = frozenset(
    {
        *("os.system", "os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "subprocess.Popen"),
        *("socket.connect", "socket.bind", "socket.getaddrinfo", "socket.gethostbyname", "urllib.Request"),
        *("pickle.find_class", "ctypes.dlopen", "os.putenv", "os.kill"),
    }
)
_WRITING = frozenset(
    {
        "os.remove",
        "os.rename",
        "os.rmdir",
        "os.mkdir",
        "os.chmod",
        "os.link",
        "os.symlink",
        "os.truncate",
        "shutil.rmtree",
    }
)
_WRITE_FLAGS = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND

_CODE = tuple(
    {str(ROOT), sys.prefix, sys.base_prefix, *(os.path.realpath(p) for p in sysconfig.get_paths().values()), "<frozen"}
)
"""Where the code of this process is from."""

_LIBRARY = tuple({os.path.realpath(sysconfig.get_paths()[name]) for name in ("stdlib", "platstdlib", "purelib")})
_COMPILING = ("namedtuple", "_create_fn", "_evaluate", "add_fns_to_class", "source_exec_as_module")
"""Functions of libraries that compile names and types: of named tuples, data classes, annotations and strategies."""

_READABLE = (*_CODE, "/proc/", "/sys/", "/dev/null", "/dev/urandom", "/usr/lib", "/lib", "/usr/share/zoneinfo")


class Forbidden(BaseException):
    """An input made the process do what no input may; not an Exception, so that nothing takes it for a refusal."""


class Guard:
    """Raises Forbidden in the middle of what is forbidden, while it is watching.

    Code that is run must come from a file of Python, of an installed package or of this repository; files may be
    written in temporary folders only. Calls of C libraries are not seen.
    """

    def __init__(self) -> None:
        """Not watching yet."""
        self.violation: Forbidden | None = None
        self._is_watching = False
        self._temporary = os.path.realpath(tempfile.gettempdir())
        sys.addaudithook(self._hook)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watch, and raise what code has swallowed."""
        self.violation = None
        self._is_watching = True
        try:
            yield
        finally:
            self._is_watching = False
        if self.violation is not None:
            raise self.violation

    def _hook(self, event: str, args: tuple[Any, ...]) -> None:
        if self._is_watching and self._is_forbidden(event, args):
            self._is_watching = False  # reporting does such things, too
            self.violation = Forbidden(f"{event} {str(args)[:300]}")
            raise self.violation

    def _is_forbidden(self, event: str, args: tuple[Any, ...]) -> bool:
        if event == "open":
            return not self._may_open(*args)
        if event == "exec":
            return not _is_installed(args[0])
        if event in _WRITING:
            return not self._is_temporary(args[0])
        return event in FORBIDDEN

    def _may_open(self, path: Any, mode: Any, flags: Any) -> bool:
        if isinstance(path, int) or self._is_temporary(path):
            return True
        is_written = bool((flags or 0) & _WRITE_FLAGS)
        return not is_written and os.path.realpath(os.fsdecode(path)).startswith(_READABLE)

    def _is_temporary(self, path: Any) -> bool:
        real = os.path.realpath(os.fsdecode(path))
        # A clone of the repository may be in a temporary folder: its files are not for inputs to write.
        return real.startswith(self._temporary) and not real.startswith(f"{ROOT}{os.sep}")


@cache
def the_guard() -> Guard:
    """The one guard of this process: an audit hook cannot be removed again."""
    return Guard()


def _is_installed(code: Any) -> bool:
    """Whether code is of a file, or made by a library that compiles what its own code says."""
    if code.co_filename.startswith(_CODE):
        return True
    frame = sys._getframe(3)  # of what calls exec or eval; before it are this function, _is_forbidden and _hook
    return frame.f_code.co_name in _COMPILING and frame.f_code.co_filename.startswith(_LIBRARY)
