"""Checks of the machine: Python, torch, processor, threads, memory, GPU."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import shutil
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from app.commands.diagnosis.report import Check
from app.settings import ENV_PREFIX
from app.version import DISTRIBUTION
from model.process.cgroups import PROC, memory_limits
from model.process.memory import available_bytes
from model.process.threads import available_threads, usable_threads

if TYPE_CHECKING:
    from model.process.devices import Obstacle

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

ENOUGH_BYTES_CUDA = 900_000_000
"""The same with torch's CUDA build, whose libraries take 300 MB more."""

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
    matches = (re.match(r"torch==([0-9.]+)", requirement) for requirement in requirements)
    return next((match[1] for match in matches if match), None)


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
    fields: dict[str, str] = {}
    for line in lines:
        key, _, value = line.partition(":")
        fields.setdefault(key.strip().lower(), value.strip())
    return fields.get("model name", ""), set(fields.get("flags", fields.get("features", "")).split())


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


def check_memory(cuda_build: bool = False, proc: Path = PROC) -> Check:
    """How much memory there is, is free, and is allowed.

    Args:
        cuda_build: Whether torch is a CUDA build.
        proc: The process's folder.
    """
    import psutil

    enough = ENOUGH_BYTES_CUDA if cuda_build else ENOUGH_BYTES
    total, available = psutil.virtual_memory().total, available_bytes("cpu", proc=proc)
    # Without a limit, version 1 states a number beyond all memory.
    limit = min((limit for limit, _ in memory_limits(proc) if limit < total), default=None)
    text = f"{_size(available)} available of {_size(total)}"
    text += f"; limited to {_size(limit)} by the cgroup" if limit is not None else "; no cgroup limit"
    details = {"available_bytes": available, "total_bytes": total, "cgroup_limit_bytes": limit}
    if available >= enough:
        return Check("memory", "ok", text, details=details)
    advice = f"Free memory or raise the limit: have {_size(enough)} for the translator that ships."
    return Check("memory", "warning", text, advice, details)


def _size(num_bytes: int) -> str:
    return f"{num_bytes / 1e9:.1f} GB" if num_bytes >= 1e9 else f"{num_bytes / 1e6:.0f} MB"


@dataclass(frozen=True)
class DriverGpu:
    """A GPU as nvidia-smi describes it.

    Args:
        name: Of the product.
        driver: Version of the driver.
        capability: Compute capability; empty if the driver is too old to tell.
    """

    name: str
    driver: str
    capability: str

    def __str__(self) -> str:
        capability = f", compute capability {self.capability}" if self.capability else ""
        return f"{self.name} (driver {self.driver}{capability})"

    @property
    def too_old(self) -> str | None:
        """What torch's CUDA build lacks here, as an imperative clause; None if nothing is known to be lacking."""
        from model.process.devices import OLDEST_CAPABILITY, OLDEST_DRIVER, TAKE_NEWER_GPU, UPDATE_DRIVER

        release = self.driver.partition(".")[0]
        if release.isdecimal() and int(release) < OLDEST_DRIVER:
            return UPDATE_DRIVER
        version = tuple(int(part) for part in self.capability.split(".") if part.isdecimal())
        if version and version < OLDEST_CAPABILITY:
            return TAKE_NEWER_GPU
        return None


def check_gpu(device: str) -> Check:
    """The GPUs torch can use, and why it cannot use one that is there.

    Args:
        device: ``VERSO_DEVICE``.
    """
    import torch

    from model.artifacts.bundle import check_device
    from model.errors import DeviceError
    from model.process.devices import choose_device, cuda_obstacle

    driver = _driver_gpus()
    details: dict[str, object] = {"gpus": [], "driver": [asdict(gpu) for gpu in driver]}
    if device.startswith("cuda"):
        try:
            check_device(device, "float32")
        except DeviceError as error:
            advice = f"Set {ENV_PREFIX}DEVICE=auto to use a GPU only if there is one."
            text = "; ".join([f"{ENV_PREFIX}DEVICE is {device!r}: {error}", *map(str, driver)])
            return Check("gpu", "problem", text, advice, details)
    obstacle = cuda_obstacle()
    if obstacle is not None:
        return _check_unusable(obstacle, driver, details)
    gpus = [_gpu(index) for index in range(torch.cuda.device_count())]
    details["gpus"] = gpus
    text = "\n".join(_described(gpu) for gpu in gpus) + (f"\ndriver {driver[0].driver}" if driver else "")
    if device == "cpu":
        return Check("gpu", "ok", f"{text}\nnot used, as {ENV_PREFIX}DEVICE is cpu", details=details)
    choice = choose_device(device)
    if choice.remedy is not None:
        advice = f"{choice.remedy[0].upper()}{choice.remedy[1:]}; the model runs on the CPU."
        return Check("gpu", "warning", f"{text}\n{choice.reason}", advice, details)
    used = f"\n{choice.device} is used: {choice.reason}" if len(gpus) > 1 else ""
    return Check("gpu", "ok", text + used, details=details)


def _check_unusable(obstacle: Obstacle, driver: list[DriverGpu], details: dict[str, object]) -> Check:
    """The check where torch finds no GPU.

    Args:
        obstacle: Why.
        driver: The GPUs that the driver sees.
        details: Of the check.
    """
    import torch

    there = "; ".join(map(str, driver))
    if driver and torch.version.cuda is None:
        lacking = [gpu.too_old for gpu in driver]
        if all(lacking):
            text = f"{there}, which torch's CUDA build cannot use; the model runs on the CPU"
            return Check("gpu", "ok", text, f"To use it, {lacking[0]}; then 'make serve TORCH=cuda'.", details)
        advice = "Install torch's CUDA build to use it: 'make serve TORCH=cuda'."
        return Check("gpu", "warning", f"{there}, but torch is a CPU build", advice, details)
    remedy = next((gpu.too_old for gpu in driver if gpu.too_old), obstacle.remedy)
    if driver:
        advice = f"{remedy[0].upper()}{remedy[1:]}."
        return Check("gpu", "warning", f"{there}, but {obstacle.reason}", advice, details)
    if torch.version.cuda is not None:
        advice = (
            f"If there is to be a GPU, {remedy}. If not, torch's CPU build serves as well and is gigabytes smaller: "
            "'make serve TORCH=cpu'."
        )
        return Check("gpu", "warning", f"none, and torch is a CUDA build: {obstacle.reason}", advice, details)
    return Check("gpu", "ok", "none; the model runs on the CPU", details=details)


def _described(gpu: dict[str, object]) -> str:
    free = gpu["free_bytes"]
    memory = f"{_size(int(str(gpu['bytes'])))}" + ("" if free is None else f", {_size(int(str(free)))} free")
    return f"{gpu['name']}, compute capability {gpu['capability']}, {memory}"


def _gpu(index: int) -> dict[str, object]:
    import torch

    properties = torch.cuda.get_device_properties(index)
    try:
        free, _ = torch.cuda.mem_get_info(index)
    except RuntimeError:  # torch has no machine code for it, or another process has it to itself
        free = None
    return {
        "name": properties.name,
        "bytes": properties.total_memory,
        "free_bytes": free,
        "capability": f"{properties.major}.{properties.minor}",
    }


def _driver_gpus() -> list[DriverGpu]:
    """The GPUs that the NVIDIA driver sees, also where torch cannot use them."""
    # Drivers before release 510 do not know the field compute_cap.
    lines = _ask_driver("name,driver_version,compute_cap") or _ask_driver("name,driver_version")
    rows = [[*(part.strip() for part in line.split(",")), "", ""][:3] for line in lines]
    return [DriverGpu(name, version, capability) for name, version, capability in rows]


def _ask_driver(fields: str) -> list[str]:
    """A line for each GPU with these fields, separated by commas."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return []
    command = [tool, f"--query-gpu={fields}", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TOOL_TIMEOUT_S, check=False)
    except (OSError, subprocess.SubprocessError):
        return []
    return done.stdout.strip().splitlines() if done.returncode == 0 else []
