"""Brings archives to a folder on this machine (the cache): downloads, checks and unpacks them.

Of a repository of which the table names single files, only these are downloaded. A download that breaks off continues
where it ended, if the server allows it. An archive that is put into the folder under its name (``NAME.tar.gz``) is used
instead of a download, so that a machine without network can build too.
"""

from __future__ import annotations

import hashlib
import http.client
import io
import lzma
import os
import shutil
import tarfile
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO

from tqdm import tqdm

from model.errors import DataError
from model.process.downloads import UNAVAILABLE, TooLarge, receive, size_of
from model.process.files import file_digest
from scripts.data.table import Archive

_TIMEOUT_S = 60
_ATTEMPTS = 5
"""How often a download is continued; one that received something does not count."""

_MAX_FILES = 200_000
Member = tuple[str, int, Callable[[], bytes]]
"""A file of an archive: its name, its size in bytes, and a function that reads it."""

_AR_MAGIC = b"!<arch>\n"
_AR_HEADER_BYTES = 60


class Cache:
    """The folder of downloaded and unpacked archives.

    Args:
        folder: Made if needed.
        offline: Whether to refuse downloads.
        mirrors: Addresses by the beginning of the addresses that they replace.
    """

    def __init__(self, folder: Path, *, offline: bool = False, mirrors: Mapping[str, str] | None = None) -> None:
        self._folder = folder
        self._offline = offline
        self._mirrors = mirrors or {}

    def unpacked(self, archive: Archive) -> Path:
        """The folder with the files of an archive, which is downloaded and unpacked unless it was before.

        Raises:
            DataError: It cannot be had, is not what was pinned, or is too large.
        """
        # Other patterns are another selection of the same archive.
        spec = hashlib.sha256(
            repr((archive.address, archive.inner, archive.files, archive.max_file_mb)).encode()
        ).hexdigest()[:12]
        folder = self._folder / "unpacked" / f"{archive.name}-{spec}"
        for name, address in archive.single_files.items():
            if not (folder / name).is_file():
                self._download(archive, address, folder / name)
        if not folder.is_dir():
            file = self._folder / f"{archive.name}{archive.form}"
            if not file.is_file():
                self._download(archive, archive.address, file)
            _check(archive, file)
            part = folder.with_name(f"{folder.name}.part")
            shutil.rmtree(part, ignore_errors=True)
            part.mkdir(parents=True)
            _unpack(archive, file, part)
            part.rename(folder)
        return folder

    def _download(self, archive: Archive, address: str, file: Path) -> None:
        if self._offline:
            raise DataError(f"{archive.name} is not in the cache. Download {address} and save it as {file}.")
        for begin, mirror in self._mirrors.items():
            if address.startswith(begin):
                address = mirror + address.removeprefix(begin)
        file.parent.mkdir(parents=True, exist_ok=True)
        unfinished = file.with_name(f"{file.name}.incomplete")
        failures = 0
        while True:
            before = size_of(unfinished)
            try:
                _receive(archive, address, unfinished)
                break
            except (OSError, http.client.HTTPException) as error:
                if isinstance(error, urllib.error.HTTPError) and error.code in UNAVAILABLE:
                    raise DataError(f"{address} is not there, or may not be read (status {error.code}).") from error
                failures += size_of(unfinished) <= before
                if failures >= _ATTEMPTS:
                    raise DataError(f"{address} cannot be downloaded ({error}); the next attempt continues.") from error
        os.replace(unfinished, file)


class _Secure(urllib.request.HTTPRedirectHandler):
    """Refuses redirects from https to another protocol."""

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        if req.full_url.startswith("https:") and not newurl.startswith("https:"):
            raise DataError(f"{req.full_url} redirects to {newurl}, which is not followed.")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


_OPENER = urllib.request.build_opener(_Secure)


def _receive(archive: Archive, address: str, unfinished: Path) -> None:
    """Receive an archive, or the rest of it."""
    with tqdm(desc=archive.name, initial=size_of(unfinished), unit="B", unit_scale=True, disable=None) as bar:

        def show(received: int, expected: int | None) -> None:
            bar.total = expected
            bar.update(received - bar.n)

        try:
            receive(_OPENER, address, unfinished, archive.max_mb << 20, _TIMEOUT_S, progress=show)
        except TooLarge as error:
            raise DataError(f"{address} has more than the {archive.max_mb} MB that it may have (max_mb).") from error


def _check(archive: Archive, file: Path) -> None:
    """Compare the digest, or, for a repository, the commit that its archive states."""
    if archive.sha256 and (digest := file_digest(file)) != archive.sha256:
        raise DataError(f"{file} has the digest {digest}, not {archive.sha256}: delete it, or correct the pin.")
    if archive.github:
        with _translated(file), tarfile.open(file) as members:
            commit = members.pax_headers.get("comment")
        if commit != archive.commit:
            raise DataError(f"{file} is of the commit {commit}, not {archive.commit}: delete it, or correct the pin.")


@contextmanager
def _translated(file: Path) -> Iterator[None]:
    try:
        yield
    except (tarfile.TarError, zipfile.BadZipFile, lzma.LZMAError, zlib.error, EOFError, ValueError) as error:
        raise DataError(f"{file} is damaged ({error}): delete it, and it is downloaded again.") from error


def _unpack(archive: Archive, file: Path, folder: Path) -> None:
    """Write the chosen files of an archive.

    Raises:
        DataError: It is damaged, or has too many or too large files, or none of the chosen ones.
    """
    if not archive.form:
        shutil.copyfile(file, folder / PurePosixPath(archive.address).name)
        return
    left, num_files = archive.max_mb << 20, 0
    # The folder that the archive of a repository or an npm package has around everything.
    outer = 1 if archive.github or archive.form == ".tgz" else 0
    with _translated(file):
        for name, size, read in _members(archive, file):
            parts = PurePosixPath(name.removeprefix("./")).parts[outer:]
            path = "/".join(parts)
            if not parts or parts[0] == "/" or ".." in parts or not _chosen(path, archive.files):
                continue
            if archive.max_file_mb is not None and size >= archive.max_file_mb << 20:
                continue
            left, num_files = left - size, num_files + 1
            if left < 0 or num_files > _MAX_FILES:
                raise DataError(f"{file} has more than {archive.max_mb} MB (max_mb) or {_MAX_FILES:,} chosen files.")
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(read())
    if not num_files:
        raise DataError(f"{file} has none of the files {', '.join(archive.files)}.")


def _chosen(path: str, patterns: tuple[str, ...]) -> bool:
    """Whether a path matches a pattern, and none that leaves it out."""
    if any(fnmatchcase(path, pattern[1:]) for pattern in patterns if pattern.startswith("!")):
        return False
    return any(fnmatchcase(path, pattern) for pattern in patterns if not pattern.startswith("!"))


def _members(archive: Archive, file: Path) -> Iterator[Member]:
    """The regular files of an archive, or of the ZIP file in it."""
    if archive.form in (".zip", ".whl"):
        yield from _zip_members(file)
        return
    with file.open("rb") as stream:
        source = _data_of_deb(stream) if archive.form == ".deb" else stream
        with tarfile.open(fileobj=source, mode="r|*") as members:
            for member in members:
                content = members.extractfile(member) if member.isfile() else None
                if content and archive.inner and member.size <= archive.max_mb << 20:
                    if fnmatchcase(member.name, archive.inner):
                        yield from _zip_members(io.BytesIO(content.read()))
                elif content:
                    yield member.name, member.size, content.read


def _zip_members(file: Path | IO[bytes]) -> Iterator[Member]:
    with zipfile.ZipFile(file) as entries:
        for info in entries.infolist():
            if not info.is_dir():
                yield info.filename, info.file_size, partial(entries.read, info)


def _data_of_deb(stream: IO[bytes]) -> IO[bytes]:
    """The tar file with the files of a Debian package, which is an ``ar`` archive.

    Raises:
        ValueError: It is none.
    """
    if stream.read(len(_AR_MAGIC)) != _AR_MAGIC:
        raise ValueError("no Debian package")
    while len(header := stream.read(_AR_HEADER_BYTES)) == _AR_HEADER_BYTES:
        size = int(header[48:58])
        if header.startswith(b"data.tar"):
            return io.BytesIO(stream.read(size))
        stream.seek(size + size % 2, os.SEEK_CUR)
    raise ValueError("no data in the Debian package")
