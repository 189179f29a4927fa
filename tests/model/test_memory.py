from __future__ import annotations

import ctypes
import platform
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
import torch

from model.process.allocator import share_freed_memory
from model.process.gpus import is_lost
from model.process.memory import available_bytes, give_back_freed_memory, is_out_of_memory


def resident_mb() -> float:
    return psutil.Process().memory_info().rss / 2**20


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc keeps that much")
def test_freed_memory_is_given_back() -> None:
    give_back_freed_memory()
    before = resident_mb()
    pieces = [torch.ones(16_000) for _ in range(1_600)]  # 64 kB each: small enough to come from the heap
    gate = [pieces[-1]]
    assert resident_mb() - before > 80
    del pieces
    give_back_freed_memory()
    assert resident_mb() - before < 20
    assert gate[0].sum() == 16_000


def test_threads_share_two_pools(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[int, int]] = []

    class Library:
        def mallopt(self, parameter: int, value: int) -> int:
            calls.append((parameter, value))
            return 1

    def load(name: Any) -> Any:
        return Library()

    monkeypatch.setattr(ctypes, "CDLL", load)
    share_freed_memory()
    assert calls == [(-8, 2)]


def test_gpu_memory_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    emptied: list[bool] = []
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: emptied.append(True))
    give_back_freed_memory("cpu")
    assert emptied == []
    give_back_freed_memory("cuda:1")
    assert emptied == [True]


@pytest.fixture
def _four_megabytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=4_000_000))


def process(folder: Path, **cgroup: str) -> Path:
    """A process's folder, with a cgroup of version 2 and one of version 1."""
    mount = folder / "fs"
    (folder / "cgroup").write_text("0::/box\n4:memory:/old\n")
    (folder / "mountinfo").write_text(
        f"30 23 0:28 / {mount} rw - cgroup2 cgroup2 rw\n31 23 0:29 / {folder / 'v1'} rw - cgroup cgroup rw,memory\n"
    )
    for name, text in cgroup.items():
        path = (folder / "v1" / "old" if name.endswith("in_bytes") else mount / "box") / name.replace("__", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    return folder


@pytest.mark.usefixtures("_four_megabytes")
@pytest.mark.parametrize(
    ("cgroup", "remaining"),
    [
        ({}, 4_000_000),
        (
            {"memory__max": "3000000", "memory__current": "2500000", "memory__stat": "anon 5\ninactive_file 100000"},
            600_000,
        ),
        ({"memory__limit_in_bytes": "3000000", "memory__usage_in_bytes": "1000000"}, 2_000_000),
        ({"memory__max": "max", "memory__current": "2500000"}, 4_000_000),
        ({"memory__max": "1000", "memory__current": "2000"}, 0),
    ],
    ids=["only the machine", "a cgroup", "an older cgroup", "a cgroup without a limit", "a full cgroup"],
)
def test_available_memory_is_the_minimum_of_machine_and_cgroups(
    cgroup: dict[str, str], remaining: int, tmp_path: Path
) -> None:
    assert available_bytes("cpu", process(tmp_path, **cgroup)) == remaining


def test_without_cgroups_the_free_memory_of_the_machine_counts(tmp_path: Path) -> None:
    assert 0 < available_bytes("cpu", tmp_path / "no") <= psutil.virtual_memory().total


def test_what_torch_keeps_of_freed_memory_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (123, 456))
    assert available_bytes("cuda") == 123
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: 200)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: 150)
    assert available_bytes("cuda") == 173


class Gpu:
    """A GPU of this process.

    Args:
        free: The share of its memory that is free.
        failed: Whether it has failed for good.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, free: float, *, failed: bool = False) -> None:
        self.waited_for: list[int | None] = []
        self.failed = failed
        monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
        monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: 1000 * device)  # the second one is used
        monkeypatch.setattr(torch.cuda, "synchronize", self.synchronize)

        def memory(device: int) -> tuple[int, int]:
            assert device == 1, "the other one is not touched"
            self.synchronize(device)
            return int(free * 80e9), int(80e9)

        monkeypatch.setattr(torch.cuda, "mem_get_info", memory)

    def synchronize(self, device: int | None = None) -> None:
        self.waited_for.append(device)
        if self.failed:
            raise torch.AcceleratorError("CUDA error: an illegal memory access was encountered")


PERHAPS = [
    RuntimeError("CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`"),
    torch.AcceleratorError("CUDA error: operation failed due to a previous error during capture"),
]


@pytest.mark.parametrize("error", PERHAPS, ids=["cublas", "capture"])
def test_what_may_mean_a_lack_of_memory_means_it_on_a_full_gpu(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    Gpu(monkeypatch, free=0.01)
    assert is_out_of_memory(error)
    Gpu(monkeypatch, free=0.5)
    assert not is_out_of_memory(error)
    Gpu(monkeypatch, free=0.01, failed=True)
    assert not is_out_of_memory(error)


def test_a_lack_of_memory_is_recognised_behind_the_error_that_hid_it() -> None:
    try:
        try:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
        finally:
            raise RuntimeError("the capture could not be ended")
    except RuntimeError as error:
        hidden = error
    assert is_out_of_memory(hidden)
    assert not is_out_of_memory(RuntimeError("the capture could not be ended"))


def test_a_gpu_that_can_be_waited_for_has_not_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    error = torch.AcceleratorError("CUDA error: an illegal memory access was encountered")
    gpu = Gpu(monkeypatch, free=0.5, failed=True)
    assert is_lost(error)
    assert not is_lost(RuntimeError("a tensor of the wrong shape"))
    assert gpu.waited_for == [1], "only the one that this process uses, and only after an error of a GPU"
    gpu.failed = False
    assert not is_lost(error)
