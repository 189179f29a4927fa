"""The number of usable threads, read from simulated process folders and cgroup trees."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from model.process.threads import available_threads, usable_threads


@pytest.fixture(autouse=True)
def _machine_of_eight(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(8)), raising=False)


def process(folder: Path, cgroup: str, *mounts: str) -> Path:
    """A process's folder: its memberships and its mounts."""
    proc = folder / "proc"
    proc.mkdir()
    (proc / "cgroup").write_text(cgroup)
    (proc / "mountinfo").write_text("".join(f"{line}\n" for line in mounts))
    return proc


def mounted_v2(mount: Path, root: str = "/") -> str:
    return f"30 23 0:28 {root} {str(mount).replace(' ', chr(92) + '040')} rw,relatime shared:4 - cgroup2 cgroup2 rw"


def mounted_v1(mount: Path, controllers: str, root: str = "/") -> str:
    return f"31 23 0:29 {root} {mount} rw,relatime - cgroup cgroup rw,{controllers}"


def limit(folder: Path, **files: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text + "\n")


def test_without_cgroups_the_number_of_processors_counts(tmp_path: Path) -> None:
    assert available_threads(tmp_path / "nowhere") == 8


def test_the_affinity_counts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {1, 5, 6}, raising=False)
    assert available_threads(tmp_path) == 3


def test_a_system_without_affinity_has_its_processors(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    assert available_threads(tmp_path) == 8


@pytest.mark.parametrize(
    ("quota", "threads"),
    [("200000 100000", 2), ("250000 100000", 2), ("50000 100000", 1), ("max 100000", 8), ("9900000 100000", 8)],
)
def test_the_quota_of_version_2_is_rounded_down_to_at_least_1(tmp_path: Path, quota: str, threads: int) -> None:
    limit(tmp_path / "fs" / "pod" / "box", cpu__max=quota)
    proc = process(tmp_path, "0::/pod/box\n", mounted_v2(tmp_path / "fs"))
    assert available_threads(proc) == threads


def test_the_lowest_quota_of_all_parents_holds(tmp_path: Path) -> None:
    limit(tmp_path / "fs" / "pod" / "box", cpu__max="600000 100000")
    limit(tmp_path / "fs" / "pod", cpu__max="300000 100000")
    limit(tmp_path / "fs", cpu__max="max 100000")
    proc = process(tmp_path, "0::/pod/box\n", mounted_v2(tmp_path / "fs"))
    assert available_threads(proc) == 3


@pytest.mark.parametrize(("quota", "threads"), [("400000", 4), ("150000", 1), ("-1", 8), ("1000", 1)])
def test_the_quota_of_version_1_counts(tmp_path: Path, quota: str, threads: int) -> None:
    limit(tmp_path / "fs" / "cpu" / "box", cpu__cfs_quota_us=quota, cpu__cfs_period_us="100000")
    proc = process(
        tmp_path,
        "4:memory:/other\n3:cpu,cpuacct:/box\n1:name=systemd:/\n",
        mounted_v1(tmp_path / "fs" / "memory", "memory"),
        mounted_v1(tmp_path / "fs" / "cpu", "cpu,cpuacct"),
    )
    assert available_threads(proc) == threads


def test_the_tree_of_a_container_is_read_at_its_mount(tmp_path: Path) -> None:
    limit(tmp_path / "fs", cpu__cfs_quota_us="200000", cpu__cfs_period_us="100000")
    proc = process(tmp_path, "3:cpu:/docker/abc\n", mounted_v1(tmp_path / "fs", "cpu", root="/docker/abc"))
    assert available_threads(proc) == 2


def test_no_more_threads_than_available_are_used(tmp_path: Path) -> None:
    limit(tmp_path / "fs", cpu__max="300000 100000")
    proc = process(tmp_path, "0::/\n", mounted_v2(tmp_path / "fs"))
    assert [usable_threads(expected, proc) for expected in (None, 1, 3, 64)] == [3, 1, 3, 3]


def test_this_process_may_use_at_least_one_thread() -> None:
    assert 1 <= available_threads() <= 8
