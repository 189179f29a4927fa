"""Hugging Face: the files of a revision, which are checked against their digests.

The library huggingface_hub speaks the protocol. It reads ``HF_ENDPOINT`` (another hub), ``HF_TOKEN`` (private models),
``HF_HUB_OFFLINE`` and the usual variables for proxies; it copies files from its own cache.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from model.artifacts.pulled import PulledName, is_commit
from model.errors import ArtifactError
from model.importing.families import check_family
from model.importing.folder import CheckpointFolder, needed_files
from model.importing.hub import (
    REPORTED_BYTES,
    TIMEOUT_S,
    HubFile,
    HubUnreachable,
    Snapshot,
    check_file,
    disk_error,
    innermost_reason,
)

PUBLIC_HUB = "https://huggingface.co"


class HuggingFace:
    """Hugging Face, or another hub of its protocol.

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
            info = self._api.model_info(name.repository, revision=name.revision, files_metadata=True, timeout=TIMEOUT_S)
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
        return Snapshot(info.sha, files, name.repository.rpartition("/")[2], f"{self.page(name)}, commit {info.sha}")

    def needed_files(self, snapshot: Snapshot) -> tuple[list[HubFile], list[HubFile]]:
        """See :meth:`model.importing.hub.Hub.needed_files`."""
        described, weights = needed_files(snapshot.files)
        return [snapshot.files[name] for name in described], [snapshot.files[name] for name in weights]

    def check(self, folder: Path) -> None:
        """Refuse a model of an unknown family.

        Raises:
            ArtifactError: It is of one.
        """
        check_family(CheckpointFolder(folder))

    def download(self, name: PulledName, version: str, files: Sequence[HubFile], folder: Path) -> None:
        """See :meth:`model.importing.hub.Hub.download`; a version is a commit."""
        for file in files:
            if file.size > REPORTED_BYTES:
                self._report(f"downloading {file.name}, {file.size / 1e6:.0f} MB")
            self._download(name, version, file, folder)
            check_file(folder / file.name, file)

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
        if (disk := disk_error(error, name)) is not None:
            return disk
        if status is not None and 400 <= status < 500 and status not in (408, 429):
            return ArtifactError(f"{self.address} refuses {name} with status {status}: {innermost_reason(error)}")
        reason = innermost_reason(error) if status is None else f"it answered with status {status}"
        return HubUnreachable(f"{self.address} cannot be reached ({reason})")


def _unfinished_bytes(folder: Path) -> int:
    """Bytes of the unfinished downloads that huggingface_hub keeps in a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*.incomplete"))
