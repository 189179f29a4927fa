"""An application with keys, without a socket."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
from fastapi import FastAPI

from app.accounts.keys import Scope
from app.accounts.store import KeyStore
from app.accounts.usage import Usage, UsageStore
from app.main import create_app
from app.settings import Settings
from tests.app.fakes import BUDGET, FakeBundles, FakeTranslator
from tests.app.serving import RoteService, client_of, rote_app

NOW = 1_000_000_000.0
ALL: tuple[Scope, ...] = ("translate", "attention", "documents")

MakeKey = Callable[..., str]


def make_key(path: Path, *scopes: Scope, **limits: Any) -> str:
    """A new key; one for everything but administration unless scopes are named."""
    with contextlib.closing(KeyStore(path)) as store:
        return store.create("test", scopes or ALL, NOW, **limits)[1].text


def usage(path: Path) -> list[Usage]:
    with contextlib.closing(UsageStore(path)) as store:
        return store.all()


def used(path: Path) -> tuple[int, int]:
    """Characters and requests of all keys."""
    result = usage(path)
    return sum(item.characters for item in result), sum(item.requests for item in result)


def bearer(token: str, **headers: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}", **{name.replace("_", "-"): value for name, value in headers.items()}}


def make_file(path: Path) -> Path:
    """A file of keys without a key; returns its path."""
    KeyStore(path).close()
    return path


@contextlib.contextmanager
def keyed_app(service: RoteService, **settings: Any) -> Iterator[FastAPI]:
    """The application of a rote service; what it has opened is closed at the end."""
    app = rote_app(service, **settings)
    try:
        yield app
    finally:
        if app.state.accounts is not None:
            app.state.accounts.close()
        app.state.glossaries.close()
        app.state.term_searches.close()


@contextlib.asynccontextmanager
async def serving(**settings: Any) -> AsyncIterator[httpx.AsyncClient]:
    """A client of an application with its own services around a fake translator."""
    app = create_app(Settings(**{**BUDGET, **settings}), FakeBundles(FakeTranslator()))
    async with app.router.lifespan_context(app), client_of(app) as client:
        await app.state.service.wait_loaded()
        yield client


def client_at(app: FastAPI, address: str) -> httpx.AsyncClient:
    """A client at an address."""
    transport = httpx.ASGITransport(app, raise_app_exceptions=False, client=(address, 50_000))
    return httpx.AsyncClient(transport=transport, base_url="http://localhost")
