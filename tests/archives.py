"""Malformed archives."""

from __future__ import annotations

import struct

_END = b"PK\x05\x06"


def of_two_disks(archive: bytes) -> bytes:
    """A zip archive whose end says that it spans two disks, for which ``zipfile`` has errors of its own."""
    end = archive.rindex(_END)
    locator = struct.pack("<4sLQL", b"PK\x06\x07", 0, 0, 2)
    return archive[:end] + locator + archive[end:]
