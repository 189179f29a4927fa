"""Models on a hub: how they are named (``hf:Helsinki-NLP/opus-mt-en-fr``), and where their bundles are kept.

Nothing here uses the network or needs torch: :mod:`model.importing.pull` makes the bundles.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from model.artifacts.format import FORMAT_VERSION
from model.errors import ArtifactError
from model.process.folders import cache_folder

if TYPE_CHECKING:
    from model.artifacts.manifest import Precision

PREFIX = "hf:"
"""Marks a name of this kind where a file may stand, too."""

DEFAULT_REVISION = "main"

_REPOSITORY = re.compile(r"(?:[A-Za-z0-9][\w.-]*/)?[A-Za-z0-9][\w.-]*", re.ASCII)
_REVISION = re.compile(r"[^\s@,?#]+")
_COMMIT = re.compile(r"[0-9a-f]{40}")


def is_commit(revision: str) -> bool:
    """Whether a revision is a whole commit."""
    return _COMMIT.fullmatch(revision) is not None


@dataclass(frozen=True)
class PulledName:
    """A model on a hub.

    Args:
        repository: Its repository, such as ``Helsinki-NLP/opus-mt-en-fr``.
        revision: A commit, tag or branch.
    """

    repository: str
    revision: str = DEFAULT_REVISION

    @classmethod
    def parse(cls, text: str) -> PulledName:
        """Read a name.

        Args:
            text: ``OWNER/NAME`` or ``OWNER/NAME@REVISION``, with or without ``hf:``.

        Raises:
            ArtifactError: It is something else.
        """
        repository, at, revision = text.removeprefix(PREFIX).partition("@")
        # Two hyphens replace the slash in the names of folders, here and on the hub, which therefore forbids them.
        wrong = not _REPOSITORY.fullmatch(repository) or "--" in repository or ".." in text
        if wrong or (at and not _REVISION.fullmatch(revision)):
            raise ArtifactError(
                f"{text!r} is not the name of a model; write {PREFIX}OWNER/NAME or {PREFIX}OWNER/NAME@REVISION, where "
                "REVISION is a commit, tag or branch."
            )
        if is_commit(revision.lower()):
            revision = revision.lower()
        return cls(repository, revision or DEFAULT_REVISION)

    @property
    def pinned(self) -> bool:
        """Whether the revision is a whole commit, which never changes."""
        return is_commit(self.revision)

    def __str__(self) -> str:
        return self.repository if self.revision == DEFAULT_REVISION else f"{self.repository}@{self.revision}"


class PulledBundles:
    """The bundles of one model in the cache folder, in one precision.

    There is one for each commit, and a file for each branch and tag with the commit that it was when the hub was last
    asked. Another format of bundles makes other files, so that an upgrade imports the model again.

    Args:
        name: The model.
        precision: Precision of the bundles.
        cache_dir: Where bundles are kept; :func:`model.process.folders.cache_folder` by default.
    """

    def __init__(self, name: PulledName, precision: Precision, cache_dir: Path | None = None) -> None:
        self.name = name
        self.folder = (cache_dir or cache_folder()) / "hub" / name.repository.replace("/", "--")
        """Everything that is kept of the repository."""
        self._kind = f"{precision}-v{FORMAT_VERSION}"

    def path(self, commit: str) -> Path:
        """The bundle of a commit, whether it is there or not."""
        return self.folder / f"{commit}-{self._kind}.pt"

    def downloads(self, commit: str) -> Path:
        """The folder for the files of a commit while they are downloaded and imported."""
        return self.folder / "downloads" / commit

    def last(self) -> Path | None:
        """The bundle of the revision's commit, as far as it is known without asking the hub; None if there is none."""
        commit = self.name.revision if self.name.pinned else self._recorded()
        return self.path(commit) if commit is not None and self.path(commit).is_file() else None

    def record(self, commit: str) -> None:
        """Keep which commit the revision is, so that it can be served when the hub cannot be asked.

        Raises:
            OSError: The folder cannot be written.
        """
        if not self.name.pinned and self._recorded() != commit:
            self._record.write_text(commit, encoding="ascii")

    @property
    def _record(self) -> Path:
        return self.folder / f"{quote(self.name.revision, safe='')}-{self._kind}.commit"

    def _recorded(self) -> str | None:
        try:
            commit = self._record.read_text(encoding="ascii", errors="replace").strip()
        except OSError:
            return None
        return commit if is_commit(commit) else None
