"""Models on a hub: their names (``hf:Helsinki-NLP/opus-mt-en-fr``, ``firefox:en-de``), and where their bundles are.

Nothing here uses the network or needs torch: :mod:`model.importing.pull` makes the bundles.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from urllib.parse import quote

from model.artifacts.format import DATA_FORMAT_VERSION, FORMAT_VERSION
from model.errors import ArtifactError
from model.process.files import write_file
from model.process.folders import cache_folder

if TYPE_CHECKING:
    from model.artifacts.manifest import Precision

HubName = Literal["hf", "firefox"]
"""Hugging Face, and Mozilla's registry of the models of Firefox Translations."""

ARCHITECTURES = ("base", "base-memory", "tiny")
"""The architectures of Firefox's models, the best first."""

_DEFAULT_REVISIONS: dict[HubName, str] = {"hf": "main", "firefox": "best"}
_VERSIONS: dict[HubName, re.Pattern[str]] = {"hf": re.compile("[0-9a-f]{40}"), "firefox": re.compile("[0-9a-f]{64}")}
_REPOSITORY = re.compile(r"(?:[A-Za-z0-9][\w.-]*/)?[A-Za-z0-9][\w.-]*", re.ASCII)
_REVISION = re.compile(r"[^\s@,?#]+")
_GROUP = re.compile(r"all(?:-(?:from|to)-[a-z]{2,3})?")
_PAIR = re.compile(r"(?!all-)[a-z]{2,3}(?:-[a-z]{4})?-[a-z]{2,3}(?:-[a-z]{4})?")


def is_commit(revision: str) -> bool:
    """Whether a revision is a whole commit."""
    return _VERSIONS["hf"].fullmatch(revision) is not None


def is_pulled(name: str) -> bool:
    """Whether the name of a bundle is that of a model on a hub: whether it has a hub's prefix."""
    return name.partition(":")[0] in _DEFAULT_REVISIONS and ":" in name


@dataclass(frozen=True)
class PulledName:
    """A model on a hub, or a group of models.

    Args:
        repository: Its repository, such as ``Helsinki-NLP/opus-mt-en-fr``; of a Firefox model its pair, such as
            ``en-de``, or a group of pairs.
        revision: A commit, tag or branch; of a Firefox model its architecture, ``best``, or the digest of its weights.
        hub: The hub.
    """

    repository: str
    revision: str = _DEFAULT_REVISIONS["hf"]
    hub: HubName = "hf"

    @classmethod
    def parse(cls, text: str) -> PulledName:
        """Read a name.

        Args:
            text: ``OWNER/NAME`` or ``OWNER/NAME@REVISION``, with or without ``hf:``; or ``firefox:en-de``, a group such
                as ``firefox:all-from-en``, and either with ``:REVISION``.

        Raises:
            ArtifactError: It is something else.
        """
        hub, colon, name = text.partition(":")
        return cls._firefox(text, name) if colon and hub == "firefox" else cls._hugging_face(text)

    @classmethod
    def _hugging_face(cls, text: str) -> PulledName:
        repository, at, revision = text.removeprefix("hf:").partition("@")
        # Two hyphens replace the slash in the names of folders, here and on the hub, which therefore forbids them.
        wrong = not _REPOSITORY.fullmatch(repository) or "--" in repository or ".." in text
        if wrong or (at and not _REVISION.fullmatch(revision)):
            raise ArtifactError(
                f"{text!r} is not the name of a model; write hf:OWNER/NAME or hf:OWNER/NAME@REVISION, where "
                "REVISION is a commit, tag or branch."
            )
        if is_commit(revision.lower()):
            revision = revision.lower()
        return cls(repository, revision or _DEFAULT_REVISIONS["hf"])

    @classmethod
    def _firefox(cls, text: str, name: str) -> PulledName:
        repository, _, revision = name.lower().partition(":")
        repository = repository.replace("_", "-")
        revision = revision or _DEFAULT_REVISIONS["firefox"]
        is_group = _GROUP.fullmatch(repository) is not None
        is_version = _VERSIONS["firefox"].fullmatch(revision) is not None
        is_revision = revision in (*ARCHITECTURES, _DEFAULT_REVISIONS["firefox"]) or (is_version and not is_group)
        if not is_revision or not (is_group or _PAIR.fullmatch(repository)):
            raise ArtifactError(
                f"{text!r} is not the name of a model; write firefox:en-de, or firefox:all, firefox:all-from-en or "
                f"firefox:all-to-en for many; ':' and {', '.join(ARCHITECTURES)} may follow, and after a pair the "
                "SHA-256 of its weights. 'verso pull --list firefox' lists the models."
            )
        return cls(repository, revision, "firefox")

    @property
    def pinned(self) -> bool:
        """Whether the revision is a whole commit or a digest, which never changes."""
        return _VERSIONS[self.hub].fullmatch(self.revision) is not None

    @property
    def is_group(self) -> bool:
        """Whether it names many models."""
        return self.hub == "firefox" and _GROUP.fullmatch(self.repository) is not None

    @property
    def version_noun(self) -> str:
        """What messages call a version of the model."""
        return "commit" if self.hub == "hf" else "version"

    @property
    def setting(self) -> str:
        """The name in settings, with the hub's prefix."""
        return f"hf:{self}" if self.hub == "hf" else str(self)

    def of_group(self, pair: str) -> PulledName | None:
        """The name of a pair's model in this group; None if the group does not have the pair.

        Args:
            pair: The pair, such as ``en-de``, in lower case.
        """
        _, side, language = f"{self.repository}--".split("-")[:3]
        has = not side or (pair.startswith(f"{language}-") if side == "from" else pair.endswith(f"-{language}"))
        return PulledName(pair, self.revision, self.hub) if has and _PAIR.fullmatch(pair) else None

    def __str__(self) -> str:
        revision = "" if self.revision == _DEFAULT_REVISIONS[self.hub] else self.revision
        if self.hub == "firefox":
            return ":".join(["firefox", self.repository, *([revision] if revision else [])])
        return f"{self.repository}@{revision}" if revision else self.repository


class PulledBundles:
    """The bundles of one model in the cache folder, in one precision.

    There is one for each version, which is a commit, or the digest of a Firefox model; and a file for each other
    revision with the version that it was when the hub was last asked. Another format of bundles makes other files, so
    that an upgrade imports the model again.

    Args:
        name: The model.
        precision: Precision of the bundles.
        cache_dir: Where bundles are kept; :func:`model.process.folders.cache_folder` by default.
    """

    def __init__(self, name: PulledName, precision: Precision, cache_dir: Path | None = None) -> None:
        self.name = name
        self._hub_folder = (cache_dir or cache_folder()) / ("hub" if name.hub == "hf" else name.hub)
        self.folder = self._hub_folder / name.repository.replace("/", "--")
        """Everything that is kept of the repository."""
        self._precision: Precision = precision
        # Loading a TorchScript archive keeps Python's lock for all its time, and Firefox's models are loaded while
        # others decode. The others have been TorchScript since before there was a data form.
        is_data = name.hub == "firefox"
        self.suffix = ".verso" if is_data else ".pt"
        """The suffix of its bundles: data only, or TorchScript."""
        self._kind = f"{precision}-v{DATA_FORMAT_VERSION if is_data else FORMAT_VERSION}"

    def path(self, version: str) -> Path:
        """The bundle of a version, whether it is there or not."""
        return self.folder / f"{version}-{self._kind}{self.suffix}"

    def downloads(self, version: str) -> Path:
        """The folder for the files of a version while they are downloaded and imported."""
        return self.all_downloads / version

    @property
    def all_downloads(self) -> Path:
        """The folder of :meth:`downloads` for all versions."""
        return self.folder / "downloads"

    def last(self) -> Path | None:
        """The bundle of the revision's version, as far as it is known without asking the hub; None if there is none."""
        version = self.name.revision if self.name.pinned else self._recorded()
        return self.path(version) if version is not None and self.path(version).is_file() else None

    def group(self) -> list[PulledName]:
        """The models of a group that the cache has; none if the name is not that of a group."""
        if not self.name.is_group:
            return []
        folders = sorted(self._hub_folder.iterdir()) if self._hub_folder.is_dir() else []
        names = [name for folder in folders if (name := self.name.of_group(folder.name)) is not None]
        kept = self._hub_folder.parent
        return [name for name in names if PulledBundles(name, self._precision, kept).last() is not None]

    def record(self, version: str) -> None:
        """Keep which version the revision is, so that it can be served when the hub cannot be asked.

        Raises:
            OSError: The folder cannot be written.
        """
        if not self.name.pinned and self._recorded() != version:
            write_file(self._record, version.encode())

    @property
    def _record(self) -> Path:
        return self.folder / f"{quote(self.name.revision, safe='')}-{self._kind}.commit"

    def _recorded(self) -> str | None:
        try:
            version = self._record.read_text(encoding="ascii", errors="replace").strip()
        except OSError:
            return None
        return version if _VERSIONS[self.name.hub].fullmatch(version) else None
