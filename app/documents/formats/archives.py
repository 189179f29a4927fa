"""Documents that are zip archives (.docx, .odt and others): read with bounds, written with some parts replaced."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping

from app.errors import DocumentRefused

MAX_ENTRIES = 10_000
MAX_BYTES = 100_000_000
"""Bytes by which an archive may grow when it is unpacked."""

MAX_RATIO = 200
"""How many times its own size an archive may have unpacked, beyond the first megabytes."""

_FREE_BYTES = 10_000_000
_MACROS = ("vbaproject.bin", "vbadata.xml", "basic/", "scripts/")
"""How the names of parts with macros begin or end."""

_MACRO_CONTENT = ("_VBA_PROJECT".encode("utf-16-le"), b"http://openoffice.org/2000/script")
"""What such a part holds, whatever it is called: a stream of VBA's projects, the namespace of LibreOffice's modules."""

MACROS_REFUSED = "The document has macros; save it without them."


class Archive:
    """A zip archive in memory. Nothing is unpacked into files, and the names of its parts are only keys.

    Args:
        data: The file.

    Raises:
        DocumentRefused: It is no zip archive, is damaged or encrypted, has macros, or is too large unpacked.
    """

    def __init__(self, data: bytes) -> None:
        try:
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                self._entries = archive.infolist()
                self._check(len(data))
                # A part is never read beyond its declared size.
                self._parts = {entry.filename: archive.read(entry) for entry in self._entries}
            if any(sign in part for part in self._parts.values() for sign in _MACRO_CONTENT):
                raise DocumentRefused(MACROS_REFUSED)
        except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, ValueError, OSError) as error:
            raise DocumentRefused(f"The file is damaged, or is no document of this kind: {error}.") from None
        except Exception as error:  # zlib.error and its relatives are no common class
            if type(error).__module__ not in ("zlib", "_lzma", "lzma"):
                raise
            raise DocumentRefused(f"The file is damaged: {error}.") from None

    def _check(self, num_bytes: int) -> None:
        names = [entry.filename for entry in self._entries]
        if len(names) > MAX_ENTRIES:
            raise DocumentRefused(f"The archive has {len(names)} parts; at most {MAX_ENTRIES} are allowed.")
        if len(set(names)) < len(names):
            raise DocumentRefused("The archive has two parts of the same name.")
        unpacked = sum(entry.file_size for entry in self._entries)
        if unpacked > min(num_bytes + MAX_BYTES, max(_FREE_BYTES, MAX_RATIO * num_bytes)):
            raise DocumentRefused(
                f"The archive has {num_bytes} bytes and {unpacked} when it is unpacked; at most {MAX_BYTES} more and "
                f"{MAX_RATIO} times its size are allowed."
            )
        for entry in self._entries:
            name = entry.filename
            if name.startswith(("/", "\\")) or ".." in name.replace("\\", "/").split("/") or ":" in name[:2]:
                raise DocumentRefused("The archive has a part whose name leads out of it.")
            if entry.flag_bits & 0x1:
                raise DocumentRefused("The document is encrypted; save it without a password.")
            if any(name.lower().endswith(macro) or name.lower().startswith(macro) for macro in _MACROS):
                raise DocumentRefused(MACROS_REFUSED)

    def __contains__(self, name: str) -> bool:
        return name in self._parts

    def __getitem__(self, name: str) -> bytes:
        return self._parts[name]

    @property
    def names(self) -> list[str]:
        """The names of its parts, in their order."""
        return list(self._parts)

    def require(self, name: str, holding: bytes = b"") -> None:
        """Refuse an archive without a part, or in which that part does not hold some bytes.

        Args:
            name: The part.
            holding: The bytes.

        Raises:
            DocumentRefused: It is missing.
        """
        if name not in self._parts or holding not in self._parts[name]:
            raise DocumentRefused(f"The file is no document of this kind: its part {name} is missing or another.")

    def with_parts(self, changed: Mapping[str, bytes]) -> bytes:
        """The archive with some parts replaced, in the same order.

        Args:
            changed: The new content of those parts.
        """
        written = io.BytesIO()
        with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as archive:
            for entry in self._entries:
                archive.writestr(_like(entry), changed.get(entry.filename, self._parts[entry.filename]))
        return written.getvalue()


def _like(entry: zipfile.ZipInfo) -> zipfile.ZipInfo:
    """The description of an entry, without what belongs to its bytes in the old archive."""
    copy = zipfile.ZipInfo(entry.filename, entry.date_time)
    is_stored = entry.compress_type == zipfile.ZIP_STORED
    copy.compress_type = zipfile.ZIP_STORED if is_stored else zipfile.ZIP_DEFLATED
    copy.external_attr = entry.external_attr
    copy.create_system = entry.create_system
    return copy
