"""A process of a benchmark that only reads its environment; its file imports little, as the process imports it too."""

from __future__ import annotations

import os
from multiprocessing.connection import Connection
from typing import Any


def send_variable(connection: Connection[Any, Any], name: str) -> None:
    """Main function: send the value of a variable.

    Args:
        connection: Connection to the benchmark.
        name: Name of the variable.
    """
    connection.recv()
    connection.send([os.environ.get(name)])
