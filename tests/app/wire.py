"""An application behind a real socket, and requests as clients write them: byte for byte."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import uvicorn
from fastapi import FastAPI

from app.http.connections import bounded_protocol
from app.main import create_app
from app.settings import Settings
from tests.app.fakes import BUDGET, FakeBundles, FakeTranslator, manifest_of

PATIENCE_S = 60.0


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@asynccontextmanager
async def listening(app: FastAPI) -> AsyncIterator[int]:
    """The application on a port of this machine, served as ``python -m app`` does, without its signal handlers."""
    protocol = bounded_protocol(PATIENCE_S, bound=1000)
    config = uvicorn.Config(app, port=0, http=protocol, ws="none", lifespan="on", log_config=None, access_log=False)
    server = _Server(config)
    serving = asyncio.create_task(server.serve())
    try:
        async with asyncio.timeout(PATIENCE_S):
            while not server.started:
                await asyncio.sleep(0.01)
            yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = True
        await serving


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Any:
        yield


def fake_app(*pairs: str, **settings: Any) -> FastAPI:
    """The whole application with a translator into upper case, of English and German by default."""
    manifest = manifest_of("fake", *(pairs or ("en-de", "de-en")))
    return create_app(Settings(**{**BUDGET, **settings}), FakeBundles(FakeTranslator(manifest=manifest)))


async def exchange(port: int, *requests: bytes) -> list[Answer]:
    """Send requests over one connection, each after the answer to the one before."""
    async with asyncio.timeout(PATIENCE_S):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            results = []
            for request in requests:
                writer.write(request)
                await writer.drain()
                results.append(await _answer(reader))
            return results
        finally:
            writer.close()
            await writer.wait_closed()


async def _answer(reader: asyncio.StreamReader) -> Answer:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.removesuffix("\r\n\r\n").split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    return Answer(int(first.split(" ")[1]), headers, body)


def request(method: str, target: str, *headers: str, body: bytes = b"") -> bytes:
    """A request of HTTP/1.1, with the headers as they are written and then the length of the body."""
    lines = [f"{method} {target} HTTP/1.1", *headers]
    if body or method == "POST":
        lines.append(f"Content-Length: {len(body)}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode() + body
