"""Fixtures for the tests of keys."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI

from tests.app.accounts.keyed import keyed_app, make_file
from tests.app.serving import RoteService, client_of


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file of keys."""
    return make_file(tmp_path / "keys.sqlite")


@pytest.fixture
def app(service: RoteService, path: Path) -> Iterator[FastAPI]:
    """An application whose callers need keys."""
    with keyed_app(service, keys_db=path) as app:
        yield app


@pytest.fixture
async def client(app: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    """A client of it."""
    async with client_of(app) as client:
        yield client
