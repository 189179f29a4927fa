"""The libraries that Verso is compared with, one module each; most are optional."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import metadata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchmarks.contenders import Library


INSTALL = "pip install --constraint locks/constraints.txt --requirement benchmarks/rivals/requirements.txt"
"""How to install the packages; the constraints keep torch and the others at their versions."""


@dataclass(frozen=True)
class Rival:
    """A library that is measured if ``--rivals`` names it.

    Args:
        library: Its name in the tables.
        packages: The packages it needs, all named in ``requirements.txt`` beside this file.
    """

    library: Library
    packages: tuple[str, ...]

    @property
    def missing_packages(self) -> list[str]:
        """The packages that are not installed."""
        return [package for package in self.packages if not _is_installed(package)]


RIVALS = {
    "onnxruntime": Rival("ONNX Runtime", ("onnx", "onnxruntime")),
    "openvino": Rival("OpenVINO", ("onnx", "openvino", "nncf")),
    "marian": Rival("Marian", ("pymarian",)),
}
"""The optional rivals, by their names for ``--rivals``."""


def _is_installed(package: str) -> bool:
    try:
        metadata.version(package)
    except metadata.PackageNotFoundError:
        return False
    return True
