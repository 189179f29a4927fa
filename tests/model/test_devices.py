"""Which device ``auto`` stands for, and what is said about GPUs that cannot be used. torch.cuda is simulated."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from model.artifacts.bundle import check_device, served_precision
from model.errors import DeviceError
from model.process.devices import (
    OLDEST_DRIVER,
    _runs,
    choose_device,
    gpu_obstacle,
)
from tests.gpus import with_gpus, without_gpus

ROOT = Path(__file__).resolve().parents[2]
NO_DRIVER = (
    "Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU and installed a driver from "
    "http://www.nvidia.com/Download/index.aspx"
)
OLD_DRIVER = (
    "The NVIDIA driver on your system is too old (found version 12020). Please update your GPU driver by downloading "
    "and installing a new version from the URL: http://www.nvidia.com/Download/index.aspx"
)


@pytest.mark.parametrize("device", ["cpu", "cuda", "cuda:1"])
def test_a_device_that_is_named_is_taken(device: str) -> None:
    choice = choose_device(device)
    assert (choice.device, choice.warning) == (device, None)


def test_auto_takes_a_gpu_that_torch_can_use_and_says_which(monkeypatch: pytest.MonkeyPatch) -> None:
    with_gpus(monkeypatch, (8, 9))
    choice = choose_device("auto")
    assert (choice.device, choice.warning) == ("cuda", None)
    assert choice.reason == "torch can use GPU 0 (compute capability 8.9)"


def test_auto_takes_the_first_gpu_that_torch_has_machine_code_for(monkeypatch: pytest.MonkeyPatch) -> None:
    with_gpus(monkeypatch, (7, 0), (6, 1), (9, 0))
    assert choose_device("auto").device == "cuda:2"


def test_auto_takes_the_cpu_with_a_warning_if_the_gpu_is_too_old(monkeypatch: pytest.MonkeyPatch) -> None:
    with_gpus(monkeypatch, (7, 0))
    choice = choose_device("auto")
    assert choice.device == "cpu"
    assert choice.warning is not None
    assert "GPU 0 (compute capability 7.0)" in choice.warning
    assert "sm_75, sm_80" in choice.warning
    assert "7.5 or higher" in choice.warning
    with pytest.raises(DeviceError, match=r"The device is cuda, but GPU 0 .*7\.0.*Use cpu, or take a GPU .* 7\.5"):
        check_device("cuda", "float16")


@pytest.mark.parametrize(
    ("reason", "quoted", "remedy"),
    [
        (OLD_DRIVER, "too old (found version 12020)", f"update the NVIDIA driver to release {OLDEST_DRIVER}"),
        (NO_DRIVER, "Found no NVIDIA driver on your system", f"install the NVIDIA driver, release {OLDEST_DRIVER}"),
        ("No CUDA GPUs are available", "No CUDA GPUs are available", "CUDA_VISIBLE_DEVICES"),
    ],
)
def test_torchs_own_reason_is_quoted_every_time_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch, reason: str, quoted: str, remedy: str
) -> None:
    without_gpus(monkeypatch, "13.0", reason)
    for _ in range(2):  # torch warns once
        choice = choose_device("auto")
        assert choice.device == "cpu"
        assert choice.warning is not None
        assert quoted in choice.warning
        assert remedy in choice.warning
        assert "http" not in choice.warning
    with pytest.raises(DeviceError) as raised:
        check_device("cuda", "float16")
    assert quoted in str(raised.value)
    assert remedy in str(raised.value)
    assert "without CUDA" not in str(raised.value)


def test_a_build_without_cuda_is_told_from_a_driver_that_is_too_old(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.version, "cuda", None)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    choice = choose_device("auto")
    assert (choice.device, choice.warning) == ("cpu", None)  # it was chosen
    assert "build without CUDA" in choice.reason
    with pytest.raises(DeviceError, match=r"build without CUDA\. Use cpu, or install the CUDA build .*TORCH=cuda"):
        check_device("cuda", "float16")


def test_a_gpu_that_does_not_answer_is_an_obstacle(monkeypatch: pytest.MonkeyPatch) -> None:
    with_gpus(monkeypatch, (9, 0))

    def broken(index: int) -> tuple[int, int]:
        raise RuntimeError("CUDA error: all CUDA-capable devices are busy or unavailable\nCompile with ...")

    monkeypatch.setattr(torch.cuda, "get_device_capability", broken)
    obstacle = gpu_obstacle(0)
    assert obstacle is not None
    assert obstacle.reason.endswith("devices are busy or unavailable")
    assert choose_device("auto").device == "cpu"


@pytest.mark.parametrize(
    ("architecture", "capability", "runs"),
    [
        ("sm_75", (7, 5), True),
        ("sm_75", (7, 0), False),
        ("sm_80", (7, 5), False),
        ("sm_86", (8, 9), True),
        ("sm_86", (8, 0), False),
        ("sm_90", (10, 0), False),
        ("sm_90a", (9, 0), True),
        ("sm_100", (10, 3), True),
        ("sm_100a", (10, 3), False),
        ("sm_120", (12, 1), True),
        ("compute_90", (12, 0), True),
        ("compute_90", (8, 9), False),
        ("gfx90a", (9, 0), False),
    ],
)
def test_machine_code_runs_on_its_generation_and_intermediate_code_on_newer_gpus(
    architecture: str, capability: tuple[int, int], runs: bool
) -> None:
    assert _runs(architecture, capability) is runs


@pytest.mark.parametrize(
    ("precision", "device", "capabilities", "served"),
    [
        ("int8", "cpu", [(9, 0)], "int8"),
        ("int8", "cuda", [(9, 0)], "float16"),
        ("float16", "cuda", [(7, 5)], "float16"),
        ("float32", "cuda", [(7, 5)], "float32"),
        ("bfloat16", "cuda", [(8, 0)], "bfloat16"),
        ("bfloat16", "cuda", [(7, 5)], "float32"),
        ("bfloat16", "cuda:1", [(9, 0), (7, 5)], "float32"),
        ("bfloat16", "cpu", [(7, 5)], "bfloat16"),
    ],
)
def test_a_bundle_is_served_in_a_precision_that_the_gpu_has_products_of(
    monkeypatch: pytest.MonkeyPatch,
    precision: str,
    device: str,
    capabilities: Sequence[tuple[int, int]],
    served: str,
) -> None:
    with_gpus(monkeypatch, *capabilities)
    path = check_device(device, precision)  # type: ignore[arg-type]
    assert served_precision(precision, path) == served  # type: ignore[arg-type]


def test_a_gpu_number_that_does_not_exist_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with_gpus(monkeypatch, (9, 0))
    with pytest.raises(DeviceError, match="only 1 GPUs"):
        check_device("cuda:3", "float16")


def test_the_driver_that_is_asked_for_belongs_to_the_cuda_release_of_the_pinned_torch() -> None:
    # Another release of CUDA needs another number here and in the documents.
    lock = (ROOT / "locks/torch.lock").read_text(encoding="utf-8")
    assert re.search(r"^cuda-toolkit\S*==13\.", lock, re.MULTILINE)
    assert OLDEST_DRIVER == 580
