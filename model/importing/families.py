"""The model families that can be imported."""

from __future__ import annotations

from collections.abc import Mapping

from model.errors import ArtifactError
from model.importing.family import Family, Overrides
from model.importing.folder import CheckpointFolder
from model.importing.m2m100 import describe_m2m100
from model.importing.marian import describe_marian
from model.importing.values import shown
from model.importing.weights import Layout

_FAMILIES = {"marian": describe_marian, "m2m_100": describe_m2m100}


def check_family(folder: CheckpointFolder) -> None:
    """Refuse checkpoints of unknown families before anything else is read.

    Raises:
        ArtifactError: config.json is missing, damaged, or of an unknown family.
    """
    config = folder.json("config.json")
    kind = config.get("model_type")
    if isinstance(kind, str) and kind in _FAMILIES:
        return
    architectures = config.get("architectures")
    named = f" ({shown(architectures)})" if architectures else ""
    raise ArtifactError(
        f"{folder.path / 'config.json'} has model_type {shown(kind)}{named}; 'marian' (OPUS-MT) and 'm2m_100' "
        "(M2M100, NLLB-200) can be imported."
    )


def describe(
    folder: CheckpointFolder, layout: Layout, shapes: Mapping[str, tuple[int, ...]], overrides: Overrides
) -> Family:
    """Read a checkpoint's configuration and vocabulary.

    Args:
        folder: The checkpoint's folder.
        layout: The roles of its tensors.
        shapes: The shapes of its tensors.
        overrides: The directions or languages to serve.

    Raises:
        ArtifactError: The checkpoint is incomplete or contradicts itself.
    """
    config = folder.json("config.json")
    return _FAMILIES[config["model_type"]](folder, config, layout, shapes, overrides)
