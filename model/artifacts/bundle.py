"""Bundles, the files that are served: a TorchScript archive with its manifest and tokenizer inside, or its data form.

A TorchScript archive is code: loading one runs what its author wrote. The manifest is therefore read, and a
configured SHA-256 compared, before torch reads the file. Load only bundles whose source you trust to run programs.
A bundle in data form (:mod:`model.artifacts.data_form`) contains no code.
"""

from __future__ import annotations

import contextlib
import warnings
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from model.artifacts.data_checks import check_data
from model.artifacts.data_form import (
    ARCHIVE_ERRORS,
    MANIFEST,
    MAX_FILE_BYTES,
    MAX_MANIFEST_BYTES,
    WEIGHTS,
    assemble,
    build_model,
    expand,
    is_archive,
    is_data_form,
    open_bundle,
)
from model.artifacts.loaded_network import LoadedNetwork
from model.artifacts.manifest import Manifest, Precision
from model.artifacts.memory import loaded_bytes
from model.artifacts.script import compile_model
from model.artifacts.scripted import as_transformer, int8_layers
from model.decoding.native.packed import NativeModel
from model.decoding.policy import DecodingPolicy
from model.decoding.shortlist import SHORTLIST, Limits, Shortlist
from model.errors import ArtifactError, DeviceError
from model.network.config import ModelConfig
from model.network.quantised import activation_levels, choose_packing, int8_is_supported, torch_multiplies_bytes
from model.network.transformer import Transformer
from model.process.devices import cuda_obstacle, gpu_obstacle, multiplies_bfloat16
from model.process.files import file_digest
from model.text.hf_tokenizers import restore_tokenizer
from model.text.lexicon import LEXICON, Lexicon
from model.text.tokenizer import Tokenizer, VersoTokenizer


@dataclass(frozen=True)
class Bundle:
    """A loaded bundle.

    Args:
        network: The model: scripted, or eager if the bundle is in data form.
        tokenizer: Its vocabulary.
        manifest: Its metadata; ``precision`` is the one it is served in, which may differ from the file's on a GPU.
        device: Where its weights are.
        sha256: Digest of the file.
        shortlist: Its vocabulary shortlist, where it has one.
        lexicon: Its lexicon, where it has one.
        num_bytes: Memory that it takes, estimated from its file.
    """

    network: LoadedNetwork
    tokenizer: Tokenizer
    manifest: Manifest
    device: torch.device
    sha256: str
    shortlist: Shortlist | None = None
    num_bytes: int = 0
    lexicon: Lexicon | None = None

    @property
    def module(self) -> Transformer:
        """The model. It is rebuilt if it was freed, so do not keep a reference."""
        return self.network.get()

    @property
    def policy(self) -> DecodingPolicy:
        """The model's decoding policy, without single bytes if unknown characters become placeholders."""
        policy, tokenizer = self.manifest.policy, self.tokenizer
        if not self.manifest.capabilities.placeholders or not isinstance(tokenizer, VersoTokenizer):
            return policy
        return replace(policy, forbidden=(*policy.suppressed_ids(tokenizer.never_generated), *tokenizer.byte_ids))

    def free_network(self, packed: NativeModel) -> None:
        """Free torch's copy of the weights, and rebuild it from the packed weights on demand.

        It is rebuilt as TorchScript, which computes without Python: eager modules would take and release Python's lock
        for each of their thousand operations, and might wait for other threads.
        """
        precision = packed.precision
        if precision is None:
            return
        config, pad_id = ModelConfig.from_dict(self.manifest.architecture), self.tokenizer.pad_id

        def rebuild() -> Transformer:
            return compile_model(assemble(config, precision, pad_id, lambda name, dtype, shape: packed.weight(name)))

        self.network.free(rebuild)


def read_manifest(path: Path) -> Manifest:
    """The manifest of a bundle; nothing else is read, and no code of the bundle runs.

    Raises:
        ArtifactError: The file does not exist, is damaged, or is of another program or a newer release.
    """
    return Manifest.from_json(_read_manifest(path).decode("utf-8", errors="replace"))


def read_tokenizer(path: Path) -> tuple[Manifest, Tokenizer]:
    """The manifest of a bundle and its vocabulary, without the model; no code of the bundle runs.

    Raises:
        ArtifactError: The file does not exist, is damaged, or is of another program or a newer release.
    """
    manifest = read_manifest(path)
    return manifest, restore_tokenizer(manifest.tokenizer, extra_files(path))


def is_checkpoint(path: Path) -> bool:
    """Whether a file is an archive of weights rather than a bundle; no code of it runs.

    Raises:
        ArtifactError: There is no such file, or it is damaged.
    """
    if not path.is_file():
        raise ArtifactError(f"There is no file {path}.")
    if not is_archive(path):
        raise ArtifactError(f"{path} is neither bundle nor checkpoint, or was cut short; restore it from a copy.")
    with open_bundle(path) as archive:
        return not any("/code/" in name or "/extra/" in name for name in archive.namelist())


def is_whole(path: Path) -> bool:
    """Whether a bundle has a manifest that this release reads, and all its bytes are as they were written."""
    try:
        read_manifest(path)
        with open_bundle(path) as archive:
            _check_archive(archive, path)
    except ArtifactError:
        return False
    return True


def load_bundle(path: Path, device: str = "cpu", sha256: str | None = None) -> Bundle:
    """Load a bundle onto a device.

    Args:
        path: The file.
        device: ``cpu`` or ``cuda`` (or ``cuda:1``).
        sha256: The digest the file must have, in hexadecimal.

    Raises:
        ArtifactError: The file does not exist, is damaged, is of another program or a newer release, or has another
            digest.
        DeviceError: The device does not exist, or cannot serve the bundle's precision.
    """
    if not path.is_file():
        raise ArtifactError(f"There is no bundle at {path}; make one with 'verso export --out {path}'.")
    # torch would compile kernels during the first calls of every shape, for few operations. It does not on CPUs.
    torch._C._jit_override_can_fuse_on_gpu(False)
    before = _identity(path)
    digest = file_digest(path)
    if sha256 is not None and digest != sha256.lower():
        raise ArtifactError(
            f"{path} has SHA-256 {digest} and {sha256.lower()} is required: it is another file, or was changed. "
            "Restore the right one, or correct the digest configured."
        )
    manifest = read_manifest(path)
    torch_device = check_device(device, manifest.precision)
    with open_bundle(path) as archive:
        _check_archive(archive, path)
        content = archive.read(WEIGHTS) if is_data_form(archive) else None
    files = extra_files(path)
    tokenizer = restore_tokenizer(manifest.tokenizer, files)
    file_bytes = path.stat().st_size
    num_bytes = loaded_bytes(file_bytes, manifest, device)
    max_bytes = max(MIN_SHORTLIST_BYTES, file_bytes)
    shortlist = _read_shortlist(manifest, tokenizer, files.get(SHORTLIST), max_bytes)
    lexicon = Lexicon.from_bytes(files[LEXICON]) if LEXICON in files else None
    try:
        if content is None:
            model = _load_scripted(path)
        else:
            check_data(manifest, tokenizer)
            model = build_model(manifest.architecture, manifest.precision, tokenizer.pad_id, content)
        served = served_precision(manifest.precision, torch_device)
        if served != manifest.precision:
            model = expand(model, ModelConfig.from_dict(manifest.architecture), served, tokenizer.pad_id)
            manifest = replace(manifest, precision=served)
        # Loaded to the CPU first: a packed int8 weight cannot be mapped to another device.
        model = model.to(torch_device)
    except torch.OutOfMemoryError as error:
        raise DeviceError(f"{path} does not fit into the memory of {device}.") from error
    if _identity(path) != before:
        raise ArtifactError(f"{path} was changed while it was loaded; load it again when it is whole.")
    for layer in int8_layers(model):
        layer.levels = activation_levels()
        if hasattr(layer, "multiplies_bytes"):
            layer.multiplies_bytes = torch_multiplies_bytes()
        elif not torch_multiplies_bytes():
            raise DeviceError(
                f"{path} is an int8 bundle of an earlier release, for x86 processors only; export it again."
            )
    return Bundle(LoadedNetwork(model), tokenizer, manifest, torch_device, digest, shortlist, num_bytes, lexicon)


def _identity(path: Path) -> tuple[int, ...] | None:
    """Values that change when a file is replaced or written to; None if the file does not exist."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def _load_scripted(path: Path) -> Transformer:
    """Load the model of a TorchScript archive onto the CPU; this runs code of the file.

    Raises:
        ArtifactError: torch cannot load it, or it is another model.
    """
    choose_packing()
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*torch.jit.*deprecated.*")
            module = torch.jit.load(str(path), map_location="cpu")
    except (RuntimeError, ValueError) as error:
        first_line = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ArtifactError(
            f"{path} cannot be loaded by torch {torch.__version__} ({first_line}); export it again with this release."
        ) from error
    module.eval()
    return as_transformer(module, str(path))


MIN_SHORTLIST_BYTES = 16 * 2**20
"""A shortlist is inflated to no more bytes than its bundle has, or to this many."""


def _read_shortlist(
    manifest: Manifest, tokenizer: Tokenizer, content: bytes | None, max_bytes: int
) -> Shortlist | None:
    """The vocabulary shortlist among a bundle's files, or None.

    Args:
        manifest: The bundle's.
        tokenizer: The bundle's.
        content: The file, if there is one.
        max_bytes: Most bytes that it may be inflated to.

    Raises:
        ArtifactError: It is damaged, or another model's.
    """
    if content is None:
        return None
    config = ModelConfig.from_dict(manifest.architecture)
    limits = Limits(config.source_vocab_size, config.target_vocab_size, max_bytes)
    shortlist = Shortlist.from_bytes(content, limits)
    shortlist.check(config.source_vocab_size, config.target_vocab_size, tokenizer.end_id)
    return shortlist


def check_device(device: str, precision: Precision) -> torch.device:
    """The device of a name, if it exists and can serve a precision.

    Raises:
        DeviceError: It does not exist or cannot serve the precision; the message names the remedy.
    """
    try:
        torch_device = torch.device(device)
    except RuntimeError as error:
        raise DeviceError(f"There is no device called {device!r}; it can be cpu, cuda or cuda:1.") from error
    if torch_device.type not in ("cpu", "cuda"):
        raise DeviceError(f"The device is {device!r}; it can be cpu, cuda or cuda:1.")
    if torch_device.type == "cuda":
        obstacle = cuda_obstacle()
        if obstacle is None and (torch_device.index or 0) >= torch.cuda.device_count():
            raise DeviceError(f"The device is {device}, but there are only {torch.cuda.device_count()} GPUs.")
        obstacle = obstacle or gpu_obstacle(torch_device.index or 0)
        if obstacle is not None:
            raise DeviceError(f"The device is {device}, but {obstacle.reason}. Use cpu, or {obstacle.remedy}.")
    if precision == "int8" and not int8_is_supported():
        raise DeviceError("This build of torch cannot keep int8 weights; export a bundle with --precision float32.")
    return torch_device


def served_precision(precision: Precision, device: torch.device) -> Precision:
    """The precision in which a bundle is served on a device.

    GPUs have no kernels for int8 layers, which are expanded to float16 there. GPUs before compute capability 8.0 have
    no products of bfloat16; its weights become float32, which represents them exactly.

    Args:
        precision: The bundle's.
        device: A device that can be used.
    """
    if device.type == "cuda" and precision == "int8":
        return "float16"
    if device.type == "cuda" and precision == "bfloat16" and not multiplies_bfloat16(device):
        return "float32"
    return precision


def _check_archive(archive: zipfile.ZipFile, path: Path) -> None:
    with _reading(path):
        damaged = archive.testzip()
    if damaged is not None:
        raise ArtifactError(f"{path} is damaged: the checksum of {damaged} is wrong; restore it from a copy.")


def extra_files(path: Path) -> dict[str, bytes]:
    """The vocabulary files of a bundle whose manifest could be read, its shortlist and its lexicon.

    Raises:
        ArtifactError: One is damaged, or larger than it may be.
    """
    files = {}
    with open_bundle(path) as archive, _reading(path):
        for member in archive.infolist():
            _, is_extra, name = member.filename.partition("/extra/")
            if is_extra and name != MANIFEST:
                if member.file_size > MAX_FILE_BYTES:
                    raise ArtifactError(f"{path} has {name} of {member.file_size} bytes; it may have {MAX_FILE_BYTES}.")
                files[name] = archive.read(member)
    return files


def _read_manifest(path: Path) -> bytes:
    """The manifest, read without torch."""
    with open_bundle(path) as archive, _reading(path):
        for member in archive.infolist():
            if member.filename.endswith(f"/extra/{MANIFEST}"):
                with archive.open(member) as content:
                    return content.read(MAX_MANIFEST_BYTES)
    raise ArtifactError(f"{path} is not a Verso bundle: it has no {MANIFEST}; make one with 'verso export'.")


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Report members that cannot be read.

    Raises:
        ArtifactError: One cannot.
    """
    try:
        yield
    except ARCHIVE_ERRORS as error:
        raise ArtifactError(f"{path} is damaged ({error}); restore it from a copy or export it again.") from error
