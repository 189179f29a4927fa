"""Catalogues of Laravel: PHP that returns an array of strings. It is never run, and other code is refused."""

from __future__ import annotations

import re

from app.documents.formats.catalogues.catalogue import CatalogueFile
from app.documents.formats.catalogues.escapes import Escapes
from app.errors import DocumentRefused

_TOKEN = re.compile(
    r"""
      \s++ | //[^\r\n]*+ | \#(?!\[)[^\r\n]*+ | /\*(?:(?!\*/).)*+\*/
    | (?P<string>'(?:[^'\\]|\\.)*+' | "(?:[^"\\]|\\.)*+")
    | (?P<sign>\[ | array\s*+\( | \] | \) | => | , | ; | return\b)
    | <\?php\b | \?> | declare\s*+\(\s*+strict_types\s*+=\s*+1\s*+\)
    | (?:true|false|null)\b | -?\d[\d._]*+ | [\w\\]++::(?:class\b|\w++)
    """,
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)
_VARIABLE = re.compile(r"(?<!\\)(?:\\\\)*+(?:\$[A-Za-z_{]|\{\$)")
_SINGLE = re.compile(r"\\(['\\])")
_DOUBLE = Escapes({"n": "\n", "t": "\t", "r": "\r", "v": "\v", "f": "\f", "e": "\033"}, '"\\$\n\t\r')


class PhpArray(CatalogueFile):
    """A file of PHP that returns an array of strings.

    Args:
        data: The file.

    Raises:
        DocumentRefused: It has other code.
    """

    has_choices = True

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        position = depth = 0
        key = ""
        string: re.Match[str] | None = None
        while token := _TOKEN.match(self.text, position):
            position = token.end()
            if token["string"]:
                string = token
            elif sign := token["sign"]:
                if sign == "=>":
                    key, string = (string["string"] if string else ""), None
                elif string is not None and depth:
                    self._add_string(key, string)
                    string = None
                depth += (sign == "[" or sign.endswith("(")) - (sign in "])")
        if position < len(self.text) or depth or not self.text.lstrip().startswith("<?php"):
            rest = self.text[position : position + 40]
            raise DocumentRefused(f"The file is no array of strings in PHP: {rest!r} is other code.")

    def _add_string(self, key: str, string: re.Match[str]) -> None:
        text = string["string"][1:-1]
        start, end = string.start() + 1, string.end() - 1
        if string["string"].startswith("'"):
            text = _SINGLE.sub(r"\1", text)
            self.add_value(key, start, end, text, lambda new: new.replace("\\", "\\\\").replace("'", "\\'"))
        elif not _VARIABLE.search(text):
            self.add_value(key, start, end, _DOUBLE.read(text), _DOUBLE.write)
