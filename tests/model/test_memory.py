from __future__ import annotations

import ctypes
import platform
from pathlib import Path
from typing import Any

import pytest
import torch

from model.process.allocator import share_freed_memory
from model.process.memory import available_bytes, give_back_freed_memory


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
    share_freed_memory()


def test_threads_share_two_pools(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int]] = []

    class Library:
        def mallopt(self, parameter: int, value: int) -> int:
            asked.append((parameter, value))
            return 1

    def load(name: Any) -> Any:
        return Library()

    monkeypatch.setattr(ctypes, "CDLL", load)
    share_freed_memory()
    assert asked == [(-8, 2)]


def test_a_gpu_gets_its_memory_back(monkeypatch: pytest.MonkeyPatch) -> None:
    emptied: list[bool] = []
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: emptied.append(True))
    give_back_freed_memory("cpu")
    assert emptied == []
    give_back_freed_memory("cuda:1")
    assert emptied == [True]


def machine(folder: Path, available: str = "MemAvailable: 4000 kB", **cgroup: str) -> tuple[Path, Path]:
    """A process's folder with one cgroup of version 2 and, among them, what the machine says."""
    meminfo, mount = folder / "meminfo", folder / "fs"
    meminfo.write_text(f"MemTotal: 9000 kB\n{available}\n")
    (folder / "cgroup").write_text("0::/box\n4:memory:/old\n")
    (folder / "mountinfo").write_text(
        f"30 23 0:28 / {mount} rw - cgroup2 cgroup2 rw\n31 23 0:29 / {folder / 'v1'} rw - cgroup cgroup rw,memory\n"
    )
    for name, text in cgroup.items():
        path = (folder / "v1" / "old" if name.endswith("in_bytes") else mount / "box") / name.replace("__", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    return folder, meminfo


def test_the_machine_says_what_is_free(tmp_path: Path) -> None:
    assert available_bytes("cpu", *machine(tmp_path)) == 4_096_000


def test_the_limit_of_a_cgroup_leaves_less(tmp_path: Path) -> None:
    told = {"memory__max": "3000000", "memory__current": "2500000", "memory__stat": "anon 5\ninactive_file 100000"}
    assert available_bytes("cpu", *machine(tmp_path, **told)) == 600_000


def test_the_limit_of_an_older_cgroup_leaves_less(tmp_path: Path) -> None:
    told = {"memory__limit_in_bytes": "3000000", "memory__usage_in_bytes": "1000000"}
    assert available_bytes("cpu", *machine(tmp_path, **told)) == 2_000_000


def test_a_cgroup_without_a_limit_leaves_what_the_machine_has(tmp_path: Path) -> None:
    assert available_bytes("cpu", *machine(tmp_path, memory__max="max", memory__current="2500000")) == 4_096_000


def test_a_cgroup_that_is_full_leaves_nothing(tmp_path: Path) -> None:
    assert available_bytes("cpu", *machine(tmp_path, memory__max="1000", memory__current="2000")) == 0


def test_where_nothing_is_known_some_memory_is_assumed(tmp_path: Path) -> None:
    assert available_bytes("cpu", tmp_path / "no", tmp_path / "nor this") == 1 << 30


def test_a_gpu_is_asked_for_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (123, 456))
    assert available_bytes("cuda") == 123
