"""Catalogues of keys and values as text: ``.strings`` of Apple's systems and ``.properties`` of Java."""

from __future__ import annotations

import re

from app.documents.formats.catalogues.catalogue import CatalogueFile
from app.documents.formats.catalogues.escapes import Escapes
from app.errors import DocumentRefused

_STRING = r'"(?:[^"\\]|\\.)*+"'
_ENTRY = re.compile(
    rf"\s*+(?:/\*(?:(?!\*/).)*+\*/|//[^\r\n]*+|(?P<key>{_STRING}|[\w.$:/-]++)\s*+(?:=\s*+(?P<value>{_STRING})\s*+)?;)",
    re.DOTALL,
)
_APPLE = Escapes({"n": "\n", "t": "\t", "r": "\r"}, '"\\\r')
_LINE_END = r"(?:\r\n|[\s\S])"
_PROPERTY = re.compile(
    rf"^[ \t\f]*+(?:[#!][^\r\n]*+|(?P<key>(?:[^\s:=\\]|\\{_LINE_END})++)[ \t\f]*+[:=]?[ \t\f]*+"
    rf"(?P<value>(?:[^\\\r\n]|\\{_LINE_END})*+))",
    re.MULTILINE,
)
_CONTINUATION = re.compile(r"(?<!\\)((?:\\\\)*+)\\\r?\n[ \t\f]*+")
_JAVA = Escapes({"n": "\n", "t": "\t", "r": "\r", "f": "\f"}, "\\\n\t\r\f")


class AppleStrings(CatalogueFile):
    """The strings of an application for Apple's systems (``"key" = "value";``).

    Args:
        data: The file.

    Raises:
        DocumentRefused: It is another file.
    """

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        position = 0
        while entry := _ENTRY.match(self.text, position):
            position = entry.end()
            if entry["value"] is not None:
                start, end = entry.start("value") + 1, entry.end("value") - 1
                letters = "" if "\n" in self.text[start:end] else "\n"
                escapes = Escapes(_APPLE.letters, _APPLE.escaped + letters)
                self.add_value(entry["key"], start, end, escapes.read(self.text[start:end]), escapes.write)
        rest = self.text[position:].strip()
        if rest:
            raise DocumentRefused(f"The file is no table of strings: {rest[:40]!r} is no entry.")


class Properties(CatalogueFile):
    """The properties of a program in Java.

    Characters beyond ASCII are written by their numbers, which all versions of Java read, unless the file has some.

    Args:
        data: The file.

    Raises:
        DocumentRefused: It is no text.
    """

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        only_ascii = self.text.isascii() or not self.encoding.name.startswith("utf")

        def write(text: str) -> str:
            written = _JAVA.write(text, only_ascii)
            return "\\" + written if written.startswith(" ") else written

        for entry in _PROPERTY.finditer(self.text):
            if value := entry["value"]:
                text = _JAVA.read(_CONTINUATION.sub(r"\1", value))
                self.add_value(entry["key"], *entry.span("value"), text, write)
