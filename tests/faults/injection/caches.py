"""What can be made again: the compiled decoder, and models that were pulled."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import re
import urllib.request
from collections.abc import Sequence
from email.message import Message
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import filelock  # noqa: F401  (imported before the first fork)

from model.artifacts.pulled import PulledBundles, PulledName
from model.decoding.native import compiler
from model.decoding.native.compiler import Unavailable, build_library, library_name
from model.errors import ArtifactError
from model.importing import importer
from model.importing.firefox import Firefox
from model.importing.pull import Hubs, Puller
from model.process.files import write_file
from tests.faults.injection.scenario import History, Scenario, Trial, check_names, refused_as

LIBRARY = b"the machine code of a library " * 1000
NAME_OF_LIBRARY = library_name()
ADDRESS = "https://registry"
NAME = PulledName.parse("firefox:en-de")


def compile_library(path: Path, flags: Sequence[str]) -> Path:
    """In the place of the compiler: writes a file in pieces."""
    with path.open("wb", buffering=0) as file:
        for begin in range(0, len(LIBRARY), 10_000):
            file.write(LIBRARY[begin : begin + 10_000])
    return path


class CompiledDecoder(Scenario):
    """The compiled decoder is built into the cache folder, and found there."""

    name = "decoder"
    store = "cache: the compiled decoder"

    def prepare(self, scratch: Path) -> None:
        """Let it be built into the cache folder, without a compiler."""
        vars(compiler)["compile_library"] = compile_library
        vars(compiler)["FOLDER"] = scratch / "absent"
        vars(compiler)["library_name"] = lambda: NAME_OF_LIBRARY

    def seed(self, folder: Path) -> None:
        """The cache is empty."""
        os.environ["XDG_CACHE_HOME"] = str(folder / "cache")

    def run(self, folder: Path, trial: Trial) -> None:
        """Build it twice."""
        for step in ("first", "second"):
            trial.attempt(step, lambda: str(refused_as((Unavailable,), build_library)))
        trial.heal()
        trial.attempt("third", lambda: str(refused_as((Unavailable,), build_library)))

    def check(self, folder: Path, history: History) -> None:
        """What is in the cache is whole, or it is built again, and the next build leaves nothing else."""
        path = build_library()
        assert path.read_bytes() == LIBRARY, "half a library would be loaded"
        path.unlink()  # as after an upgrade
        assert build_library().read_bytes() == LIBRARY
        check_names(folder / "cache" / "verso", {NAME_OF_LIBRARY})


class Response(io.BytesIO):
    """The answer of a registry.

    Args:
        content: Its body.
        start: The first byte of it that is sent.
    """

    def __init__(self, content: bytes, start: int) -> None:
        super().__init__(content[start:])
        self.status = 206 if start else 200
        self.length = len(content) - start
        self.headers = {"Content-Range": f"bytes {start}-{len(content) - 1}/{len(content)}"} if start else {}


class Opener:
    """In the place of a network: a registry with one model.

    Args:
        version: Decides its weights.
    """

    def __init__(self, version: str) -> None:
        weights = f"weights of version {version} ".encode() * 40_000  # several pieces
        self.digest = hashlib.sha256(weights).hexdigest()
        model = {"path": "model.gz", "uncompressedSize": len(weights), "uncompressedHash": self.digest}
        entry = {
            "architecture": "tiny",
            "releaseStatus": "Release",
            "sourceLanguage": "en",
            "targetLanguage": "de",
            "files": {"model": model, "vocab": {"path": "vocab.gz"}},
        }
        self._files = {
            "db/models.json": json.dumps({"models": {"en-de": [entry]}}).encode(),
            "model.gz": gzip.compress(weights, 0, mtime=0),
            "vocab.gz": gzip.compress(b"a vocabulary", mtime=0),
        }

    def open(self, request: urllib.request.Request, timeout: float) -> Response:
        """Answer a request."""
        match = re.match(r"bytes=(\d+)-", request.get_header("Range") or "")
        start, content = int(match[1]) if match else 0, self._files[request.full_url.removeprefix(f"{ADDRESS}/")]
        if start >= len(content):
            headers = Message()
            headers["Content-Range"] = f"bytes */{len(content)}"
            raise HTTPError(request.full_url, 416, "", headers, None)
        return Response(content, start)


def import_checkpoint(folder: Path, out: Path, *arguments: Any, **fields: Any) -> None:
    """In the place of the import: the bundle is made of the digest of its weights."""
    write_file(out, bundle_of(b"".join(path.read_bytes() for path in sorted(folder.glob("*.bin")))))


def bundle_of(content: bytes) -> bytes:
    """The bundle of a model."""
    return hashlib.sha256(content).hexdigest().encode() * 100


class PulledModels(Scenario):
    """A model is pulled by name, and again when the registry has another version."""

    name = "pulled"
    store = "cache: pulled models"

    def prepare(self, scratch: Path) -> None:
        """Let the import need no model, and make both versions of the registry."""
        vars(importer)["import_checkpoint"] = import_checkpoint
        self._openers = {version: Opener(version) for version in ("1", "2")}
        self._cache = scratch / "folder" / "cache"
        self._bundles: dict[str, bytes] = {}
        for version in self._openers:
            self._bundles[version] = self._pull(version, scratch / "other")

    def _pull(self, version: str, cache: Path) -> bytes:
        hub = Firefox(_ignore, ADDRESS)
        vars(hub)["_opener"] = self._openers[version]
        hubs = Hubs(_ignore)
        vars(hubs)["firefox"] = hub
        return Puller(NAME, "float32", cache, hubs=hubs, report=_ignore).to_cache().read_bytes()

    def seed(self, folder: Path) -> None:
        """The cache is empty."""

    def run(self, folder: Path, trial: Trial) -> None:
        """Pull the model."""

        def attempt(step: str, version: str) -> None:
            def pull() -> None:
                assert self._pull(version, folder / "cache") == self._bundles[version]

            trial.attempt(step, lambda: refused_as((ArtifactError, OSError), pull))

        attempt("1", "1")
        attempt("1 again", "1")
        attempt("2", "2")
        trial.heal()
        attempt("2 again", "2")

    def check(self, folder: Path, history: History) -> None:
        """What was pulled is served without a network; what was not is pulled now, whole."""
        cache = folder / "cache"
        last = PulledBundles(NAME, "float32", cache).last()
        if last is not None:
            assert last.read_bytes() in self._bundles.values(), "half a bundle would be served"
        assert last is not None or "1" not in history.accepted, "the model cannot be served without a network"
        for version, bundle in self._bundles.items():
            assert self._pull(version, cache) == bundle
        names = {PulledBundles(NAME, "float32", cache).path(opener.digest).name for opener in self._openers.values()}
        records = {path.name for path in (cache / "firefox" / "en-de").glob("*.commit")}
        assert len(records) == 1
        check_names(cache / "firefox" / "en-de", {*names, *records, ".lock", "downloads"})
        check_names(cache / "firefox" / "en-de" / "downloads", ())


def _ignore(line: str) -> None:
    """Report nothing."""
