"""From the name of a model on a hub to its bundle in the cache folder: resolve, download, check, import."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from model.artifacts.pulled import PulledBundles, PulledName
from model.errors import ArtifactError
from model.importing.hub import Hub, HubFile, HubUnreachable, Snapshot
from model.process.progress import Progress, no_progress

if TYPE_CHECKING:
    from model.artifacts.manifest import Precision
    from model.importing.family import Overrides

_SHORT = 12
"""Digits of a commit in messages."""


class Puller:
    """Pulls one model in one precision.

    Args:
        name: The model.
        precision: Precision of the bundle.
        cache_dir: Where bundles and unfinished downloads are kept; the cache folder of the user by default.
        report: Called with each line of progress.
        progress: Wraps an iterable with a label and a length in a progress bar.
    """

    def __init__(
        self,
        name: PulledName,
        precision: Precision,
        cache_dir: Path | None = None,
        *,
        report: Callable[[str], None] = print,
        progress: Progress = no_progress,
    ) -> None:
        self._name = name
        self._precision: Precision = precision
        self._bundles = PulledBundles(name, precision, cache_dir)
        self._report = report
        self._progress = progress

    def to_cache(self) -> Path:
        """The bundle in the cache, made if it is missing.

        A commit in the cache needs no request to the hub. The commit of a branch or tag is requested; if that fails,
        the last known commit is used, with a warning.

        Returns:
            The bundle's path.

        Raises:
            ArtifactError: The model cannot be pulled; the message says why and what to do.
            DeviceError: The precision is int8 and the processor has no int8 kernels.
        """
        last = self._bundles.last()
        if self._name.pinned and last is not None:
            return last
        try:
            hub = Hub(self._report)
            snapshot = hub.resolve(self._name)
        except ArtifactError as error:
            if last is None:
                raise self._with_advice(error) from error
            when = time.strftime("%Y-%m-%d", time.localtime(last.stat().st_mtime))
            self._report(f"warning: {error}; commit {last.name[:_SHORT]} of {self._name}, pulled on {when}, is used")
            return last
        bundle = self._bundles.path(snapshot.commit)
        if not bundle.is_file():
            self._check_folder()
            with _locked(self._bundles.folder / ".lock"):
                if not bundle.is_file():  # another process may have made it in the meantime
                    self._make(hub, snapshot, bundle)
        try:
            self._bundles.record(snapshot.commit)
        except OSError as error:
            # A cache that is mounted read-only can still be served from.
            self._report(
                f"note: the commit of {self._name}, {snapshot.commit[:_SHORT]}, cannot be recorded: {error.strerror}"
            )
        return bundle

    def to_file(self, out: Path, overrides: Overrides) -> Path:
        """A bundle outside the cache.

        Args:
            out: The bundle to write; replaced atomically.
            overrides: The directions or languages to serve.

        Raises:
            ArtifactError: The model cannot be pulled; the message says why and what to do.
            DeviceError: The precision is int8 and the processor has no int8 kernels.
        """
        self._check_folder()
        hub = Hub(self._report)
        snapshot = hub.resolve(self._name)
        with _locked(self._bundles.folder / ".lock"):
            self._make(hub, snapshot, out, overrides)
        return out

    def _make(self, hub: Hub, snapshot: Snapshot, out: Path, overrides: Overrides | None = None) -> None:
        """Download a commit and import it. The files stay if that fails, so that another attempt continues."""
        from model.importing.families import check_family
        from model.importing.family import Overrides
        from model.importing.folder import CheckpointFolder, needed_files
        from model.importing.importer import import_checkpoint

        name, commit = self._name, snapshot.commit
        self._check_precision()
        downloads = self._bundles.downloads(commit)
        try:
            downloads.mkdir(parents=True, exist_ok=True)
            described, weights = ([snapshot.files[file] for file in files] for files in needed_files(snapshot.files))
            # First the small files: of a model of another family nothing else is downloaded.
            hub.download(name, commit, described, downloads)
            folder = CheckpointFolder(downloads)
            check_family(folder)
            if not weights:
                raise ArtifactError(
                    f"{name} contains no weights that can be imported: neither model.safetensors nor pytorch_model.bin."
                )
            self._tell(folder.licence(), commit, [*described, *weights])
            self._check_space(downloads, described, weights)
            hub.download(name, commit, weights, downloads)
            import_checkpoint(
                downloads,
                out,
                self._precision,
                overrides=overrides or Overrides(),
                name=name.repository.rpartition("/")[2],
                attribution=(f"{hub.page(name)}, commit {commit}",),
                report=self._report,
                progress=self._progress,
            )
        except ArtifactError as error:
            # The folder is an implementation detail: the user knows the model by its name.
            message = str(error).replace(f"{downloads}{os.sep}", f"{name}: ").replace(str(downloads), str(name))
            raise type(error)(message) from error
        shutil.rmtree(downloads, ignore_errors=True)

    def _tell(self, licence: str | None, commit: str, files: list[HubFile]) -> None:
        megabytes = sum(file.size for file in files) / 1e6
        self._report(f"{self._name}: commit {commit}, {len(files)} files, {megabytes:.1f} MB")
        self._report(f"licence of the weights: {licence or 'not stated; read the page of the model'}")
        if licence is not None and "-nc" in licence.lower():
            self._report(f"warning: {licence} forbids commercial use")

    def _check_precision(self) -> None:
        """Refuse a precision that this machine cannot serve before gigabytes are downloaded."""
        from model.artifacts.bundle import check_device

        check_device("cpu", self._precision)

    def _check_folder(self) -> None:
        """Make the folder of the model.

        Raises:
            ArtifactError: It cannot be written.
        """
        folder = self._bundles.folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
            writable = os.access(folder, os.W_OK)
        except OSError:
            writable = False
        if not writable:
            raise ArtifactError(
                f"{self._name} is not in the cache, and the cache folder {folder} cannot be written: mount it "
                "writable, or name another (--cache-dir, VERSO_CACHE_DIR)."
            )

    def _check_space(self, downloads: Path, described: list[HubFile], weights: list[HubFile]) -> None:
        """Check that weights and bundle will fit on the disk.

        Raises:
            ArtifactError: They will not.
        """
        num_bytes = sum(file.size for file in weights)
        there = sum(path.stat().st_size for path in downloads.rglob("*") if path.is_file())
        partial = max(0, there - sum(file.size for file in described))  # of a download that was interrupted
        # A bundle is no larger than the weights, unless those have 16 bits and the bundle 32.
        needed = 2 * num_bytes - min(partial, num_bytes)
        free = shutil.disk_usage(downloads).free
        if free < needed:
            raise ArtifactError(
                f"{self._name} needs {needed / 1e6:.0f} MB in {self._bundles.folder} (weights, and as much again for "
                f"the bundle), and {free / 1e6:.0f} MB are free: make space, or name another cache folder."
            )

    def _with_advice(self, error: ArtifactError) -> ArtifactError:
        """Add the remedy if the hub cannot be reached and the cache has no bundle."""
        if not isinstance(error, HubUnreachable):
            return error
        folder = self._bundles.folder
        commits = sorted({path.name[:_SHORT] for path in folder.glob("*.pt")})
        there = f"only {', '.join(commits)} in another revision or precision" if commits else "nothing of it"
        return HubUnreachable(
            f"{error}, and the cache {folder} contains {there}. Run 'verso pull {self._name}' on a machine with a "
            "connection, and copy or mount its cache folder."
        )


def _locked(path: Path) -> AbstractContextManager[object]:
    """A lock between processes, so that one downloads and the others wait for its bundle."""
    from huggingface_hub.utils import WeakFileLock

    return WeakFileLock(path)
