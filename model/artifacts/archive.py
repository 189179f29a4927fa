"""Writing bundles: whole or not at all, without the paths of the machine that made them, the same bytes each time.

Everything that touches ``torch.jit`` is deprecated by torch and kept because TorchScript is what a bundle is; see
docs/decisions/0002.
"""

from __future__ import annotations

import os
import shutil
import warnings
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from model.artifacts.bundle import read_manifest, read_tokenizer
from model.artifacts.data_form import FOLDER, MANIFEST, SUFFIX, WEIGHTS, is_data_form, open_bundle, weights_as_bytes
from model.artifacts.format import DATA_FORMAT_VERSION, FORMAT_VERSION
from model.artifacts.manifest import Manifest
from model.artifacts.scripted import int8_layers
from model.decoding.shortlist import SHORTLIST, Shortlist
from model.errors import ArtifactError
from model.network.config import ModelConfig
from model.network.transformer import Transformer
from model.process.files import atomic_write, working_folder

_CODE_BYTES = 2_000_000
"""Largest size of a bundle's code and manifest."""

_COPY_BYTES = 2**20
"""Piece in which members are copied."""


def write_bundle(module: Transformer, manifest: Manifest, files: Mapping[str, bytes], out: Path) -> None:
    """Write a bundle, without the paths of the machine that made it; ``out`` is replaced whole or not at all.

    Args:
        module: The model, on the CPU; scripted, unless it is written in data form.
        manifest: What the bundle says about itself.
        files: Vocabulary files, shortlist and lexicon by name.
        out: The file; its suffix ``.verso`` chooses the data form (:mod:`model.artifacts.data_form`).

    Raises:
        ArtifactError: The disk is full or the folder cannot be written.
    """
    try:
        with atomic_write(out) as unfinished:
            if out.suffix == SUFFIX:
                manifest = replace(manifest, format_version=DATA_FORMAT_VERSION)
                _write_data(module, {**files, MANIFEST: manifest.to_json().encode()}, unfinished)
            else:
                manifest = replace(manifest, format_version=FORMAT_VERSION)
                _write_scripted(module, {**files, MANIFEST: manifest.to_json().encode()}, unfinished)
    except (OSError, RuntimeError) as error:
        raise ArtifactError(f"The bundle {out} could not be written: {error}.") from error


def _write_scripted(module: Transformer, files: Mapping[str, bytes], out: Path) -> None:
    """Write a TorchScript archive.

    Args:
        module: The model.
        files: Extra files by name.
        out: The file, of :func:`model.process.files.atomic_write`.

    Raises:
        OSError: The disk is full, or the folder cannot be written.
        RuntimeError: torch cannot write it.
    """
    with working_folder(out) as folder:
        # torch calls the folder inside the archive like the file, so one name for all gives the same bytes.
        raw = folder / f"{FOLDER}.pt"
        _reserve(raw, _num_bytes(module) + sum(map(len, files.values())) + _CODE_BYTES)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*torch.jit.*deprecated.*")
            torch.jit.save(module, str(raw), _extra_files=dict(sorted(files.items())))
        _strip_source_paths(raw, out)


def _write_data(module: Transformer, files: Mapping[str, bytes], out: Path) -> None:
    """Write an archive in data form.

    Raises:
        OSError: The disk is full, or the folder cannot be written.
    """
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        for name, content in sorted(files.items()):
            archive.writestr(zipfile.ZipInfo(f"{FOLDER}/extra/{name}"), content)
        archive.writestr(zipfile.ZipInfo(WEIGHTS), weights_as_bytes(module))


def add_shortlist(bundle: Path, shortlist: Shortlist, out: Path) -> None:
    """Write a copy of a bundle that carries a vocabulary shortlist; ``out`` is replaced whole or not at all.

    Args:
        bundle: The bundle; a shortlist it carries already is replaced.
        shortlist: For this bundle's model.
        out: The file to write, which may be the bundle itself.

    Raises:
        ArtifactError: The bundle is missing, damaged or foreign, the shortlist is another model's, the disk is full, or
            the folder cannot be written.
    """
    manifest, tokenizer = read_tokenizer(bundle)
    config = ModelConfig.from_dict(manifest.architecture)
    shortlist.check(config.source_vocab_size, config.target_vocab_size, tokenizer.end_id)
    _write_copy(bundle, replace(manifest, shortlist=shortlist.facts), {SHORTLIST: shortlist.to_bytes()}, out)


def add_calibration(bundle: Path, confidence: Mapping[str, Any], out: Path) -> None:
    """Write a copy of a bundle whose confidences are calibrated; ``out`` is replaced whole or not at all.

    Args:
        bundle: The bundle; a calibration it carries already is replaced.
        confidence: The manifest's ``confidence`` of this bundle's model.
        out: The file to write, which may be the bundle itself.

    Raises:
        ArtifactError: The bundle is missing, damaged or foreign, the disk is full, or the folder cannot be written.
    """
    _write_copy(bundle, replace(read_manifest(bundle), confidence=dict(confidence)), {}, out)


def _write_copy(bundle: Path, manifest: Manifest, files: Mapping[str, bytes], out: Path) -> None:
    """Write a copy of a bundle in its form, with another manifest, and with some of its files replaced or added.

    Raises:
        ArtifactError: The disk is full, the folder cannot be written, or ``out`` has the suffix of the other form.
    """
    with open_bundle(bundle) as archive:
        if is_data_form(archive) != (out.suffix == SUFFIX):
            raise ArtifactError(f"{out} has the suffix of another form than {bundle}; convert it with 'verso convert'.")
    try:
        with atomic_write(out) as unfinished:
            _copy_archive(bundle, unfinished, {MANIFEST: manifest.to_json().encode(), **files})
    except OSError as error:
        raise ArtifactError(f"The bundle {out} could not be written: {error}.") from error


def _num_bytes(module: Transformer) -> int:
    """Size of the weights of a scripted model in a file."""
    tables = {tensor.data_ptr(): tensor.nbytes for tensor in [*module.parameters(), *module.buffers()]}
    packed = (torch.ops.quantized.linear_unpack(layer.packed)[0] for layer in int8_layers(module))
    return sum(tables.values()) + sum(weight.numel() for weight in packed)


def _reserve(path: Path, num_bytes: int) -> None:
    """Check that a file of this size can be written: torch ends the whole process if its writer finds the disk full.

    Raises:
        OSError: There is no room.
    """
    with path.open("wb") as file:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file.fileno(), 0, max(num_bytes, 1))
    path.unlink()


def _strip_source_paths(source: Path, target: Path) -> None:
    """Copy an archive without its ``.debug_pkl`` members, which contain paths of the building machine."""
    _copy_archive(source, target, {}, without=".debug_pkl")


def _copy_archive(source: Path, target: Path, extra: Mapping[str, bytes], without: str | None = None) -> None:
    """Copy an archive, with fixed dates, so that the same module gives the same bytes.

    Args:
        source: The archive.
        target: The file to write.
        extra: Extra files by name; they replace those of the archive.
        without: Members whose names end with this are left out.
    """
    with open_bundle(source) as archive, zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as copy_:
        folder = archive.namelist()[0].split("/")[0]
        replaced = {f"{folder}/extra/{name}": content for name, content in extra.items()}
        for name, added in replaced.items():
            copy_.writestr(zipfile.ZipInfo(name), added)
        for member in archive.infolist():
            left_out = without is not None and member.filename.endswith(without)
            if left_out or member.filename in replaced:
                continue
            # Piece by piece, because an embedding may be as large as the free memory.
            plain = zipfile.ZipInfo(member.filename)
            with archive.open(member) as content, copy_.open(plain, "w", force_zip64=member.file_size >= 2**31) as sink:
                shutil.copyfileobj(content, sink, _COPY_BYTES)
