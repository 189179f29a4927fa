"""The translator that ships: where its weights are, and its bundle, built on first use and kept."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch

from model.artifacts.bundle import FORMAT_VERSION, Precision, check_device
from model.artifacts.checkpoint import load_checkpoint
from model.artifacts.export import export_bundle
from model.artifacts.script import EXPORTED
from model.decoding.shortlist import SHORTLIST, Shortlist
from model.errors import ArtifactError
from model.network.quantised import activation_levels, int8_is_supported

PRETRAINED = Path(__file__).parents[1] / "pretrained" / "verso-en-de.pt"
"""The translator that ships, as a checkpoint; :func:`pretrained_shortlist` lies beside it."""


def preferred_precision(device: str) -> Precision:
    """What serves fastest on a device: float16 on a GPU, int8 on an x86 processor, float32 on others."""
    if torch.device(device).type == "cuda":
        return "float16"
    return "int8" if int8_is_supported() else "float32"


def default_cache_dir() -> Path:
    """Where bundles built at start are kept: ``$XDG_CACHE_HOME/verso`` or ``~/.cache/verso``."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "verso"


def build_pretrained(
    device: str,
    cache_dir: Path | None = None,
    *,
    precision: Precision | None = None,
    report: Callable[[str], None] = print,
    progress: Callable[[Iterable[Any], str, int], Iterable[Any]] = lambda items, label, total: items,
) -> Path:
    """The bundle of the translator that ships, built on first use and kept.

    Args:
        device: ``cpu`` or ``cuda``.
        cache_dir: Where bundles are kept; :func:`default_cache_dir` by default.
        precision: Other than the preferred one.
        report: Takes a line of news.
        progress: Wraps an iterable in a progress bar.

    Returns:
        Path of the bundle, as :func:`pretrained_path` gives it.

    Raises:
        ArtifactError: The weights are missing or damaged, or the folder cannot be written.
        DeviceError: The device is not there.
    """
    chosen = precision or preferred_precision(device)
    check_device(device, chosen)
    path = pretrained_path(device, cache_dir, precision=chosen)
    if not path.is_file():
        report(f"building the {chosen} bundle {path}, once")
        export_bundle(
            load_checkpoint(PRETRAINED),
            chosen,
            path,
            device=device,
            shortlist=pretrained_shortlist(),
            report=report,
            progress=progress,
        )
    return path


def pretrained_path(device: str, cache_dir: Path | None = None, *, precision: Precision | None = None) -> Path:
    """Where the bundle of the translator that ships is, or will be once it is built.

    Args:
        device: ``cpu`` or ``cuda``.
        cache_dir: Where bundles are kept; :func:`default_cache_dir` by default.
        precision: Other than the preferred one.

    Returns:
        The path. Its name holds a digest of the weights, so that an upgrade builds anew.

    Raises:
        ArtifactError: The weights are missing, or the shortlist is damaged.
    """
    if not PRETRAINED.is_file():
        raise ArtifactError(
            f"The shipped weights are missing: {PRETRAINED} is not there; check out the whole repository."
        )
    chosen = precision or preferred_precision(device)
    shortlist = pretrained_shortlist()
    digest = hashlib.sha256(PRETRAINED.read_bytes())
    if shortlist is not None:
        digest.update(shortlist.to_bytes())
    methods = " ".join(method.__name__ for method in EXPORTED)
    digest.update(f"{FORMAT_VERSION} {torch.__version__} {activation_levels()} {methods}".encode())
    return (cache_dir or default_cache_dir()) / f"{PRETRAINED.stem}-{chosen}-{digest.hexdigest()[:12]}.pt"


def pretrained_shortlist() -> Shortlist | None:
    """The vocabulary shortlist of the translator that ships, which lies beside its weights; None where there is none.

    Raises:
        ArtifactError: It is damaged.
    """
    path = PRETRAINED.with_suffix(f".{SHORTLIST}")
    return Shortlist.from_bytes(path.read_bytes()) if path.is_file() else None
