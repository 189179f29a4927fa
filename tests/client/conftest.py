"""Fixtures for the tests of the client."""

from __future__ import annotations

import pytest

from tests.client.driving import Driver, Flavour


@pytest.fixture(params=["sync", "async"])
def driver(request: pytest.FixtureRequest) -> Driver:
    """Each test runs with both clients."""
    flavour: Flavour = request.param
    return Driver(flavour)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
