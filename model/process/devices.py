"""The device that a model runs on, and why a GPU cannot be used.

torch's CUDA build has machine code for some GPUs only and needs a driver of the same CUDA release or a newer one. Where
either is missing, ``auto`` means the CPU.
"""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass
from typing import NamedTuple

import torch

OLDEST_DRIVER = 580
"""First number of the oldest NVIDIA driver for CUDA 13, which the pinned torch is built with (NVIDIA's CUDA toolkit
release notes, table "CUDA Toolkit and Corresponding Driver Versions")."""

OLDEST_CAPABILITY = (7, 5)
"""Lowest compute capability that the pinned torch has machine code for: Turing, such as T4 and RTX 20."""

UPDATE_DRIVER = f"update the NVIDIA driver to release {OLDEST_DRIVER} or newer"
TAKE_NEWER_GPU = f"take a GPU of compute capability {'.'.join(map(str, OLDEST_CAPABILITY))} or higher"
"""Remedies, as imperative clauses."""

BFLOAT16_CAPABILITY = (8, 0)
"""Lowest compute capability whose matrix units multiply bfloat16."""


_SENTENCE_END = re.compile(r"\.(?:\s|$)|\n")


class Obstacle(NamedTuple):
    """Why torch cannot use a GPU.

    Args:
        reason: A clause; torch's own words where torch gives a reason.
        remedy: What to do about it, as an imperative clause.
    """

    reason: str
    remedy: str


@dataclass(frozen=True)
class DeviceChoice:
    """The device of a name.

    Args:
        device: ``cpu``, ``cuda`` or ``cuda:N``.
        reason: Why this one, as a clause.
        remedy: What makes a GPU usable, as an imperative clause; None if nothing suggests that one should be used.
    """

    device: str
    reason: str
    remedy: str | None = None

    @property
    def warning(self) -> str | None:
        """A sentence for people, if torch's CUDA build is installed and runs on the CPU; None otherwise."""
        if self.remedy is None:
            return None
        return f"the model runs on the CPU, because {self.reason}; to use a GPU, {self.remedy}"


def choose_device(device: str) -> DeviceChoice:
    """The device of a name: ``auto`` is the first GPU that torch can use, or else the CPU.

    Args:
        device: ``auto``, ``cpu``, ``cuda`` or ``cuda:N``.
    """
    if device != "auto":
        return DeviceChoice(device, "it was requested")
    obstacle = cuda_obstacle()
    if obstacle is not None:
        # The CPU build was chosen; without a GPU there is nothing to do about it.
        return DeviceChoice("cpu", obstacle.reason, None if torch.version.cuda is None else obstacle.remedy)
    obstacles = []
    for index in range(torch.cuda.device_count()):
        obstacle = gpu_obstacle(index)
        if obstacle is None:
            return DeviceChoice("cuda" if index == 0 else f"cuda:{index}", f"torch can use {describe_gpu(index)}")
        obstacles.append(obstacle)
    return DeviceChoice("cpu", "; ".join(obstacle.reason for obstacle in obstacles), obstacles[0].remedy)


def cuda_obstacle() -> Obstacle | None:
    """Why torch can use no GPU at all; None if it finds one."""
    with warnings.catch_warnings():
        # torch gives its reason as a warning in the first call only; _reason_of_torch gets it.
        warnings.simplefilter("ignore")
        if torch.cuda.is_available():
            return None
    if torch.version.cuda is None:
        return Obstacle(
            f"torch {torch.__version__} is a build without CUDA", "install the CUDA build ('make serve TORCH=cuda')"
        )
    reason = _reason_of_torch()
    if "too old" in reason:
        remedy = UPDATE_DRIVER
    elif "no NVIDIA driver" in reason:
        remedy = f"install the NVIDIA driver, release {OLDEST_DRIVER} or newer (in a container pass '--gpus all')"
    else:
        remedy = (
            f"check that nvidia-smi shows a GPU and a driver of release {OLDEST_DRIVER} or newer, that "
            "CUDA_VISIBLE_DEVICES does not hide the GPU, and that a container was started with '--gpus all'"
        )
    return Obstacle(f"torch {torch.__version__} finds no NVIDIA GPU: {reason}", remedy)


def _reason_of_torch() -> str:
    """What torch says when CUDA is used although it is not available."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.cuda.init()
    except (RuntimeError, AssertionError) as error:
        # The sentences after the first one name addresses for downloads.
        return _SENTENCE_END.split(str(error).strip())[0] or type(error).__name__
    return "it gives no reason"


def gpu_obstacle(index: int) -> Obstacle | None:
    """Why torch cannot use one of the GPUs it finds; None if it can.

    Args:
        index: Of the GPU.
    """
    try:
        capability = _capability(index)
        built_for = torch.cuda.get_arch_list()
    except RuntimeError as error:
        reason = str(error).strip().splitlines()[0]
        return Obstacle(f"GPU {index} does not answer: {reason}", "look at nvidia-smi and at the log of the system")
    if not built_for or any(_runs(architecture, capability) for architecture in built_for):
        return None
    return Obstacle(
        f"{describe_gpu(index)} is not among those that torch {torch.__version__} has machine code for "
        f"({', '.join(built_for)})",
        TAKE_NEWER_GPU,
    )


def _capability(index: int) -> tuple[int, int]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of GPUs that are too old; what is said here says it better
        return torch.cuda.get_device_capability(index)


def _runs(architecture: str, capability: tuple[int, int]) -> bool:
    """Whether machine code runs on a GPU.

    Code for ``sm_XY`` runs on GPUs of the same X and a Y as high or higher. ``compute_XY`` is an intermediate code that
    the driver compiles for any newer GPU.

    Args:
        architecture: As torch names it: ``sm_86``, ``sm_90a`` or ``compute_90``.
        capability: Of the GPU.
    """
    kind, _, number = architecture.partition("_")
    digits = number.rstrip("abcdefghijklmnopqrstuvwxyz")
    if not digits.isdecimal():
        return False
    version = divmod(int(digits), 10)
    if kind == "compute":
        return version <= capability
    if digits != number:  # code for one architecture and none of its successors
        return version == capability
    return version[0] == capability[0] and version[1] <= capability[1]


def describe_gpu(index: int) -> str:
    """Name and compute capability of a GPU."""
    return f"{torch.cuda.get_device_name(index)} (compute capability {'.'.join(map(str, _capability(index)))})"


def multiplies_bfloat16(device: torch.device) -> bool:
    """Whether a GPU has products of bfloat16.

    Args:
        device: A GPU that torch can use.
    """
    return _capability(device.index or 0) >= BFLOAT16_CAPABILITY
