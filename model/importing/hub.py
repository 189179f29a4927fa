"""Requests to a model hub: the files of a revision, which are checked against their digests.

The library huggingface_hub speaks the protocol. It reads ``HF_ENDPOINT`` (another hub), ``HF_TOKEN`` (private models),
``HF_HUB_OFFLINE`` and the usual variables for proxies; it copies files from its own cache.
"""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from model.artifacts.pulled import PulledName, is_commit
from model.errors import ArtifactError

PUBLIC_HUB = "https://huggingface.co"

_TIMEOUT_S = 10.0
"""Timeout of requests for metadata; downloads continue as long as bytes arrive."""

_REPORTED_BYTES = 10**6
"""Downloads of larger files are reported; on a terminal, huggingface_hub also draws a bar for each file."""


class HubUnreachable(ArtifactError):
    """The hub does not answer: there is no network, it is down, or the client is offline by configuration."""


@dataclass(frozen=True)
class HubFile:
    """A file on the hub.

    Args:
        name: Its path in the repository.
        size: In bytes.
        sha256: SHA-256 of its content, which the hub states for large files.
        git_id: SHA-1 of its content as a git object, which the hub states for the others.
    """

    name: str
    size: int
    sha256: str | None
    git_id: str | None


@dataclass(frozen=True)
class Snapshot:
    """The current content of a revision.

    Args:
        commit: Its commit.
        files: All its files, by name.
    """

    commit: str
    files: dict[str, HubFile]


class Hub:
    """The model hub.

    Args:
        report: Called with each line of progress.
    """

    def __init__(self, report: Callable[[str], None]) -> None:
        # Plain HTTP can resume a download, and writes nothing outside the given folder.
        os.environ.setdefault("HF_HUB_DISABLE_XET", "1")
        # Imported here, because it takes a third of a second and most uses of Verso need no hub.
        from huggingface_hub import HfApi

        self.address = os.environ.get("HF_ENDPOINT", "").rstrip("/") or PUBLIC_HUB
        self._api = HfApi(endpoint=self.address, library_name="verso-translate")
        self._report = report

    def page(self, name: PulledName) -> str:
        """Address of the model's page."""
        return f"{self.address}/{name.repository}"

    def resolve(self, name: PulledName) -> Snapshot:
        """Get the commit and the files of a revision.

        Raises:
            HubUnreachable: The hub cannot be reached.
            ArtifactError: There is no such model or revision, or access is denied.
        """
        try:
            info = self._api.model_info(
                name.repository, revision=name.revision, files_metadata=True, timeout=_TIMEOUT_S
            )
        except Exception as error:  # of huggingface_hub, and of the HTTP library that its release uses
            raise self._translated(error, name) from error
        if info.sha is None or not is_commit(info.sha):  # it becomes the name of a file
            raise ArtifactError(f"{self.address} does not say which commit {name} is; is it a model hub?")
        files = {}
        for file in info.siblings or ():
            sha256 = None if file.lfs is None else file.lfs.sha256
            # The git object of a large file is only a pointer.
            git_id = file.blob_id if file.lfs is None else None
            files[file.rfilename] = HubFile(file.rfilename, file.size or 0, sha256, git_id)
        return Snapshot(info.sha, files)

    def download(self, name: PulledName, commit: str, files: Sequence[HubFile], folder: Path) -> None:
        """Download files, or the missing parts of them, and check them.

        Args:
            name: The model.
            commit: The commit.
            files: Its files.
            folder: The folder to write to. An interrupted download continues.

        Raises:
            HubUnreachable: The hub cannot be reached, or the connection was lost without progress.
            ArtifactError: Access is denied, a digest differs, or a file cannot be written.
        """
        for file in files:
            if file.size > _REPORTED_BYTES:
                self._report(f"downloading {file.name}, {file.size / 1e6:.0f} MB")
            self._download(name, commit, file, folder)
            _check(folder / file.name, file)

    def _download(self, name: PulledName, commit: str, file: HubFile, folder: Path) -> None:
        """Download a file, or the rest of it; retry as long as each attempt receives something."""
        received = _unfinished_bytes(folder)
        while True:
            try:
                self._api.hf_hub_download(name.repository, file.name, revision=commit, local_dir=folder)
                return
            except Exception as error:  # as in resolve
                translated = self._translated(error, name)
                if not isinstance(translated, HubUnreachable):
                    raise translated from error
                before, received = received, _unfinished_bytes(folder)
                if received <= before:
                    raise HubUnreachable(
                        f"{translated}; what was downloaded of {name} is kept, and the next attempt continues there"
                    ) from error
            self._report(f"the connection was lost; {file.name} continues where it ended")

    def _translated(self, error: Exception, name: PulledName) -> ArtifactError:
        """An error of huggingface_hub, of its HTTP library or of the file system, as one line with its remedy."""
        from huggingface_hub.errors import (
            GatedRepoError,
            LocalEntryNotFoundError,
            RepositoryNotFoundError,
            RevisionNotFoundError,
        )

        while isinstance(error, LocalEntryNotFoundError) and isinstance(error.__cause__, Exception):
            error = error.__cause__
        status = getattr(getattr(error, "response", None), "status_code", None)
        if isinstance(error, GatedRepoError):
            return ArtifactError(
                f"{name.repository} is gated: accept its terms at {self.page(name)}, and set HF_TOKEN to a token of "
                "the same account."
            )
        if isinstance(error, RevisionNotFoundError):
            return ArtifactError(
                f"{name.repository} has no commit, tag or branch {name.revision!r}; {self.page(name)} lists them."
            )
        if isinstance(error, RepositoryNotFoundError) or status in (401, 404):
            return ArtifactError(
                f"{self.address} has no model {name.repository}, or it is private: check the name, and for a private "
                "model set HF_TOKEN to a token that may read it."
            )
        if status == 403:
            return ArtifactError(
                f"{self.address} does not let you read {name.repository}: set HF_TOKEN to a token that may read it."
            )
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            return ArtifactError(
                f"The disk became full during the download of {name.repository}; make space and try again."
            )
        if isinstance(error, PermissionError) or getattr(error, "errno", None) == errno.EROFS:
            return ArtifactError(f"The cache folder cannot be written: {error}.")
        if status is not None and 400 <= status < 500 and status not in (408, 429):
            return ArtifactError(f"{self.address} refuses {name} with status {status}: {_reason(error)}")
        reason = _reason(error) if status is None else f"it answered with status {status}"
        return HubUnreachable(f"{self.address} cannot be reached ({reason})")


def _reason(error: BaseException) -> str:
    """The first line of the innermost error: HTTP libraries wrap "Connection refused" in four others."""
    while (inner := error.__cause__ or error.__context__) is not None:
        error = inner
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]


def _check(path: Path, file: HubFile) -> None:
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


def _unfinished_bytes(folder: Path) -> int:
    """Bytes of the unfinished downloads that huggingface_hub keeps in a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*.incomplete"))
