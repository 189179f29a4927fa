"""The compiled library: built at installation or on first use, where a C++ compiler is at hand."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import logging
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import torch

logger = logging.getLogger("model.native")

_SOURCE = Path(__file__).with_name("decoder.cpp")
_FLAGS = (
    *("-O3", "-std=c++17", "-shared", "-fPIC", "-pthread", "-w"),
    *("-mavx2", "-mfma", "-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mavx512vnni"),
)
_BUILD_TIMEOUT_S = 300.0


class LinearSource(ctypes.Structure):
    """One product's weights, as decoder.cpp takes them."""

    _fields_ = (
        ("weight", ctypes.c_void_p),
        ("rounded", ctypes.c_void_p),
        ("scales", ctypes.c_void_p),
        ("bias", ctypes.c_void_p),
        ("outputs", ctypes.c_int32),
        ("inputs", ctypes.c_int32),
    )


@functools.cache
def load_library() -> ctypes.CDLL | None:
    """The library, or None where the processor or the compiler it needs is not there; torch decodes then."""
    if not _processor_fits():
        return None
    try:
        path = build_library()
        return None if path is None else _with_types(ctypes.CDLL(str(path)))
    except (OSError, RuntimeError, subprocess.SubprocessError) as error:  # RuntimeError: a user without a home
        logger.warning("the native decoder could not be built or loaded (%s): torch decodes, more slowly", error)
        return None


def build_library() -> Path | None:
    """Compile the library unless that was done: beside its source, or where that cannot be written, in the cache.

    Returns:
        Its path, or None where there is no C++ compiler.

    Raises:
        OSError: The compiler failed, or neither folder can be written.
        SubprocessError: The compiler took too long.
    """
    name = f"decoder-{hashlib.sha256(_SOURCE.read_bytes() + ' '.join(_FLAGS).encode()).hexdigest()[:16]}.so"
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "verso"
    folders = (_SOURCE.parent, cache)
    for folder in folders:
        if (folder / name).is_file():
            return folder / name
    compiler = next((found for command in ("c++", "g++", "clang++") if (found := shutil.which(command))), None)
    if compiler is None:
        logger.info("there is no C++ compiler: torch decodes, more slowly")
        return None
    folder = next((folder for folder in folders if os.access(folder, os.W_OK)), cache)
    _build(compiler, folder / name)
    return folder / name


def _processor_fits() -> bool:
    checks = (getattr(torch.cpu, name, None) for name in ("_is_avx512_supported", "_is_vnni_supported"))
    return all(check is not None and check() for check in checks)


def _build(compiler: str, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        built = Path(folder) / path.name
        command = [compiler, *_FLAGS, "-o", str(built), str(_SOURCE)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_BUILD_TIMEOUT_S, check=False)
        if done.returncode:
            raise OSError(f"{compiler} says: {done.stderr.strip().splitlines()[:1]}")
        built.replace(path)


def _with_types(library: ctypes.CDLL) -> ctypes.CDLL:
    pointer, number = ctypes.c_void_p, ctypes.c_int32
    for name, result, arguments in (
        ("verso_model", pointer, [pointer, pointer, pointer, ctypes.POINTER(LinearSource), pointer]),
        ("verso_model_free", None, [pointer]),
        ("verso_state", pointer, [pointer, number]),
        ("verso_state_free", None, [pointer]),
        ("verso_join", number, [pointer, pointer, pointer, number, pointer, number, pointer, number]),
        ("verso_step", number, [pointer, pointer, pointer, number]),
        ("verso_reorder", number, [pointer, pointer]),
        ("verso_keep", number, [pointer, pointer, number]),
    ):
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


if __name__ == "__main__":
    # At installation, so that the first start need not wait for a compiler.
    print(build_library() or "no C++ compiler here: torch decodes, more slowly")
