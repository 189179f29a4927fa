"""Checkpoints of each family, and changes of their files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save_file
from torch import Tensor

from tests.model.importing.checkpoints import make_m2m100, make_marian

Copy = Callable[[str], Path]
"""Copies the folder of a family into the folder of the test."""

FAMILIES: dict[str, Callable[[Path], Any]] = {
    "marian": make_marian,
    "separate": lambda folder: make_marian(folder, separate=True),
    "multilingual": lambda folder: make_marian(folder, multilingual=True),
    "m2m100": make_m2m100,
    "nllb": lambda folder: make_m2m100(folder, nllb=True),
}


def edit(path: Path, **changes: Any) -> None:
    """Change keys of a JSON file; ``...`` removes one."""
    values = {**json.loads(path.read_text()), **changes}
    path.write_text(json.dumps({key: value for key, value in values.items() if value is not ...}))


def edit_tensors(folder: Path, change: Callable[[dict[str, Tensor]], None]) -> None:
    """Change the weights of a folder."""
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
