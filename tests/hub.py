"""A model hub on this machine: it speaks as much of the protocol of huggingface.co as huggingface_hub uses for models.

Large files redirect to another path with their SHA-256 and size in headers; others come directly, with the SHA-1 of
their git object as ETag.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

_LARGE = (".safetensors", ".bin", ".spm", ".model")


@dataclass(frozen=True)
class Asked:
    """A request: what huggingface_hub asked, and from which byte."""

    method: str
    path: str
    start: int = 0


@dataclass
class Repository:
    """A model's repository.

    Args:
        branches: The commit of each branch and tag.
        commits: The folder of each commit.
        locked: ``gated``: its files need ``token``; ``private``: without ``token`` it does not exist.
    """

    branches: dict[str, str] = field(default_factory=dict)
    commits: dict[str, Path] = field(default_factory=dict)
    locked: str = ""


class FakeHub:
    """The hub; its attributes say how it behaves."""

    def __init__(self) -> None:
        self.repositories: dict[str, Repository] = {}
        self.token = "hf_secret"
        self.asked: list[Asked] = []
        self.cuts: dict[str, list[int]] = {}
        """Bytes after which the connection is closed, by file, one number for each download of it."""
        self.damaged: set[str] = set()
        """Files whose content is not what their digest says."""
        self.status: int | None = None
        """Answer everything with this."""
        self.open = threading.Event()
        """Requests wait until it is set, as it is at first."""
        self.open.set()
        self.address = ""

    def add(self, name: str, folder: Path, *, branch: str = "main", locked: str = "") -> str:
        """Publish a folder as the newest commit of a branch; returns the commit."""
        repository = self.repositories.setdefault(name, Repository(locked=locked))
        commit = hashlib.sha1(f"{name} {len(repository.commits)}".encode()).hexdigest()
        repository.commits[commit] = folder
        repository.branches[branch] = commit
        return commit

    def downloads(self) -> list[str]:
        """Names of the files that were downloaded, in order."""
        return [
            request.path.rpartition("/")[2]
            for request in self.asked
            if request.method == "GET" and "/api/" not in request.path
        ]


@contextmanager
def running_hub() -> Iterator[FakeHub]:
    """A hub that listens while the context is open."""
    hub = FakeHub()
    handler = type("Handler", (_Handler,), {"hub": hub})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    hub.address = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    hub: FakeHub

    def do_GET(self) -> None:
        self._answer()

    def do_HEAD(self) -> None:
        self._answer()

    def log_message(self, format: str, *arguments: object) -> None:
        pass

    def _answer(self) -> None:
        path = unquote(urlsplit(self.path).path)
        start = re.match(r"bytes=(\d+)-", self.headers.get("Range") or "bytes=0-")
        assert start
        self.hub.asked.append(Asked(self.command, path, int(start[1])))
        self.hub.open.wait()
        if self.hub.status is not None:
            self._error(self.hub.status)
        elif api := re.fullmatch(r"/api/models/(.+?)/revision/(.+)", path):
            self._information(*api.groups())
        elif file := re.fullmatch(r"/(.+?)/resolve/([^/]+)/(.+)", path):
            self._file(*file.groups())
        elif large := re.fullmatch(r"/large/(.+)/([0-9a-f]{40})/([^/]+)", path):
            name, commit, file_name = large.groups()
            content = self.hub.repositories[name].commits[commit] / file_name
            self._content(content, _large_headers(commit, content), int(start[1]))
        else:
            self._error(404)

    def _repository(self, name: str) -> Repository | None:
        """The repository, if it may be seen; otherwise an answer is given."""
        repository = self.hub.repositories.get(name)
        if repository is None or (repository.locked == "private" and not self._has_token()):
            self._error(401, "RepoNotFound", "Invalid username or password.")
            return None
        return repository

    def _has_token(self) -> bool:
        return self.headers.get("Authorization") == f"Bearer {self.hub.token}"

    def _information(self, name: str, revision: str) -> None:
        repository = self._repository(name)
        if repository is None:
            return
        commit = repository.branches.get(revision, revision)
        if commit not in repository.commits:
            self._error(404, "RevisionNotFound", f"Invalid rev id: {revision}")
            return
        siblings = []
        for path in sorted(repository.commits[commit].iterdir()):
            content = path.read_bytes()
            entry = {"rfilename": path.name, "size": len(content), "blobId": _git_id(content)}
            if path.suffix in _LARGE:
                entry["lfs"] = {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content), "pointerSize": 134}
            siblings.append(entry)
        body = json.dumps({"id": name, "modelId": name, "sha": commit, "siblings": siblings}).encode()
        self._send(200, {"Content-Type": "application/json"}, body)

    def _file(self, name: str, commit: str, file: str) -> None:
        repository = self._repository(name)
        if repository is None:
            return
        if repository.locked == "gated" and not self._has_token():
            self._error(403, "GatedRepo", f"Access to model {name} is restricted.")
            return
        path = repository.commits[repository.branches.get(commit, commit)] / file
        if not path.is_file():
            self._error(404, "EntryNotFound", "Entry not found")
            return
        if path.suffix in _LARGE:
            location = f"{self.hub.address}/large/{name}/{commit}/{file}"
            self._send(302, {**_large_headers(commit, path), "Location": location}, b"")
        else:
            self._content(path, {"X-Repo-Commit": commit, "ETag": f'"{_git_id(path.read_bytes())}"'}, 0)

    def _content(self, path: Path, headers: dict[str, str], start: int) -> None:
        content = path.read_bytes()
        if path.name in self.hub.damaged:
            content = bytes(byte ^ 1 for byte in content)
        total = len(content)
        content = content[start:]
        if start:
            headers["Content-Range"] = f"bytes {start}-{total - 1}/{total}"
        cuts = self.hub.cuts.get(path.name)
        cut = cuts.pop(0) if cuts and self.command == "GET" else None
        self._send(206 if start else 200, headers, content, content[:cut])

    def _error(self, status: int, code: str = "", message: str = "") -> None:
        self._send(status, {"X-Error-Code": code, "X-Error-Message": message} if code else {}, b"")

    def _send(self, status: int, headers: dict[str, str], body: bytes, sent: bytes | None = None) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body if sent is None else sent)


def _large_headers(commit: str, path: Path) -> dict[str, str]:
    content = path.read_bytes()
    sha256 = hashlib.sha256(content).hexdigest()
    return {"X-Repo-Commit": commit, "X-Linked-Etag": f'"{sha256}"', "X-Linked-Size": str(len(content))}


def _git_id(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
