"""Downloads that continue at the byte where an earlier attempt ended."""

from __future__ import annotations

import http.client
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from http.client import HTTPMessage
from pathlib import Path

USER_AGENT = "verso-translate"

UNAVAILABLE = frozenset({401, 403, 404, 410})
"""Statuses of what is not there, or may not be read."""

_PIECE_BYTES = 2**18


class TooLarge(Exception):
    """More was received than the limit; nothing of it is kept."""


class ConnectionEnded(http.client.HTTPException):
    """The connection was closed before all that was announced had come."""

    def __init__(self) -> None:
        super().__init__("the connection was closed")


def _ignore(received: int, expected: int | None) -> None:
    """Show no progress."""


def receive(
    opener: urllib.request.OpenerDirector,
    url: str,
    partial: Path,
    limit: int,
    timeout_s: float,
    *,
    headers: Mapping[str, str] | None = None,
    progress: Callable[[int, int | None], None] = _ignore,
) -> None:
    """Receive a file, or the rest of it. What has come stays in the file if this fails.

    Args:
        opener: Opens the request; it decides which redirects are followed.
        url: The address.
        partial: The file with what an earlier attempt received, if there is one.
        limit: The most bytes that it may have.
        timeout_s: Seconds without a byte after which the connection is given up.
        headers: Further headers.
        progress: Called with the bytes received so far and those expected, or None if that is not stated.

    Raises:
        TooLarge: It has more bytes.
        urllib.error.HTTPError: The server refuses it.
        OSError: The server is not reached, or the disk is full.
        http.client.HTTPException: The connection was lost.
    """
    start = size_of(partial)
    own = {"User-Agent": USER_AGENT, **(headers or {})} | ({"Range": f"bytes={start}-"} if start else {})
    try:
        with opener.open(urllib.request.Request(url, headers=own), timeout=timeout_s) as response:
            continues = response.status == 206 and _first_byte(response.headers) == start
            received = start if continues else 0
            length = response.length  # None if it is not stated
            expected = None if length is None else received + length
            with partial.open("ab" if continues else "wb") as file:
                while piece := response.read(_PIECE_BYTES):
                    received += len(piece)
                    if received > limit:
                        partial.unlink()
                        raise TooLarge
                    file.write(piece)
                    progress(received, expected)
    except urllib.error.HTTPError as error:
        if error.code != 416 or not start:
            raise
        error.close()
        if error.headers.get("Content-Range") == f"bytes */{start}":
            return  # all of it had come
        partial.unlink()  # of another file than the one that was begun
        receive(opener, url, partial, limit, timeout_s, headers=headers, progress=progress)
        return
    if expected is not None and received < expected:
        raise ConnectionEnded


def size_of(path: Path) -> int:
    """The bytes of a file; 0 if there is none."""
    return path.stat().st_size if path.is_file() else 0


def _first_byte(headers: HTTPMessage) -> int | None:
    """The first byte of a partial answer."""
    begin = (headers.get("Content-Range") or "").removeprefix("bytes ").partition("-")[0]
    return int(begin) if begin.isascii() and begin.isdigit() and len(begin) < 20 else None
