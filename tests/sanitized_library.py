"""A pytest plugin that runs the native tests with another build of the library (scripts/test_sanitized.py)."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest

from model.decoding.native import library


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--native-library", type=Path, required=True, help="the library that the tests load")


def pytest_configure(config: pytest.Config) -> None:
    path: Path = config.getoption("--native-library")
    vars(library)["build_library"] = lambda: path
    library.find_library.cache_clear()
    reason = library.find_library().reason
    if reason is None and not hasattr(ctypes.CDLL(None), "__asan_init"):
        reason = "AddressSanitizer is not loaded"
    if reason is not None:  # otherwise the tests would be skipped
        raise pytest.UsageError(f"the sanitized library cannot be tested: {reason}")
