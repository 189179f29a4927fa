"""Fixtures for the tests of imports."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.model.importing.folders import FAMILIES, Copy


@pytest.fixture(scope="session")
def originals(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One valid folder of each family."""
    folders = {name: tmp_path_factory.mktemp("original") / name for name in FAMILIES}
    for name, make in FAMILIES.items():
        make(folders[name])
    return folders


@pytest.fixture
def copy(originals: dict[str, Path], tmp_path: Path) -> Copy:
    """Copies a folder, which the test may change."""

    def copy_of(name: str) -> Path:
        return Path(shutil.copytree(originals[name], tmp_path / name))

    return copy_of
