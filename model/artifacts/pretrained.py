"""The shipped translator: where its weights are, and its bundle, built on first use and kept."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import torch

from model.artifacts.bundle import check_device, is_whole
from model.artifacts.checkpoint import load_checkpoint
from model.artifacts.export import export_bundle
from model.artifacts.format import FORMAT_VERSION
from model.artifacts.manifest import Precision
from model.artifacts.script import EXPORTED
from model.decoding.native.library import load_library
from model.decoding.shortlist import SHORTLIST, Shortlist
from model.errors import ArtifactError
from model.network.quantised import activation_levels, int8_is_supported, torch_multiplies_bytes
from model.process.files import remove_abandoned
from model.process.folders import cache_folder
from model.process.progress import Progress, no_progress
from model.text.lexicon import LEXICON, Lexicon, read_lexicon

PRETRAINED = Path(__file__).parents[1] / "pretrained" / "verso-en-de.pt"
"""The shipped translator, as a checkpoint; its shortlist and its lexicon lie beside it."""

_DIGITS = 12
"""Digits of the digest in a bundle's name."""


def preferred_precision(device: str) -> Precision:
    """What serves fastest on a device: float16 on a GPU, int8 on a processor.

    float32 on a processor for which neither torch nor the compiled decoder has products of bytes.
    """
    if torch.device(device).type == "cuda":
        return "float16"
    has_products = torch_multiplies_bytes() or load_library() is not None
    return "int8" if has_products and int8_is_supported() else "float32"


def build_pretrained(
    device: str,
    cache_dir: Path | None = None,
    *,
    precision: Precision | None = None,
    report: Callable[[str], None] = print,
    progress: Progress = no_progress,
) -> Path:
    """The bundle of the shipped translator, built on first use and kept; built again if what is kept is damaged.

    Args:
        device: ``cpu`` or ``cuda``.
        cache_dir: Where bundles are kept; :func:`model.process.folders.cache_folder` by default.
        precision: Precision of the bundle; :func:`preferred_precision` by default.
        report: Takes a progress message.
        progress: Wraps an iterable in a progress bar.

    Returns:
        Path of the bundle, as :func:`pretrained_path` gives it.

    Raises:
        ArtifactError: The weights are missing or damaged, or the folder cannot be written.
        DeviceError: The device is missing.
    """
    chosen = precision or preferred_precision(device)
    check_device(device, chosen)
    path = pretrained_path(device, cache_dir, precision=chosen)
    if not path.is_file() or not is_whole(path):
        report(f"building the {chosen} bundle {path}, once")
        remove_abandoned(path.parent)
        export_bundle(
            load_checkpoint(PRETRAINED),
            chosen,
            path,
            device=device,
            shortlist=pretrained_shortlist(),
            lexicon=pretrained_lexicon(),
            report=report,
            progress=progress,
        )
    return path


def pretrained_path(device: str, cache_dir: Path | None = None, *, precision: Precision | None = None) -> Path:
    """The path of the shipped translator's bundle, built or not.

    Args:
        device: ``cpu`` or ``cuda``.
        cache_dir: Where bundles are kept; :func:`model.process.folders.cache_folder` by default.
        precision: Precision of the bundle; :func:`preferred_precision` by default.

    Returns:
        The path. Its name contains a digest of the weights and of what lies beside them, so that an upgrade builds it
        again.

    Raises:
        ArtifactError: The weights are missing.
    """
    if not PRETRAINED.is_file():
        raise ArtifactError(
            f"The shipped weights are missing: {PRETRAINED} is not there; check out the whole repository."
        )
    chosen = precision or preferred_precision(device)
    digest = hashlib.sha256(PRETRAINED.read_bytes())
    for name in (SHORTLIST, LEXICON):
        if (file := PRETRAINED.with_suffix(f".{name}")).is_file():
            digest.update(file.read_bytes())
    methods = " ".join(method.__name__ for method in EXPORTED)
    digest.update(f"{FORMAT_VERSION} {torch.__version__} {activation_levels()} {methods}".encode())
    return (cache_dir or cache_folder()) / f"{PRETRAINED.stem}-{chosen}-{digest.hexdigest()[:_DIGITS]}.pt"


def pretrained_shortlist() -> Shortlist | None:
    """The vocabulary shortlist of the shipped translator, which lies beside its weights; None if there is none.

    Raises:
        ArtifactError: It is damaged.
    """
    path = PRETRAINED.with_suffix(f".{SHORTLIST}")
    return Shortlist.from_bytes(path.read_bytes()) if path.is_file() else None


def pretrained_lexicon() -> Lexicon | None:
    """The lexicon of the shipped translator, which lies beside its weights; None if there is none.

    Raises:
        ArtifactError: It is damaged.
    """
    path = PRETRAINED.with_suffix(f".{LEXICON}")
    return read_lexicon(path) if path.is_file() else None
