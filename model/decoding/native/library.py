"""The compiled library: built at installation or on first use, where a C++ compiler is at hand."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import logging
import os
import platform
import shutil
import subprocess
import tempfile
from pathlib import Path

import torch

from model.process.folders import cache_folder

logger = logging.getLogger("model.native")

_SOURCE = Path(__file__).with_name("decoder.cpp")
_FLAGS = (
    *("-O3", "-std=c++17", "-shared", "-fPIC", "-fvisibility=hidden", "-pthread", "-w"),
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


class Request(ctypes.Structure):
    """One sentence to decode, as search.h takes it."""

    _fields_ = (
        ("key", ctypes.c_int64),
        ("length_penalty", ctypes.c_double),
        ("num_source", ctypes.c_int32),
        ("num_forced", ctypes.c_int32),
        ("min_new_tokens", ctypes.c_int32),
        ("max_new_tokens", ctypes.c_int32),
        ("no_repeat_ngram_size", ctypes.c_int32),
        ("num_hypotheses", ctypes.c_int32),
        ("scoring", ctypes.c_int32),
        ("early_stopping", ctypes.c_int32),
        ("force_end", ctypes.c_int32),
        ("return_scores", ctypes.c_int32),
    )


def check(code: int) -> None:
    """Raise what a return code of the library means."""
    if code == 1:
        raise MemoryError("There is no memory for the sentences that decode.")
    if code == 2:
        raise IndexError("A token id or a length is one the model does not have.")
    if code:
        raise RuntimeError("The native decoder failed.")


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
    sources = [path.read_bytes() for path in (_SOURCE, *sorted(_SOURCE.parent.glob("*.h")))]
    name = f"decoder-{hashlib.sha256(b''.join(sources) + ' '.join(_FLAGS).encode()).hexdigest()[:16]}.so"
    cache = cache_folder()
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
    address = ctypes.POINTER(pointer)
    for name, result, arguments in (
        ("verso_model", pointer, [pointer, pointer, pointer, ctypes.POINTER(LinearSource), pointer]),
        ("verso_model_free", None, [pointer]),
        ("verso_shorten", number, [pointer, ctypes.POINTER(LinearSource), pointer, pointer, pointer, number]),
        ("verso_cohort", pointer, [pointer, number, number, number, pointer, number]),
        ("verso_cohort_free", None, [pointer]),
        ("verso_join", number, [pointer, ctypes.POINTER(Request), number, pointer]),
        ("verso_run", number, [pointer, ctypes.c_double, number, address, ctypes.POINTER(number), address]),
        ("verso_leave", number, [pointer, pointer, number]),
        ("verso_logits", number, [pointer, pointer, number, pointer, number, pointer]),
    ):
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


def _main() -> None:
    """At installation, so that the first start need not wait for a compiler. What fails here is no reason to stop."""
    if platform.machine().lower() not in ("x86_64", "amd64"):
        print(f"this is {platform.machine()}: torch decodes, more slowly")
        return
    try:
        print(build_library() or "no C++ compiler here: torch decodes, more slowly")
    except (OSError, RuntimeError, subprocess.SubprocessError) as error:
        print(f"the native decoder could not be built ({error}): torch decodes, more slowly")


if __name__ == "__main__":
    _main()
