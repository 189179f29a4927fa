"""JSON: strings that are values are translated; names, numbers and the layout of the file are kept."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import tee, zip_longest

from app.documents.formats.document_file import TextFile, Unit
from app.errors import DocumentRefused

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]:,]')
_MESSAGE_FORMAT = re.compile(r"\{\s*\w+\s*,\s*(?:plural|select|selectordinal)\s*,")
_NO_CHARACTER = re.compile("[\0\ud800-\udfff]")
"""NUL, and half of a surrogate pair, which JSON can write."""

_MAX_DEPTH = 200


class JsonStrings(TextFile):
    """A JSON file.

    Values under names that begin with ``@`` or ``$`` describe the file and not its content (as in .arb files and
    schemas), and texts with the branches of a message format (``{count, plural, ...}``) have their own syntax: both are
    kept.

    Args:
        data: The file.

    Raises:
        DocumentRefused: It is no JSON.
    """

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        try:
            json.loads(self.text, parse_int=str, parse_float=str)
        except (ValueError, RecursionError) as error:
            reason = "too many levels" if isinstance(error, RecursionError) else str(error)
            raise DocumentRefused(f"The file is no JSON: {reason}.") from None
        self._only_ascii = self.text.isascii() and "\\u" in self.text
        for start, end in self._values():
            text = json.loads(self.text[start:end])
            if not _MESSAGE_FORMAT.search(text) and not _NO_CHARACTER.search(text):
                self._add_value(start, end, text)

    def _add_value(self, start: int, end: int, text: str) -> None:
        self.add(Unit(text), lambda found: self.replace(start, end, json.dumps(found, ensure_ascii=self._only_ascii)))

    def _values(self) -> Iterator[tuple[int, int]]:
        """First character and the one after the last of each string that is a value."""
        hidden = [False]  # for each level that is open, whether its values describe the file
        is_hidden = False  # whether the present value does
        tokens, ahead = tee(_TOKEN.finditer(self.text))
        next(ahead, None)
        for token, following in zip_longest(tokens, ahead):
            sign = token[0]
            if sign in "{[":
                hidden.append(is_hidden)
                if len(hidden) > _MAX_DEPTH:
                    raise DocumentRefused(f"The file has more than {_MAX_DEPTH} levels of lists and objects.")
            elif sign in "}]":
                hidden.pop()
            elif sign == ",":
                is_hidden = hidden[-1]
            elif sign == ":":
                continue
            elif following is not None and following[0] == ":":
                is_hidden = hidden[-1] or sign.startswith(('"@', '"$'))
            elif not is_hidden:
                yield token.span()
