"""Fixtures for the tests of the routes."""

from __future__ import annotations

import pytest

from tests.app.serving import RoteService


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def service() -> RoteService:
    """A service with predefined answers."""
    return RoteService()
