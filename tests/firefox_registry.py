"""A registry of Firefox's models on this machine: an index and compressed files, as Mozilla's bucket has them."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class FakeRegistry:
    """The registry; its attributes say how it behaves.

    Args:
        models: The models of each pair.
        files: The compressed files by path.
        requests: Each request: its path, and from which byte.
        cuts: Bytes after which the connection is closed, by the end of a path, one number for each download.
        redirects: Where paths redirect to.
        status: Answer everything with this.
        address: Where it listens.
    """

    models: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)
    requests: list[tuple[str, int]] = field(default_factory=list)
    cuts: dict[str, list[int]] = field(default_factory=dict)
    redirects: dict[str, str] = field(default_factory=dict)
    status: int | None = None
    address: str = ""

    def add(
        self,
        source: str,
        target: str,
        architecture: str = "tiny",
        *,
        weights: bytes = b"",
        status: str | None = "Release",
        split: bool = False,
        vocabulary: bytes = b"a vocabulary",
    ) -> dict[str, Any]:
        """Publish a model; returns its entry."""
        weights = weights or f"the weights of {source}-{target} {architecture} ".encode() * 100
        names = {"srcVocab": "srcvocab", "trgVocab": "trgvocab"} if split else {"vocab": "vocab"}
        folder, suffix = f"models/{source}-{target}/{architecture}_run/exported", f"{source}{target}"
        files: dict[str, Any] = {
            "model": {
                "path": f"{folder}/model.{suffix}.intgemm.alphas.bin.gz",
                "uncompressedSize": len(weights),
                "uncompressedHash": hashlib.sha256(weights).hexdigest(),
            },
            "lexicalShortlist": {"path": f"{folder}/lex.50.50.{suffix}.s2t.bin.gz"},
            **{name: {"path": f"{folder}/{stem}.{suffix}.spm.gz"} for name, stem in names.items()},
        }
        entry = {
            "architecture": architecture,
            "releaseStatus": status,
            "sourceLanguage": source,
            "targetLanguage": target,
            "files": files,
            "metrics": {"flores200-plus": {"bleu": 38.8, "comet22": 0.857}},
        }
        self.files[files["model"]["path"]] = gzip.compress(weights, 1, mtime=0)
        for name in names:
            self.files[files[name]["path"]] = gzip.compress(vocabulary, 1, mtime=0)
        self.models.setdefault(f"{source}-{target}", []).append(entry)
        return entry

    def downloads(self) -> list[str]:
        """Names of the files that were requested, in order."""
        return [path.rpartition("/")[2] for path, _ in self.requests if "/db/" not in path]


@contextmanager
def running_registry() -> Iterator[FakeRegistry]:
    """A registry that listens while the context is open."""
    registry = FakeRegistry()
    handler = type("Handler", (_Handler,), {"registry": registry})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    registry.address = f"http://127.0.0.1:{server.server_address[1]}/mirror"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield registry
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    registry: FakeRegistry

    def log_message(self, format: str, *arguments: object) -> None:
        pass

    def do_GET(self) -> None:
        registry = self.registry
        start = int((re.match(r"bytes=(\d+)-", self.headers.get("Range") or "") or ["", "0"])[1])
        registry.requests.append((self.path, start))
        path = self.path.removeprefix("/mirror/")
        if registry.status is not None:
            self._send(registry.status, b"")
        elif path in registry.redirects:
            self._send(302, b"", {"Location": registry.redirects[path]})
        elif path == "db/models.json":
            index = {"generated": "", "baseUrl": "http://192.0.2.1/elsewhere", "models": registry.models}
            self._send(200, json.dumps(index).encode())
        elif path in registry.files:
            content = registry.files[path]
            headers = {"Content-Range": f"bytes {start}-{len(content) - 1}/{len(content)}"} if start else {}
            cuts = next((cuts for end, cuts in registry.cuts.items() if path.endswith(end)), [])
            self._send(206 if start else 200, content[start:], headers, cuts.pop(0) if cuts else None)
        else:
            self._send(404, b"")

    def _send(self, status: int, body: bytes, headers: dict[str, str] | None = None, cut: int | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[:cut])
