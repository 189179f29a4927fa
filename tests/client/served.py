"""An application behind a real socket, in a thread of the tests."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import uvicorn
from fastapi import FastAPI


@contextmanager
def served(app: FastAPI, lifespan: Literal["on", "off"] = "on") -> Iterator[str]:
    """Serve an application; gives its address.

    Args:
        app: The application.
        lifespan: Whether it is started and stopped, which loads and unloads its models.
    """
    config = uvicorn.Config(app, http="h11", ws="none", lifespan=lifespan, log_config=None, timeout_graceful_shutdown=5)
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listener:  # listens at once: an early client waits
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()
