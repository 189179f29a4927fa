"""Checks of the machine: Python, torch, processor, threads, memory, GPU."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

from app.commands.diagnosis.report import Check
from app.settings import ENV_PREFIX
from app.version import DISTRIBUTION
from model.process.cgroups import PROC, memory_limits
from model.process.memory import available_bytes
from model.process.threads import available_threads, usable_threads

OLDEST_PYTHON, NEWEST_PYTHON = (3, 11), (3, 13)

FEATURES = {
    "AVX2": ("avx2", "fma"),
    "AVX-512": ("avx512f", "avx512bw", "avx512dq", "avx512vl"),
    "AVX-512 VNNI": ("avx512_vnni",),
    "AVX VNNI": ("avx_vnni",),
    "AVX-512 bf16": ("avx512_bf16",),
    "AMX int8": ("amx_tile", "amx_int8"),
    "AMX bf16": ("amx_tile", "amx_bf16"),
}
"""Instructions of x86 processors that speed decoding up, and the flags Linux gives all of them by."""

ARM_FEATURES = {"NEON": ("asimd",), "dot product": ("asimddp",), "int8 matrices": ("i8mm",), "bf16": ("bf16",)}
"""The same of ARM processors."""

ENOUGH_BYTES = 600_000_000
"""Memory with which the translator that ships serves in comfort; the process takes 420 MB."""

_TOOL_TIMEOUT_S = 20.0


def check_python() -> Check:
    """The interpreter and the system."""
    version = platform.python_version()
    details = {"version": version, "executable": sys.executable, "system": platform.platform()}
    text = f"{version} ({sys.executable}) on {platform.system()} {platform.machine()}"
    if OLDEST_PYTHON <= sys.version_info[:2] <= NEWEST_PYTHON:
        return Check("python", "ok", text, details=details)
    return Check("python", "warning", text, "Use Python 3.11, 3.12 or 3.13: no other was tested.", details)


def check_torch() -> Check:
    """Whether torch is there, in which build, and whether it is the release everything was tested with."""
    try:
        import torch
    except (ImportError, OSError) as error:  # OSError: one of its libraries is missing
        return Check(
            "torch",
            "problem",
            f"cannot be imported: {error}",
            "Install it: 'make serve' does, or 'python scripts/install_torch.py' in the environment of this Python.",
        )
    build = "CPU build" if torch.version.cuda is None else f"build for CUDA {torch.version.cuda}"
    details = {"version": torch.__version__, "cuda": torch.version.cuda}
    pinned = _pinned_torch()
    if pinned is None or torch.__version__.partition("+")[0] == pinned:
        return Check("torch", "ok", f"{torch.__version__}, {build}", details=details)
    return Check(
        "torch",
        "warning",
        f"{torch.__version__}, {build}",
        f"Install torch {pinned}, with which everything was tested: 'python scripts/install_torch.py'.",
        details,
    )


def _pinned_torch() -> str | None:
    """The release of torch this project requires; None where the source is run without being installed."""
    try:
        requirements = importlib.metadata.requires(DISTRIBUTION) or []
    except importlib.metadata.PackageNotFoundError:
        return None
    found = (re.match(r"torch==([0-9.]+)", requirement) for requirement in requirements)
    return next((match[1] for match in found if match), None)


def check_processor(cpuinfo: Path = Path("/proc/cpuinfo")) -> Check:
    """The processor, and which of its instructions speed decoding up.

    Args:
        cpuinfo: What Linux says about the processors.
    """
    model, flags = _processor(cpuinfo)
    if not flags:
        name = model or platform.processor() or platform.machine()
        return Check("processor", "ok", f"{name}; its features are not known on {platform.system()}")
    arm = "asimd" in flags
    features = {name: flags.issuperset(needed) for name, needed in (ARM_FEATURES if arm else FEATURES).items()}
    has = ", ".join(name for name, there in features.items() if there) or "none of the features that matter"
    lacks = ", ".join(name for name, there in features.items() if not there)
    text = f"{model or platform.machine()}: {has}" + (f"; without {lacks}" if lacks else "")
    return Check("processor", "ok", text, details={"model": model, "features": features})


def _processor(cpuinfo: Path) -> tuple[str, set[str]]:
    """Name and flags of the first processor; empty where the system does not tell."""
    try:
        lines = cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return "", set()
    found: dict[str, str] = {}
    for line in lines:
        key, _, value = line.partition(":")
        found.setdefault(key.strip().lower(), value.strip())
    return found.get("model name", ""), set(found.get("flags", found.get("features", "")).split())


def check_threads(wanted: int | None, proc: Path = PROC) -> Check:
    """How many threads the model gets, and what bounds them.

    Args:
        wanted: ``VERSO_THREADS``.
        proc: The process's folder.
    """
    import torch

    machine = os.cpu_count() or 1
    affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else machine
    available, used = available_threads(proc), usable_threads(wanted, proc)
    bounds = [f"{machine} processors"]
    if affinity < machine:
        bounds.append(f"{affinity} allowed by affinity")
    if available < affinity:
        bounds.append(f"{available} allowed by the cgroup's quota")
    text = f"the model gets {used} of {', '.join(bounds)}; torch alone would take {torch.get_num_threads()}"
    details = {
        "used": used,
        "available": available,
        "affinity": affinity,
        "processors": machine,
        "torch": torch.get_num_threads(),
    }
    if wanted is not None and wanted > available:
        advice = f"{ENV_PREFIX}THREADS is {wanted}, more than there are: unset it, or give the process more processors."
        return Check("threads", "warning", text, advice, details)
    return Check("threads", "ok", text, details=details)


def check_memory(proc: Path = PROC) -> Check:
    """How much memory there is, is free, and is allowed.

    Args:
        proc: The process's folder.
    """
    import psutil

    total, available = psutil.virtual_memory().total, available_bytes("cpu", proc=proc)
    # Without a limit, version 1 states a number beyond all memory.
    limit = min((limit for limit, _ in memory_limits(proc) if limit < total), default=None)
    text = f"{_size(available)} available of {_size(total)}"
    text += f"; limited to {_size(limit)} by the cgroup" if limit is not None else "; no cgroup limit"
    details = {"available_bytes": available, "total_bytes": total, "cgroup_limit_bytes": limit}
    if available >= ENOUGH_BYTES:
        return Check("memory", "ok", text, details=details)
    advice = f"Free memory or raise the limit: have {_size(ENOUGH_BYTES)} for the translator that ships."
    return Check("memory", "warning", text, advice, details)


def _size(num_bytes: int) -> str:
    return f"{num_bytes / 1e9:.1f} GB" if num_bytes >= 1e9 else f"{num_bytes / 1e6:.0f} MB"


def check_gpu(device: str) -> Check:
    """The GPUs torch can use, and why it cannot use one that is there.

    Args:
        device: ``VERSO_DEVICE``.
    """
    import torch

    from model.artifacts.bundle import check_device
    from model.errors import DeviceError

    with warnings.catch_warnings(record=True) as raised:
        warnings.simplefilter("always")
        usable = torch.cuda.is_available()
    if device.startswith("cuda"):
        try:
            check_device(device, "float32")
        except DeviceError as error:
            advice = f"Set {ENV_PREFIX}DEVICE=auto to use a GPU only if there is one."
            return Check("gpu", "problem", f"{ENV_PREFIX}DEVICE is {device!r}: {error}", advice, {"gpus": []})
    if usable:
        gpus = [_gpu(index) for index in range(torch.cuda.device_count())]
        text = "; ".join(f"{gpu['name']}, {_size(int(str(gpu['bytes'])))}" for gpu in gpus)
        unused = f"; not used, as {ENV_PREFIX}DEVICE is cpu" if device == "cpu" else ""
        return Check("gpu", "ok", text + unused, details={"gpus": gpus})
    driver = _driver_gpus()
    details = {"gpus": [], "driver": driver}
    if driver and torch.version.cuda is None:
        advice = "Install torch's CUDA build to use it: 'make serve TORCH=cuda'."
        return Check("gpu", "warning", f"{', '.join(driver)}, but torch is a CPU build", advice, details)
    if driver:
        reason = f" ({raised[0].message})" if raised else ""
        advice = "Update the NVIDIA driver to one that fits torch's CUDA, and in a container pass '--gpus all'."
        return Check("gpu", "warning", f"{', '.join(driver)}, but torch cannot use it{reason}", advice, details)
    if torch.version.cuda is not None:
        advice = (
            "Nothing, if a GPU is to come; else torch's CPU build serves as well and is gigabytes smaller: "
            "'make serve TORCH=cpu'."
        )
        return Check("gpu", "warning", "none, and torch is a CUDA build", advice, details)
    return Check("gpu", "ok", "none; the model runs on the processor", details=details)


def _gpu(index: int) -> dict[str, object]:
    import torch

    properties = torch.cuda.get_device_properties(index)
    return {
        "name": properties.name,
        "bytes": properties.total_memory,
        "capability": f"{properties.major}.{properties.minor}",
    }


def _driver_gpus() -> list[str]:
    """Names of the GPUs the NVIDIA driver sees."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return []
    command = [tool, "--query-gpu=name", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TOOL_TIMEOUT_S, check=False)
    except (OSError, subprocess.SubprocessError):
        return []
    return done.stdout.strip().splitlines() if done.returncode == 0 else []
