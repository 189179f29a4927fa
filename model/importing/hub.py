"""A hub that models are pulled from: what it offers, and the errors of requests to it."""

from __future__ import annotations

import errno
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from model.artifacts.pulled import PulledName
from model.errors import ArtifactError

REPORTED_BYTES = 10**6
"""Downloads of larger files are reported."""

TIMEOUT_S = 10.0
"""Timeout of requests for metadata; downloads continue as long as bytes arrive."""


class HubUnreachable(ArtifactError):
    """The hub does not answer: there is no network, it is down, or the client is offline by configuration."""


@dataclass(frozen=True)
class HubFile:
    """A file on the hub.

    Args:
        name: Its name in the checkpoint's folder.
        size: In bytes; 0 if the hub does not state it.
        sha256: SHA-256 of its content, if the hub states it.
        git_id: SHA-1 of its content as a git object, which Hugging Face states for small files.
        path: Its path on the hub, if that is not its name.
    """

    name: str
    size: int
    sha256: str | None = None
    git_id: str | None = None
    path: str = ""


@dataclass(frozen=True)
class Snapshot:
    """The current content of a revision.

    Args:
        version: A commit, or the digest of a Firefox model.
        files: All its files, by name.
        model_name: The name for its bundle's model.
        attribution: Where it is from, for its bundle.
        licence: Its licence, if the hub states one; otherwise its files do.
        pairs: Its directions, if the hub states them; otherwise its files do.
    """

    version: str
    files: dict[str, HubFile]
    model_name: str
    attribution: str
    licence: str | None = None
    pairs: tuple[tuple[str, str], ...] = ()


class Hub(Protocol):
    """A hub."""

    def resolve(self, name: PulledName) -> Snapshot:
        """Get the version and the files of a revision.

        Raises:
            HubUnreachable: The hub cannot be reached.
            ArtifactError: There is no such model or revision, or access is denied.
        """
        ...

    def needed_files(self, snapshot: Snapshot) -> tuple[list[HubFile], list[HubFile]]:
        """The small files that describe a model, and those of its weights; none if it has no weights to import."""
        ...

    def check(self, folder: Path) -> None:
        """Check a model whose small files are there, before its weights are downloaded.

        Raises:
            ArtifactError: It cannot be imported.
        """
        ...

    def download(self, name: PulledName, version: str, files: Sequence[HubFile], folder: Path) -> None:
        """Download files, or the missing parts of them, and check them.

        Args:
            name: The model.
            version: The version.
            files: Its files.
            folder: The folder to write to. An interrupted download continues.

        Raises:
            HubUnreachable: The hub cannot be reached, or the connection was lost without progress.
            ArtifactError: Access is denied, a digest differs, or a file cannot be written.
        """
        ...


def disk_error(error: BaseException, name: PulledName) -> ArtifactError | None:
    """The error of a download as one line with its remedy, if the disk is the reason; otherwise None.

    Args:
        error: The error.
        name: The model.
    """
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return ArtifactError(
            f"The disk became full during the download of {name.repository}; make space and try again."
        )
    if isinstance(error, PermissionError) or getattr(error, "errno", None) == errno.EROFS:
        return ArtifactError(f"The cache folder cannot be written: {error}.")
    return None


def innermost_reason(error: BaseException) -> str:
    """The first line of the innermost error: HTTP libraries wrap "Connection refused" in four others."""
    while (inner := error.__cause__ or error.__context__) is not None:
        error = inner
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]


def check_file(path: Path, file: HubFile) -> None:
    """Compare a downloaded file with the digest that the hub states.

    Raises:
        ArtifactError: It differs; the file is deleted.
    """
    expected = file.sha256 or file.git_id
    if expected is None:
        return
    digest = hashlib.sha256() if file.sha256 else hashlib.sha1(usedforsecurity=False)
    if not file.sha256:
        digest.update(b"blob %d\0" % path.stat().st_size)
    with path.open("rb") as content:
        while piece := content.read(2**20):
            digest.update(piece)
    if digest.hexdigest() != expected:
        path.unlink()
        raise ArtifactError(
            f"{file.name} was damaged during the download: its {digest.name.upper()} is "
            f"{digest.hexdigest()[:12]}..., and the hub states {expected[:12]}.... It was deleted; try again."
        )
