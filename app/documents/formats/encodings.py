"""How text files store characters: UTF-8, or UTF-16 with a byte order mark."""

from __future__ import annotations

import codecs
from dataclasses import dataclass

from app.errors import DocumentRefused

_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_BINARY = (b"PK\x03\x04", b"%PDF", b"\xd0\xcf\x11\xe0", b"\x1f\x8b", b"{\\rtf")


@dataclass(frozen=True)
class TextEncoding:
    """The encoding of a text file.

    Args:
        name: Python's name of it.
        mark: The byte order mark at the beginning, or nothing.
    """

    name: str
    mark: bytes

    def encode(self, text: str) -> bytes:
        """The bytes of a file with this text."""
        return self.mark + text.encode(self.name)


def decoded(data: bytes) -> tuple[str, TextEncoding]:
    """The characters of a text file, line ends as they are, and their encoding.

    Args:
        data: The file.

    Raises:
        DocumentRefused: It is no text, or in another encoding.
    """
    mark, name = next(((mark, name) for mark, name in _MARKS if data.startswith(mark)), (b"", "utf-8"))
    if data.startswith(_BINARY):
        raise DocumentRefused("The file is no text; its name has the wrong ending.")
    try:
        text = data[len(mark) :].decode(name)
    except UnicodeDecodeError as error:
        raise DocumentRefused(
            f"The file is not {name.upper()} at byte {error.start + len(mark)}; save it as UTF-8."
        ) from None
    position = text.find("\0")
    if position >= 0:
        raise DocumentRefused(f"The file is no text: it holds the NUL character at {position}.")
    return text, TextEncoding(name, mark)
