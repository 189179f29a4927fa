"""Bundle files: the configured ones, and those that an operator may load while the service runs."""

from __future__ import annotations

import functools
import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from app.errors import BundleNotFound, BundleOutside, SettingsError
from app.models.pulling import pull_bundles
from app.settings import AUTO, ENV_PREFIX, Settings
from model.artifacts.pulled import PulledName, is_pulled
from model.process.threads import usable_threads

if TYPE_CHECKING:
    from model.artifacts.manifest import Manifest
    from model.process.devices import DeviceChoice
    from model.translator import Translator

logger = logging.getLogger("app.bundles")

SUFFIXES = (".pt", ".verso")
"""Suffixes of bundle files in a folder: TorchScript, and data only."""


@dataclass(frozen=True)
class StoredBundle:
    """A bundle that can be loaded; only its manifest was read.

    Args:
        path: Its file.
        manifest: Its metadata.
        device: The device that it is loaded onto.
        num_bytes: Memory that it takes when it is loaded, estimated.
        sha256: The digest it must have, or None.
    """

    path: Path
    manifest: Manifest
    device: str = "cpu"
    num_bytes: int = 0
    sha256: str | None = None


_NAMES_OF_HUBS = {
    "firefox": re.compile("[a-z]{2,3}-[a-z]{2,3}"),
    "hf": re.compile(r"[A-Za-z0-9][\w-]*/[A-Za-z0-9][\w-]*", re.ASCII),
}
"""How the names of models look, without the prefix of their hub."""


class BundleSource(Protocol):
    """Loads translators. Its methods take seconds; they are called on a separate thread, one at a time."""

    def load_configured(self) -> Sequence[Translator]:
        """Load the configured translators, in the order in which they serve."""
        ...

    def describe_configured(self) -> Sequence[StoredBundle]:
        """The bundles of the configured translators, in the order in which they serve. Does not run their code."""
        ...

    def describe(self, file: str, sha256: str | None) -> StoredBundle:
        """Another bundle. Does not run its code."""
        ...

    def load(self, bundle: StoredBundle) -> Translator:
        """Load a bundle on one thread, so that the running models keep their threads."""
        ...


class BundleFiles:
    """The configured bundle files.

    Args:
        settings: The bundles or their folder, the device, the threads and, optionally, a checksum.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def load_configured(self) -> Sequence[Translator]:
        """Load every configured bundle, on all threads of the service.

        Raises:
            SettingsError: A folder is empty, two bundles have the same name, or shortlists are on and no bundle has
                one.
            ArtifactError: A bundle is missing, damaged, of another format, or has another checksum.
            DeviceError: The device is not available or cannot run a bundle's precision.
        """
        paths = self._configured_paths()
        return [self._load(path, usable_threads(self._settings.threads), self._settings.model_sha256) for path in paths]

    def configured(self) -> list[str]:
        """The names of the configured bundles: paths, ``auto`` for the shipped translator, and models of hubs.

        Raises:
            SettingsError: The folder is empty, or the list names no bundle.
        """
        if self._settings.models is None:
            return [self._settings.model]
        folder = Path(self._settings.models)
        if folder.is_dir():
            files = [str(path) for path in _bundles_in(folder)]
            if not files:
                raise SettingsError(
                    f"{ENV_PREFIX}MODELS is {str(folder)!r}: the folder has no .pt file and no .verso file"
                )
            return files
        names = [name.strip() for name in self._settings.models.split(",") if name.strip()]
        if not names:
            raise SettingsError(f"{ENV_PREFIX}MODELS is {self._settings.models!r}: it names no bundle")
        return names

    def check(self, paths: Sequence[Path]) -> None:
        """Check that bundles can be served together. Reads only their manifests.

        Args:
            paths: All bundles to be served.

        Raises:
            SettingsError: Two bundles have the same name, or shortlists are on and no bundle has one.
            ArtifactError: A bundle is missing, damaged or of another format.
        """
        from model.artifacts.bundle import read_manifest

        if self._settings.shortlist == "on":
            self._expect_shortlists(paths)
        names: dict[str, Path] = {}
        for path in paths if len(paths) > 1 else ():
            name = read_manifest(path).name
            if name in names:
                raise SettingsError(
                    f"{ENV_PREFIX}MODELS has two bundles called {name!r}, {names[name]} and {path}: requests and "
                    "metrics identify models by name; remove one, or export it under another name"
                )
            names[name] = path

    def describe_configured(self) -> Sequence[StoredBundle]:
        """The configured bundles. Reads only their manifests.

        Raises:
            SettingsError: As for :meth:`load_configured`.
            ArtifactError: A bundle is missing, damaged or of another format.
            DeviceError: The device is not available or cannot run a bundle's precision.
        """
        return [self._described(path, self._settings.model_sha256) for path in self._configured_paths()]

    def describe(self, file: str, sha256: str | None) -> StoredBundle:
        """A bundle that may be loaded while the service runs. Does not run the bundle's code.

        Args:
            file: Its path, relative to a folder of the configured bundles, or ``auto``, or the name of a model on a hub
                that the settings have.
            sha256: The digest it must have when it is loaded, or None.

        Raises:
            BundleNotFound: The bundle does not exist.
            BundleOutside: The bundle is outside the allowed folders.
            ArtifactError: The bundle is damaged or of another format.
            DeviceError: The device cannot run its precision.
        """
        return self._described(self._allowed(file), sha256)

    def load(self, bundle: StoredBundle) -> Translator:
        """Load a bundle.

        Args:
            bundle: The bundle.

        Raises:
            ArtifactError: The bundle is damaged, of another format, or has another checksum.
            DeviceError: The device cannot run its precision.
        """
        return self._load(bundle.path, 1, bundle.sha256)

    def _described(self, path: Path, sha256: str | None) -> StoredBundle:
        from model.artifacts.bundle import check_device, read_manifest, served_precision
        from model.artifacts.memory import loaded_bytes

        manifest, device = read_manifest(path), self._device.device
        precision = served_precision(manifest.precision, check_device(device, manifest.precision))
        num_bytes = loaded_bytes(path.stat().st_size, manifest, device)
        return StoredBundle(path, replace(manifest, precision=precision), device, num_bytes, sha256)

    def _configured_paths(self) -> list[Path]:
        paths = self._paths(self.configured())
        self.check(paths)
        return paths

    def _paths(self, names: Sequence[str]) -> list[Path]:
        """The files of bundles, each once, in order; pulls the models of hubs."""
        from model.artifacts.pretrained import preferred_precision

        pulled = {name: PulledName.parse(name) for name in names if is_pulled(name)}
        bundles = (
            pull_bundles(
                [*pulled.values()],
                preferred_precision(self._device.device),
                self._settings.cache_dir,
                self._settings.firefox_registry,
            )
            if pulled
            else {}
        )
        paths = [bundles[pulled[name]] if name in pulled else [self._path(name)] for name in names]
        return list(dict.fromkeys(path for of_name in paths for path in of_name))

    def _path(self, name: str) -> Path:
        """The file of a configured bundle; builds that of the shipped translator.

        Raises:
            SettingsError: It is not there, and its name looks like that of a model of a hub.
        """
        if name != AUTO:
            hub = next((hub for hub, pattern in _NAMES_OF_HUBS.items() if pattern.fullmatch(name)), None)
            if hub is not None and not Path(name).exists():
                raise SettingsError(f"there is no bundle {name!r}; for the model of a hub, write {hub}:{name}")
            return Path(name)
        if self._settings.auto_bundle is not None:
            return self._settings.auto_bundle
        from model.artifacts.pretrained import build_pretrained

        return build_pretrained(self._device.device, self._settings.cache_dir, report=logger.info)

    @functools.cached_property
    def _device(self) -> DeviceChoice:
        """The device of all bundles; logged once."""
        from model.process.devices import choose_device

        choice = choose_device(self._settings.device)
        fields = {"device": choice.device, "setting": self._settings.device, "reason": choice.reason}
        if choice.warning is None:
            logger.info("device chosen", extra={"fields": fields})
        else:
            logger.warning(choice.warning, extra={"fields": fields})
        return choice

    def _expect_shortlists(self, paths: Sequence[Path]) -> None:
        """Check that at least one bundle has a shortlist.

        Raises:
            SettingsError: No bundle has a shortlist.
            ArtifactError: A bundle is missing, damaged or of another format.
        """
        from model.artifacts.bundle import read_manifest

        if not any(read_manifest(path).shortlist for path in paths):
            raise SettingsError(
                f"{ENV_PREFIX}SHORTLIST is 'on', but {' and '.join(map(str, paths))} has no shortlist: make a bundle "
                "that has one with 'verso shortlist', or switch shortlists off"
            )

    def _folders(self) -> list[Path]:
        """The folders from which bundles may be loaded while the service runs."""
        models = self._settings.models
        if models is not None and Path(models).is_dir():
            return [Path(models).resolve()]
        parents = [Path(name).parent.resolve() for name in self.configured() if not _is_made(name)]
        return list(dict.fromkeys(parents))

    def _allowed(self, file: str) -> Path:
        """The file that an operator names, if it is in an allowed folder after links are resolved."""
        if file == AUTO or (is_pulled(file) and file in self.configured() and not PulledName.parse(file).is_group):
            return self._paths([file])[0]
        folders = self._folders()
        is_inside = False
        for folder in folders:
            try:
                path = (folder / file).resolve()
                if not path.is_relative_to(folder):
                    continue
                is_inside = True
                if path.is_file():
                    return path
            except (OSError, RuntimeError) as error:  # a name too long for the file system, or a loop of links
                logger.info("a bundle's path cannot be resolved", extra={"fields": {"reason": type(error).__name__}})
                is_inside = True
        if not is_inside:
            raise BundleOutside(file)
        raise BundleNotFound(file, [path.name for folder in folders for path in _bundles_in(folder)])

    def _load(self, path: Path, num_threads: int, sha256: str | None) -> Translator:
        # Imported here: torch takes seconds, for which --help and errors of settings should not wait.
        from model.artifacts.bundle import read_manifest
        from model.translator import Translator

        device = self._device.device
        native = self._settings.native == "auto"
        shortlist = self._settings.shortlist == "on"
        if shortlist and not read_manifest(path).shortlist:
            logger.warning(
                "the bundle has no shortlist: its whole vocabulary is used", extra={"fields": {"file": path.name}}
            )
            shortlist = False
        if shortlist and device.startswith("cuda"):
            logger.warning("shortlists are not used on a GPU", extra={"fields": {"file": path.name}})
        _log_precision(path, self._device)
        return Translator.load(
            path,
            device=device,
            num_threads=num_threads,
            sha256=sha256,
            native=native,
            shortlist=shortlist,
            isa=self._settings.isa,
            graphs=self._settings.graphs == "auto",
        )


def _log_precision(path: Path, choice: DeviceChoice) -> None:
    """Warn if a bundle is not served in its own precision, or slowly because a GPU cannot be used."""
    from model.artifacts.bundle import check_device, read_manifest, served_precision

    if choice.device == "cpu":
        if choice.warning is not None and read_manifest(path).precision == "float16":
            logger.warning(
                "a bundle in float16 is about ten times slower on the CPU than one in int8; serve one in int8",
                extra={"fields": {"file": path.name}},
            )
        return
    stored = read_manifest(path).precision
    served = served_precision(stored, check_device(choice.device, stored))
    if served != stored:
        logger.warning(
            f"the bundle in {stored} is served in {served}, as this GPU has no fast matrix products in {stored}; "
            "export it in float16 for GPUs",
            extra={"fields": {"file": path.name, "precision": stored, "served_in": served}},
        )


def _bundles_in(folder: Path) -> list[Path]:
    """The bundle files of a folder, by name."""
    return sorted(path for path in folder.glob("*") if path.suffix in SUFFIXES)


def _is_made(name: str) -> bool:
    """Whether a name is that of a bundle that Verso makes and stores in the cache folder."""
    return name == AUTO or is_pulled(name)
