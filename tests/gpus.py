"""Drivers and GPUs as nvidia-smi and torch describe them, for tests of what is said about them and chosen."""

from __future__ import annotations

import warnings
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

BUILT_FOR = ["sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120"]
"""GPUs that torch has machine code for, as torch names them."""


def put_nvidia_smi(
    monkeypatch: pytest.MonkeyPatch, folder: Path, *gpus: str, knows_capability: bool = True, code: int = 0
) -> None:
    """Make a command nvidia-smi the only one on PATH.

    Args:
        monkeypatch: Sets PATH.
        folder: For the command.
        gpus: Lines of name, driver and compute capability.
        knows_capability: Whether the driver is new enough to know the field.
        code: Its exit code.
    """
    lines = "\n".join(gpus)
    short = "\n".join(line.rpartition(",")[0] for line in gpus)
    refusal = "" if knows_capability else "echo 'Field \"compute_cap\" is not a valid field to query.'; exit 2"
    tool = folder / "nvidia-smi"
    tool.write_text(
        "#!/bin/sh\n"
        f"case \"$1\" in *compute_cap*) {refusal or ':'}; echo '{lines}';; *) echo '{short}';; esac\nexit {code}\n",
        encoding="utf-8",
    )
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))


def with_gpus(monkeypatch: pytest.MonkeyPatch, *capabilities: tuple[int, int]) -> None:
    """Let torch's CUDA build find GPUs of these compute capabilities, with 24 GB each, of which 20 GB are free."""
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: len(capabilities))
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda index: capabilities[index])
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda index: f"GPU {index}")
    monkeypatch.setattr(torch.cuda, "get_arch_list", lambda: BUILT_FOR)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda index: (20 * 10**9, 24 * 10**9))
    monkeypatch.setattr(
        torch.cuda,
        "get_device_properties",
        lambda index: SimpleNamespace(
            name=f"GPU {index}", total_memory=24 * 10**9, major=capabilities[index][0], minor=capabilities[index][1]
        ),
    )


def without_gpus(monkeypatch: pytest.MonkeyPatch, cuda: str | None, reason: str = "No CUDA GPUs are available") -> None:
    """Let torch find no GPU.

    Args:
        monkeypatch: Replaces functions of torch.
        cuda: The CUDA release of its build; None for a CPU build.
        reason: Its own reason, which a CUDA build also gives as a warning once.
    """
    warned: list[bool] = []

    def is_available() -> bool:
        if cuda is not None and not warned:
            warned.append(True)
            warnings.warn(f"CUDA initialization: {reason}", UserWarning, stacklevel=1)
        return False

    def init() -> None:
        raise RuntimeError(reason)

    monkeypatch.setattr(torch.version, "cuda", cuda)
    monkeypatch.setattr(torch.cuda, "is_available", is_available)
    monkeypatch.setattr(torch.cuda, "init", init)
