"""The memory settings of training, each tested in its own process because they cannot be undone."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.thorough

ROOT = Path(__file__).resolve().parents[2]

GIVEN_BACK = """
import psutil, torch
from model.process.allocator import keep_freed_memory
from model.process.memory import give_back_freed_memory
def resident():
    return psutil.Process().memory_info().rss // 2**20
keep_freed_memory()
blocks = [torch.ones(1_000_000) for _ in range(60)]
del blocks[:-1]
before = resident()
give_back_freed_memory()
print(before - resident())
"""

FAULTS = """
import resource, sys, torch
torch.set_num_threads(1)
from model.process.allocator import keep_freed_memory
print(keep_freed_memory() if sys.argv[1] == "keep" else None)
def work():
    blocks = [torch.ones(1_000_000) for _ in range(30)]
for _ in range(3):
    work()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(5):
    work()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def output(program: str, *arguments: str, **environment: str) -> str:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_"))}
    process = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        cwd=ROOT,
        env={**clean, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return process.stdout


def run(how: str, **environment: str) -> tuple[str, int]:
    answer, faults = output(FAULTS, how, **environment).split()
    return answer, int(faults)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library")
def test_freed_memory_is_reused_without_page_faults() -> None:
    answer, faults = run("keep")
    assert answer == "True"
    assert faults < 500
    # Ten thousands of pages of 4 KiB, fewer if the kernel has large pages. By default glibc may or may not return
    # blocks of this size; with the setting it always does.
    assert run("leave", MALLOC_MMAP_THRESHOLD_="1000000")[1] > faults


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library")
def test_kept_memory_is_given_back_on_request() -> None:
    assert int(output(GIVEN_BACK)) > 150  # MiB of the 240 that were freed


@pytest.mark.slow
def test_settings_of_the_user_are_kept() -> None:
    assert run("keep", MALLOC_ARENA_MAX="2")[0] == "False"
