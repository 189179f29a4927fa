"""JSON: strings that are values are translated; names, numbers and the layout of the file are kept."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import tee, zip_longest

from app.documents.formats.catalogues.catalogue import CatalogueFile
from app.documents.formats.languages import is_language_code, names_same_language
from app.errors import DocumentRefused

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*+"|[{}\[\]:,]|[^\s"{}\[\]:,]++')
_NO_CHARACTER = re.compile("[\0\ud800-\udfff]")
"""NUL, and half of a surrogate pair, which JSON can write."""

MAX_DEPTH = 200


@dataclass(eq=False, slots=True)
class JsonValue:
    """A value by its position in the file.

    Args:
        start: Its first character.
        end: The character after its last.
        members: The values in an object by their names; the strings, objects and lists in a list by their numbers.
    """

    start: int
    end: int
    members: dict[str, JsonValue]


_NO_MEMBERS: dict[str, JsonValue] = {}
"""Of strings and other values without members."""


class JsonFile(CatalogueFile):
    """A file in JSON.

    Args:
        data: The file.

    Raises:
        DocumentRefused: It is not valid JSON.
    """

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        try:
            json.loads(self.text, parse_int=str, parse_float=str)
        except (ValueError, RecursionError) as error:
            reason = "too many levels" if isinstance(error, RecursionError) else str(error)
            raise DocumentRefused(f"The file is no JSON: {reason}.") from None
        self._only_ascii = self.text.isascii() and "\\u" in self.text
        self.root = self._tree()

    def string(self, value: JsonValue | None) -> str:
        """The text of a value; empty if it is no string."""
        if value is None or self.text[value.start] != '"':
            return ""
        text: str = json.loads(self.text[value.start : value.end])
        return text

    def quoted(self, text: str, escapes_slashes: bool = False) -> str:
        """A text as a string of the file."""
        written = json.dumps(text, ensure_ascii=self._only_ascii)
        return written.replace("/", "\\/") if escapes_slashes else written

    def add_string(self, key: str, value: JsonValue) -> None:
        """Add a string as a message that its translation replaces."""
        text = self.string(value)
        if text and not _NO_CHARACTER.search(text):
            write = partial(self.quoted, escapes_slashes="\\/" in self.text[value.start : value.end])
            self.add_value(key, value.start, value.end, text, write)

    def _tree(self) -> JsonValue:
        """The values of the file, which is valid JSON.

        Raises:
            DocumentRefused: There are too many levels.
        """
        around: list[JsonValue] = [JsonValue(0, 0, {})]
        name: str | None = None
        tokens, ahead = tee(_TOKEN.finditer(self.text))
        next(ahead, None)
        for token, following in zip_longest(tokens, ahead):
            sign = token[0]
            if sign in "}]":
                around.pop().end = token.end()
            elif following is not None and following[0] == ":":
                name = json.loads(sign)
            elif sign not in ":," and (name is not None or sign[0] in '"{['):
                value = JsonValue(token.start(), token.end(), {} if sign in "{[" else _NO_MEMBERS)
                around[-1].members[str(len(around[-1].members)) if name is None else name] = value
                name = None
                if sign in "{[":
                    around.append(value)
            if len(around) > MAX_DEPTH:
                raise DocumentRefused(f"The file has more than {MAX_DEPTH} levels of lists and objects.")
        return around[0].members.get("0", JsonValue(0, 0, {}))


class JsonStrings(JsonFile):
    """Strings of a program in JSON, or any other file in JSON.

    Values under names that begin with ``@`` or ``$`` describe the file and not its content, as in .arb files.
    Of the messages of a browser extension (``{"name": {"message": "..."}}``) only the messages are translated.

    Args:
        data: The file.

    Raises:
        DocumentRefused: It is not valid JSON.
    """

    has_choices = True

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        entries = self.root.members.values()
        is_of_extension = bool(entries) and all(self.string(entry.members.get("message")) for entry in entries)
        for key, value in self._values("", self.root):
            if not is_of_extension or (key.endswith(".message") and key.count(".") == 1):
                self.add_string(key, value)

    def _values(self, key: str, value: JsonValue) -> Iterator[tuple[str, JsonValue]]:
        """The strings in a value, with the names that lead to them."""
        if self.text[value.start] == '"':
            yield key, value
        for name, member in value.members.items():
            if not name.startswith(("@", "$")):
                yield from self._values(f"{key}.{name}" if key else name, member)

    def to_bytes(self, target: str) -> bytes:
        """The file; an Application Resource Bundle names its language."""
        locale = self.root.members.get("@@locale")
        language = self.string(locale)
        if locale and self.is_changed and is_language_code(language) and not names_same_language(language, target):
            self.replace(locale.start, locale.end, self.quoted(target.replace("-", "_")))
        return super().to_bytes(target)
