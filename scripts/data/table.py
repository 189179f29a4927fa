"""Reads ``sources.yaml``: which archives there are, what is taken out of them, and under which licence."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, Self
from urllib.parse import quote

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from model.errors import ConfigError
from scripts.data import catalogues, corpora, documents, novels
from scripts.shipped.command import LANGUAGES

TABLE = Path(__file__).with_name("sources.yaml")

EXTRACTORS: Mapping[str, Callable[..., Iterable[Any]]] = {
    function.__name__: function
    for function in (
        catalogues.android, catalogues.firefox, catalogues.fluent, catalogues.javascript_strings, catalogues.mo,
        catalogues.po_of_game, catalogues.po_of_program, catalogues.sibling_strings, catalogues.strings,
        catalogues.strings_with_languages, corpora.aligned, corpora.aligned_in_tar,
        corpora.articles, corpora.bible, corpora.chat, corpora.column, corpora.conllu, corpora.dialogues, corpora.lines,
        corpora.manythings, corpora.manythings_sources, corpora.storybooks, corpora.xquad, documents.freebsd_manual,
        documents.gnome_help, documents.html_book, documents.markdown, documents.markdown_by_name,
        documents.markdown_with_code, documents.office_help, documents.php_manual, documents.sibling_pages,
        novels.novels,
    )
}  # fmt: skip
"""The extractors that a set may name. Their arguments are paths in archives, ``DATA/`` and the path of a file of an
earlier set, numbers, and names of files."""

_DEBIAN = "https://snapshot.debian.org/archive/debian/20261101T000000Z/pool/{0}"
_GITHUB = "https://codeload.github.com/{0}/tar.gz/{1}"
_GITHUB_FILE = "https://raw.githubusercontent.com/{0}/{1}/{2}"
_FORMS = (".tar.gz", ".tgz", ".tar.xz", ".deb", ".zip", ".whl")
_DIGEST = r"[0-9a-f]{64}"


class _Entry(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Archive(_Entry):
    """Files that are published together."""

    name: str = Field(pattern=r"[a-z0-9][a-z0-9.-]*")
    github: str | None = None
    """Owner and name of a repository."""
    commit: str | None = Field(default=None, pattern=r"[0-9a-f]{40}")
    """The commit of a repository, whose archive states it."""
    debian: str | None = None
    """A package of Debian, by its path in the pool."""
    url: str | None = None
    """The address of any other archive."""
    sha256: str | None = Field(default=None, pattern=_DIGEST)
    """Its digest. The archive of a commit has none: GitHub may compress it differently tomorrow."""
    inner: str | None = None
    """Pattern of a ZIP file in the archive; the files are taken out of that one."""
    files: tuple[str, ...] = Field(default=("*",), min_length=1)
    """Patterns of the files that are taken; * matches slashes too. A pattern after ! leaves out."""
    max_file_mb: int | None = None
    """Files of this size and more are left out, as in the text that the shipped weights were trained on."""
    max_mb: int = Field(default=100, ge=1)
    """Neither the archive nor its unpacked files may be larger."""

    @model_validator(mode="after")
    def _is_pinned(self) -> Self:
        if sum(source is not None for source in (self.github, self.debian, self.url)) != 1:
            raise ValueError("an archive has one of github, debian and url")
        if self.github and not self.commit:
            raise ValueError("a repository needs its commit")
        if self.debian and not self.sha256:
            raise ValueError("a package needs its digest")
        return self

    @property
    def address(self) -> str:
        """Where it is downloaded from."""
        if self.github:
            return _GITHUB.format(self.github, self.commit)
        return self.url or _DEBIAN.format(self.debian)

    @property
    def single_files(self) -> dict[str, str]:
        """The addresses of the files by path, if they are in a repository and named without patterns."""
        if not self.github or any(character in name for name in self.files for character in "*?[!"):
            return {}
        return {name: _GITHUB_FILE.format(self.github, self.commit, quote(name)) for name in self.files}

    @property
    def form(self) -> str:
        """The ending of its file; empty if it is no archive but the file itself."""
        return ".tar.gz" if self.github else next((form for form in _FORMS if self.address.endswith(form)), "")

    @property
    def pin(self) -> str:
        """The version, for reports."""
        return f"{self.github} @ {self.commit}" if self.github else self.address


class TextSet(_Entry):
    """A set of pairs, or of sentences of one language."""

    name: str = Field(pattern=r"[a-zA-Z0-9][\w.-]*")
    folder: Literal["train", "eval", "mono"]
    licence: str
    """An SPDX expression."""
    attribution: str
    extract: tuple[dict[str, tuple[str | int, ...]], ...]
    """Extractors and their arguments."""
    min_words: int | None = None
    """The smallest number of English words; without it, sentences are taken as they are."""
    whole: bool = True
    """Whether paragraphs whose sentences do not pair off stay whole."""
    min_words_of_phrases: int = 0
    """The smallest number of English words of pairs that do not end as sentences do."""
    held_back: bool = False
    """Whether pairs with a side in an evaluation set are left out, where sentences are taken as they are."""
    without: str | None = None
    """A set whose pairs are left out."""
    count: int
    sha256: str = Field(pattern=_DIGEST)
    """Number and digest of its sorted lines in the text that the shipped weights were trained on."""
    rebuilt: str | None = Field(default=None, pattern=_DIGEST)
    """The digest of what this table gives, where it is not exactly that text."""
    note: str | None = None
    """How much it differs, and why."""

    @model_validator(mode="after")
    def _names_extractors(self) -> Self:
        if self.folder == "mono" and self.language is None:
            raise ValueError("the name of a set of mono ends in .en or .de")
        if unknown := {name for call in self.extract for name in call} - EXTRACTORS.keys():
            raise ValueError(f"no extractor is called {', '.join(sorted(unknown))}")
        return self

    @property
    def language(self) -> str | None:
        """The language of a set of ``mono``, which is the end of its name."""
        ending = self.name.rpartition(".")[2]
        return ending if self.folder == "mono" and ending in LANGUAGES else None

    @property
    def files(self) -> tuple[str, ...]:
        """Its files, within the folder of the corpora."""
        base = f"{self.folder}/{self.name}"
        return (f"{base}.xz",) if self.language else tuple(f"{base}.{language}.xz" for language in LANGUAGES)

    def archives(self, names: Iterable[str]) -> set[str]:
        """Those of the named archives that it needs."""
        arguments = [str(value) for call in self.extract for values in call.values() for value in values]
        return {name for name in names if any(argument.split("/")[0] == name for argument in arguments)}


class Table(_Entry):
    """All of ``sources.yaml``."""

    archives: tuple[Archive, ...]
    evaluation: tuple[str, ...]
    """Files of archives; no sentence of them may be in a training set."""
    sets: tuple[TextSet, ...]
    absent: dict[str, str]
    """Sets that are not built, with the reason."""

    @model_validator(mode="after")
    def _names_are_unique(self) -> Self:
        for names in ([archive.name for archive in self.archives], [f"{item.files}" for item in self.sets]):
            if repeated := {name for name in names if names.count(name) > 1}:
                raise ValueError(f"named twice: {', '.join(sorted(repeated))}")
        return self


def load(path: Path = TABLE) -> Table:
    """Read the table.

    Raises:
        ConfigError: It cannot be read, or describes something impossible.
    """
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
        for part in ("archives", "sets"):
            content[part] = [{"name": name, **entry} for name, entry in content[part].items()]
        return Table.model_validate(content)
    except (OSError, yaml.YAMLError, ValidationError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(f"{path} is no table of sources: {error}") from error
