"""From the names of models on a hub to their bundles in the cache folder: resolve, download, check, import."""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from model.artifacts.pulled import PulledBundles, PulledName
from model.errors import ArtifactError
from model.importing.firefox import Firefox
from model.importing.hub import Hub, HubFile, HubUnreachable, Snapshot
from model.process.files import make_folder
from model.process.progress import Progress, no_progress

if TYPE_CHECKING:
    from model.artifacts.manifest import Precision
    from model.importing.family import Overrides

_SHORT = 12
"""Digits of a version in messages."""

_LOCK_S = 0.1
"""Seconds to wait for a lock if what it protects can be done another time."""


class Hubs:
    """The hubs, each opened when it is first used, so that the registry of Firefox's models is requested once.

    Args:
        report: Called with each line of progress.
        firefox_registry: The address of a mirror of the registry of Firefox's models.
    """

    def __init__(self, report: Callable[[str], None] = print, firefox_registry: str | None = None) -> None:
        self._report = report
        self._firefox_registry = firefox_registry

    @functools.cached_property
    def firefox(self) -> Firefox:
        """The models of Firefox Translations."""
        return Firefox(self._report, self._firefox_registry)

    @functools.cached_property
    def hugging_face(self) -> Hub:
        """Hugging Face."""
        from model.importing.hugging_face import HuggingFace

        return HuggingFace(self._report)

    def of(self, name: PulledName) -> Hub:
        """The hub of a model."""
        return self.firefox if name.hub == "firefox" else self.hugging_face


def pull_all(
    names: Sequence[PulledName],
    precision: Precision,
    cache_dir: Path | None,
    hubs: Hubs,
    *,
    report: Callable[[str], None] = print,
    progress: Progress = no_progress,
) -> Iterator[tuple[PulledName, Path]]:
    """Pull models and groups of models into the cache.

    Args:
        names: The models and groups.
        precision: Precision of the bundles.
        cache_dir: As for :class:`Puller`.
        hubs: The hubs.
        report: Called with each line of progress.
        progress: As for :class:`Puller`.

    Yields:
        Each of the names with the path of a bundle: several times for a group. A model of a group that cannot be
        imported is left out, with a warning.

    Raises:
        ArtifactError: A model, or a whole group, cannot be pulled, or a hub cannot be reached and the cache does not
            have the model.
        DeviceError: As for :class:`Puller`.
    """
    for name in names:
        if not name.is_group:
            yield name, Puller(name, precision, cache_dir, hubs=hubs, report=report, progress=progress).to_cache()
            continue
        failures: list[ArtifactError] = []
        members = _members(name, PulledBundles(name, precision, cache_dir), hubs, report)
        for number, member in enumerate(members, start=1):
            report(f"{name}: model {number} of {len(members)}, {member}")
            puller = Puller(member, precision, cache_dir, hubs=hubs, report=report, progress=progress)
            try:
                yield name, puller.to_cache()
            except HubUnreachable:
                raise
            except ArtifactError as error:
                failures.append(error)
                report(f"warning: {member} is left out: {error}")
        if len(failures) == len(members):
            raise failures[0] if failures else ArtifactError(f"{name} names no model of {hubs.firefox.address}.")


def _members(
    name: PulledName, bundles: PulledBundles, hubs: Hubs, report: Callable[[str], None]
) -> Sequence[PulledName]:
    """The models of a group: those of the hub, or those in the cache if it cannot be reached."""
    try:
        return hubs.firefox.names(name)
    except HubUnreachable as error:
        kept = bundles.group()
        if not kept:
            raise
        report(f"warning: {error}; the {len(kept)} models of {name} that are in the cache are used")
        return kept


class Puller:
    """Pulls one model in one precision.

    Args:
        name: The model.
        precision: Precision of the bundle.
        cache_dir: Where bundles and unfinished downloads are kept; the cache folder of the user by default.
        hubs: The hubs.
        report: Called with each line of progress.
        progress: Wraps an iterable with a label and a length in a progress bar.
    """

    def __init__(
        self,
        name: PulledName,
        precision: Precision,
        cache_dir: Path | None = None,
        *,
        hubs: Hubs | None = None,
        report: Callable[[str], None] = print,
        progress: Progress = no_progress,
    ) -> None:
        self._name = name
        self._precision: Precision = precision
        self._bundles = PulledBundles(name, precision, cache_dir)
        self._hubs = hubs or Hubs(report)
        self._report = report
        self._progress = progress

    def to_cache(self) -> Path:
        """The bundle in the cache, made if it is missing.

        A pinned version in the cache needs no request to the hub. The version of another revision is requested; if that
        fails, the last known version is used, with a warning.

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
            hub = self._hubs.of(self._name)
            snapshot = hub.resolve(self._name)
        except ArtifactError as error:
            if last is None:
                raise self._with_advice(error) from error
            when = time.strftime("%Y-%m-%d", time.localtime(last.stat().st_mtime))
            version = f"{self._name.version_noun} {last.name[:_SHORT]} of {self._name}"
            self._report(f"warning: {error}; {version}, pulled on {when}, is used")
            return last
        bundle = self._bundles.path(snapshot.version)
        if not bundle.is_file():
            self._check_folder()
            with _locked(self._bundles.folder / ".lock"):
                if not bundle.is_file():  # another process may have made it in the meantime
                    self._make(hub, snapshot, bundle)
        else:
            self._remove_downloads()
        try:
            self._bundles.record(snapshot.version)
        except OSError as error:
            # A cache that is mounted read-only can still be served from.
            version = f"{self._name.version_noun} of {self._name}, {snapshot.version[:_SHORT]}"
            self._report(f"note: the {version}, cannot be recorded: {error.strerror}")
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
        hub = self._hubs.of(self._name)
        snapshot = hub.resolve(self._name)
        with _locked(self._bundles.folder / ".lock"):
            self._make(hub, snapshot, out, overrides)
        return out

    def _make(self, hub: Hub, snapshot: Snapshot, out: Path, overrides: Overrides | None = None) -> None:
        """Download a version and import it. The files stay if that fails, so that another attempt continues."""
        from model.importing.family import Overrides
        from model.importing.folder import CheckpointFolder
        from model.importing.importer import import_checkpoint

        name, version = self._name, snapshot.version
        self._check_precision()
        downloads = self._bundles.downloads(version)
        try:
            downloads.mkdir(parents=True, exist_ok=True)
            described, weights = hub.needed_files(snapshot)
            # First the small files: of a model that cannot be imported nothing else is downloaded.
            hub.download(name, version, described, downloads)
            hub.check(downloads)
            if not weights:
                raise ArtifactError(
                    f"{name} contains no weights that can be imported: neither model.safetensors nor pytorch_model.bin."
                )
            licence = snapshot.licence or CheckpointFolder(downloads).licence()
            self._tell(licence, version, [*described, *weights])
            self._check_space(downloads, described, weights)
            hub.download(name, version, weights, downloads)
            import_checkpoint(
                downloads,
                out,
                self._precision,
                overrides=overrides or Overrides(pairs=snapshot.pairs),
                name=snapshot.model_name,
                licence=snapshot.licence,
                attribution=(snapshot.attribution,),
                report=self._report,
                progress=self._progress,
            )
        except ArtifactError as error:
            # The folder is an implementation detail: the user knows the model by its name.
            message = str(error).replace(f"{downloads}{os.sep}", f"{name}: ").replace(str(downloads), str(name))
            raise type(error)(message) from error
        shutil.rmtree(downloads.parent, ignore_errors=True)  # with what was begun of other versions

    def _remove_downloads(self) -> None:
        """Delete the downloads of a process that was killed when it had made its bundle."""
        if self._bundles.all_downloads.is_dir():
            # OSError: another process has the lock, or the cache is mounted read-only.
            with contextlib.suppress(OSError), _locked(self._bundles.folder / ".lock", timeout=_LOCK_S):
                shutil.rmtree(self._bundles.all_downloads, ignore_errors=True)

    def _tell(self, licence: str | None, version: str, files: list[HubFile]) -> None:
        megabytes = sum(file.size for file in files) / 1e6
        self._report(f"{self._name}: {self._name.version_noun} {version}, {len(files)} files, {megabytes:.1f} MB")
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
            make_folder(folder)
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
        versions = sorted({path.name[:_SHORT] for path in folder.glob(f"*{self._bundles.suffix}")})
        there = f"only {', '.join(versions)} in another revision or precision" if versions else "nothing of it"
        return HubUnreachable(
            f"{error}, and the cache {folder} contains {there}. Run 'verso pull {self._name}' on a machine with a "
            "connection, and copy or mount its cache folder."
        )


def _locked(path: Path, timeout: float | None = None) -> AbstractContextManager[object]:
    """A lock between processes, so that one downloads and the others wait for its bundle.

    Args:
        path: The file of the lock.
        timeout: Seconds to wait for it, after which entering the context raises ``TimeoutError``; None for any time.
    """
    from huggingface_hub.utils import WeakFileLock

    return WeakFileLock(path, timeout=timeout)
