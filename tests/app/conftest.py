"""What the tests of the routes share."""

from __future__ import annotations

import pytest

from tests.app.serving import RoteService


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def service() -> RoteService:
    """A service that answers by rote."""
    return RoteService()
