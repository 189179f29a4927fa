"""The command ``mcp``: tools for an AI assistant on this machine, over its standard input and output."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from app.errors import SettingsError
from app.settings import load_settings
from app.telemetry.logs import configure_logging
from model.errors import DataError

if TYPE_CHECKING:
    import httpx

EPILOG = """\
for example:
  verso mcp --server http://localhost:8000 --key-file verso.key

Assistants start the command themselves. Most do after lines like these in their configuration:
  {"mcpServers": {"verso": {"command": "verso", "args": ["mcp", "--server", "http://localhost:8000"]}}}

Without --server the models run in this process, with the settings that 'verso serve' reads. Assistants on other
machines use the address http://SERVER:8000/mcp of a service with VERSO_MCP=on.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command."""
    parser.description = (
        "Give an AI assistant tools that translate texts and documents, detect languages and look up terms "
        "(Model Context Protocol, over standard input and output)."
    )
    parser.add_argument("--server", metavar="URL", help="address of a running service; default: translate here")
    parser.add_argument("--key-file", type=Path, metavar="FILE", help="file with a key of the service, if it needs one")


def run(arguments: argparse.Namespace) -> int:
    """Answer an assistant until it closes the standard input."""
    try:
        key = None if arguments.key_file is None else arguments.key_file.read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        raise DataError(f"--key-file {arguments.key_file} cannot be read: {error}") from error
    try:
        asyncio.run(_answer(arguments.server, key))
    except ImportError as error:
        return _failed(f"the extra mcp is needed ({error.name} is missing): pip install 'verso-translate[mcp]'")
    except (SettingsError, ValueError) as error:  # the latter if the address is no URL
        return _failed(str(error))
    return 0


async def _answer(server: str | None, key: str | None) -> None:
    # Imported here: --help answers without the protocol's packages.
    import httpx

    from app.assistants.caller import ServiceCaller
    from app.assistants.tools import tool_server

    connection: AbstractAsyncContextManager[httpx.AsyncClient]
    if server is None:
        connection = _service_here()
    else:
        url = httpx.URL(server)
        if url.scheme not in ("http", "https") or not url.host:
            raise ValueError(f"--server is {server!r}; it must be like http://localhost:8000")
        connection = httpx.AsyncClient(base_url=url, timeout=httpx.Timeout(60.0, connect=5.0))
    async with connection as http:
        await tool_server(lambda ctx: ServiceCaller(http, key), on_this_machine=True).run_stdio_async()


@asynccontextmanager
async def _service_here() -> AsyncIterator[httpx.AsyncClient]:
    """A service in this process, and a client that calls it.

    Raises:
        SettingsError: A setting is wrong.
    """
    import httpx

    from app.main import create_app

    settings = load_settings(os.environ)
    configure_logging(settings.log_level)
    app = create_app(settings)
    async with app.router.lifespan_context(app):
        await app.state.service.wait_loaded()
        if app.state.service.failure is not None:
            raise SettingsError(str(app.state.service.failure))
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost", timeout=None) as http:
            yield http


def _failed(reason: str) -> int:
    print(f"error: {reason}", file=sys.stderr)
    return 1
