"""Shared fixtures: a toy translator, trained and exported once per session."""

from __future__ import annotations

import os
from pathlib import Path

import hypothesis
import pytest
import torch

from model.artifacts.checkpoint import load_checkpoint
from model.artifacts.export import export_bundle
from tests.toy import train_toy

# No deadline for an example: the machine may be busy. The same examples in every run, so that failures reproduce.
hypothesis.settings.register_profile("verso", deadline=None, derandomize=True, database=None)
hypothesis.settings.load_profile("verso")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put files with long tests first, so that no process works alone at the end of a run side by side."""
    items.sort(key=lambda item: item.get_closest_marker("thorough") is None)


@pytest.fixture(scope="session", autouse=True)
def _few_threads() -> None:
    """Tiny tensors gain nothing from many threads, and tests that run side by side share the processors."""
    side_by_side = "PYTEST_XDIST_WORKER" in os.environ
    torch.set_num_threads(1 if side_by_side else min(2, torch.get_num_threads()))


@pytest.fixture(scope="session")
def toy_checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The averaged checkpoint of a trained toy translator."""
    return train_toy(tmp_path_factory.mktemp("toy"))


@pytest.fixture(scope="session")
def toy_bundle(toy_checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The toy translator as a float32 bundle."""
    path = tmp_path_factory.mktemp("bundle") / "toy.pt"
    export_bundle(load_checkpoint(toy_checkpoint), "float32", path, report=lambda line: None)
    return path
