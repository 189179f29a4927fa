"""The models of Firefox Translations: the registry, and files that are checked against the digests in it.

Files are compressed with gzip. Their requests go to the registry's own host only, and nothing is inflated to more bytes
than the registry states, or than a vocabulary may have.
"""

from __future__ import annotations

import gzip
import http.client
import urllib.error
import urllib.request
import zlib
from collections.abc import Callable, Sequence
from http.client import HTTPMessage
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

from model.artifacts.pulled import PulledName
from model.errors import ArtifactError
from model.importing.firefox_registry import Registry
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
from model.process.downloads import UNAVAILABLE, USER_AGENT, TooLarge, receive, size_of
from model.process.files import atomic_write

PUBLIC_REGISTRY = "https://storage.googleapis.com/moz-fx-translations-data--303e-prod-translations-data"

LICENCE = "MPL-2.0"
"""The licence of Mozilla's repositories of models; the registry states none for each model."""

_INDEX = "db/models.json"
_MAX_INDEX_BYTES = 32_000_000
_MAX_VOCABULARY_BYTES = 32_000_000
# Accept-Encoding: a file that is stored compressed is sent as it is stored.
_HEADERS = {"User-Agent": USER_AGENT, "Accept-Encoding": "gzip"}
_GZIP = b"\x1f\x8b"
_PIECE_BYTES = 2**18


class Firefox:
    """The registry of Firefox's models, or a mirror of it.

    Args:
        report: Called with each line of progress.
        address: The address of a mirror, whose paths are those of the original; Mozilla's by default.

    Raises:
        ArtifactError: The address is not one.
    """

    def __init__(self, report: Callable[[str], None], address: str | None = None) -> None:
        self.address = (address or PUBLIC_REGISTRY).rstrip("/")
        parts = urlsplit(self.address)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ArtifactError(f"{self.address!r} is not the address of a registry; it begins with https://.")
        self._report = report
        self._opener = urllib.request.build_opener(_SameHost)
        self._registry: Registry | ArtifactError | None = None

    @property
    def registry(self) -> Registry:
        """The registry, which is requested once, so that a lack of network is waited for once.

        Raises:
            HubUnreachable: It cannot be reached.
            ArtifactError: There is none at the address.
        """
        if self._registry is None:
            try:
                self._registry = self._request_registry()
            except ArtifactError as error:
                self._registry = error
        if isinstance(self._registry, ArtifactError):
            raise self._registry
        return self._registry

    def _request_registry(self) -> Registry:
        url = f"{self.address}/{_INDEX}"
        try:
            with self._opener.open(urllib.request.Request(url, headers=_HEADERS), timeout=TIMEOUT_S) as response:
                content = _inflated(response, url)
        except (OSError, http.client.HTTPException, zlib.error) as error:
            raise self._translated(error, url) from error
        return Registry(content, self.address)

    def names(self, group: PulledName) -> list[PulledName]:
        """The models of a group.

        Raises:
            HubUnreachable: The registry cannot be reached.
            ArtifactError: There is none at the address.
        """
        names = (group.of_group(pair) for pair in self.registry.pairs(group.revision))
        return [name for name in names if name is not None]

    def resolve(self, name: PulledName) -> Snapshot:
        """See :meth:`model.importing.hub.Hub.resolve`."""
        published = self.registry.find(name.repository, name.revision)
        return Snapshot(
            published.version,
            {file.name: file for file in (published.weights, *published.vocabularies)},
            f"firefox-{published.pair}-{published.architecture}",
            f"Firefox Translations, Mozilla: {self.address}/{published.weights.path}",
            LICENCE,
            published.directions,
        )

    def needed_files(self, snapshot: Snapshot) -> tuple[list[HubFile], list[HubFile]]:
        """See :meth:`model.importing.hub.Hub.needed_files`. The list of probable words that it also has is not used."""
        files = snapshot.files.values()
        return [file for file in files if file.sha256 is None], [file for file in files if file.sha256 is not None]

    def check(self, folder: Path) -> None:
        """Nothing to check: the weights say themselves of which family they are."""

    def download(self, name: PulledName, version: str, files: Sequence[HubFile], folder: Path) -> None:
        """See :meth:`model.importing.hub.Hub.download`."""
        for file in files:
            path = folder / file.name
            if path.is_file():  # it was checked before it got its name
                continue
            if file.size > REPORTED_BYTES:
                self._report(f"downloading {file.name}, {file.size / 1e6:.0f} MB")
            has_part = size_of(_partial(path)) > 0
            try:
                self._download_file(name, file, path)
            except ArtifactError as error:
                if not has_part or isinstance(error, HubUnreachable):
                    raise
                # A power cut may have damaged what was there.
                self._report(f"{error} It is downloaded from its beginning.")
                self._download_file(name, file, path)

    def _download_file(self, name: PulledName, file: HubFile, path: Path) -> None:
        """Download a file, or the rest of it, decompress it and check it.

        Raises:
            HubUnreachable: The registry cannot be reached, or the connection was lost without progress.
            ArtifactError: It is damaged, larger than it may be, or cannot be written; nothing of it is kept.
        """
        partial, max_bytes = _partial(path), file.size or _MAX_VOCABULARY_BYTES
        self._download(name, f"{self.address}/{file.path}", partial, max_bytes)
        try:
            with atomic_write(path) as unfinished:
                _inflate(partial, unfinished, file, max_bytes)
                check_file(unfinished, file)
        except OSError as error:
            raise disk_error(error, name) or error from error
        finally:
            partial.unlink(missing_ok=True)

    def _download(self, name: PulledName, url: str, partial: Path, max_bytes: int) -> None:
        """Download a compressed file, or the rest of it; retry as long as each attempt receives something."""
        while True:
            before = size_of(partial)
            try:
                self._receive(name, url, partial, max_bytes)
                break
            except HubUnreachable as error:
                if size_of(partial) <= before:
                    raise HubUnreachable(
                        f"{error}; what was downloaded of {name} is kept, and the next attempt continues there"
                    ) from error
            self._report(f"the connection was lost; {partial.stem} continues where it ended")

    def _receive(self, name: PulledName, url: str, partial: Path, max_bytes: int) -> None:
        """Receive a file from the byte where an earlier attempt ended.

        Raises:
            HubUnreachable: The connection was lost.
            ArtifactError: The file is not there, or larger than it may be, or the disk is full.
        """
        limit = max_bytes + max_bytes // 100 + 1000  # gzip adds little to what it cannot compress
        try:
            receive(self._opener, url, partial, limit, TIMEOUT_S, headers=_HEADERS)
        except TooLarge as error:
            raise ArtifactError(f"{url} has more than the {limit} bytes that it may have.") from error
        except urllib.error.HTTPError as error:
            raise self._translated(error, url) from error
        except (OSError, http.client.HTTPException) as error:
            raise disk_error(error, name) or self._translated(error, url) from error

    def _translated(self, error: Exception, url: str) -> ArtifactError:
        """An error of a request, as one line."""
        if isinstance(error, urllib.error.HTTPError):
            error.close()
            if 300 <= error.code < 400:
                return ArtifactError(f"{url} redirects to another kind of address, which is not followed.")
            if error.code in UNAVAILABLE:
                return ArtifactError(f"{url} is not there, or may not be read (status {error.code}).")
            if 400 <= error.code < 500 and error.code not in (408, 416, 429):
                return ArtifactError(f"{url} is refused with status {error.code}.")
            return HubUnreachable(f"{self.address} cannot be reached (it answered with status {error.code})")
        return HubUnreachable(f"{self.address} cannot be reached ({innermost_reason(error)})")


def _partial(path: Path) -> Path:
    """The file for the compressed content of another one, as far as it has been received."""
    return path.with_name(f"{path.name}.gz.incomplete")


class _SameHost(urllib.request.HTTPRedirectHandler):
    """Follows redirects within a host only: a registry cannot send requests into a private network."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> urllib.request.Request | None:
        old, new = urlsplit(req.full_url), urlsplit(newurl)
        if (old.scheme, old.netloc) != (new.scheme, new.netloc):
            fp.close()
            raise ArtifactError(
                f"{req.full_url} redirects to another host, {new.scheme}://{new.netloc}, which is not followed."
            )
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _inflated(response: http.client.HTTPResponse, url: str) -> bytes:
    """The content of the index, which may be sent compressed.

    Raises:
        ArtifactError: It is larger than it may be.
    """
    content = response.read(_MAX_INDEX_BYTES + 1)
    if content[:2] == _GZIP:
        inflater = zlib.decompressobj(16 + zlib.MAX_WBITS)
        content = inflater.decompress(content, _MAX_INDEX_BYTES + 1)
    if len(content) > _MAX_INDEX_BYTES:
        raise ArtifactError(f"{url} has more than the {_MAX_INDEX_BYTES} bytes that a registry may have.")
    return content


def _inflate(compressed: Path, out: Path, file: HubFile, max_bytes: int) -> None:
    """Decompress a file, up to a number of bytes.

    Raises:
        ArtifactError: It is damaged, or larger or smaller than the registry states.
    """
    num_bytes = 0
    try:
        with gzip.open(compressed) as source, out.open("wb") as target:
            while piece := source.read(_PIECE_BYTES):
                num_bytes += len(piece)
                if num_bytes > max_bytes:
                    raise ArtifactError(f"{file.name} inflates to more than the {max_bytes} bytes that it may have.")
                target.write(piece)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ArtifactError(f"{file.name} was damaged during the download ({error}); try again.") from error
    if file.size and num_bytes != file.size:
        raise ArtifactError(f"{file.name} has {num_bytes} bytes, and the registry states {file.size}.")
