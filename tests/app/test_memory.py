from __future__ import annotations

import ctypes
import platform
from pathlib import Path
from typing import Any

import pytest
import torch

from app.memory import give_back_freed_memory


def resident_mb() -> float:
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS"))


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc keeps that much")
def test_what_was_freed_is_given_back() -> None:
    give_back_freed_memory()
    before = resident_mb()
    pieces = [torch.ones(16_000) for _ in range(1_600)]  # 64 kB each: small enough to come from the heap
    held = [pieces[-1]]
    assert resident_mb() - before > 80
    del pieces
    give_back_freed_memory()
    assert resident_mb() - before < 20
    assert held[0].sum() == 16_000


def test_another_c_library_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    class Other:
        pass

    def load(name: Any) -> Any:
        return Other()

    monkeypatch.setattr(ctypes, "CDLL", load)
    give_back_freed_memory()


def test_a_gpu_gets_its_memory_back(monkeypatch: pytest.MonkeyPatch) -> None:
    emptied: list[bool] = []
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: emptied.append(True))
    give_back_freed_memory("cpu")
    assert emptied == []
    give_back_freed_memory("cuda:1")
    assert emptied == [True]
