"""Messages between the service and its programs: pickles of plain values, each behind its length."""

from __future__ import annotations

import io
import pickle
from typing import IO, Any

SIZE_BYTES = 8
"""Bytes of the length before a message, little-endian."""


class _PlainUnpickler(pickle.Unpickler):
    """Reads values without classes, so that loading them runs no code."""

    def find_class(self, module: str, name: str) -> Any:
        """Refuse a class.

        Raises:
            UnpicklingError: Always.
        """
        raise pickle.UnpicklingError(f"{module}.{name} is no plain value")


def write_message(stream: IO[bytes], message: object) -> None:
    """Send plain values.

    Args:
        stream: A pipe.
        message: The values: strings, bytes, numbers, None, and tuples, lists and dictionaries of them.
    """
    data = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    stream.write(len(data).to_bytes(SIZE_BYTES, "little"))
    stream.write(data)
    stream.flush()


def read_message(stream: IO[bytes]) -> Any:
    """Plain values that were sent.

    Args:
        stream: A pipe.

    Raises:
        EOFError: The pipe has ended.
        UnpicklingError: They hold other values than plain ones.
    """
    data = _read_bytes(stream, int.from_bytes(_read_bytes(stream, SIZE_BYTES), "little"))
    return _PlainUnpickler(io.BytesIO(data)).load()


def _read_bytes(stream: IO[bytes], size: int) -> bytes:
    data = stream.read(size)
    if len(data) < size:
        raise EOFError
    return data
