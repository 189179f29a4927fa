"""Catalogues in XML with one language: strings of Android and .NET, and plural forms of Apple's systems."""

from __future__ import annotations

import re
from functools import lru_cache

from app.documents.formats.catalogues.escapes import Escapes
from app.documents.formats.catalogues.xml_catalogue import Element, XmlCatalogue
from app.documents.formats.inline import shown_text

_ANDROID = Escapes({"n": "\n", "t": "\t"}, "\\\"'\n\t")
_WRAPPED = re.compile(r"(?<!\s)\s*\n\s*")
_QUOTATION_MARK = re.compile(r'(?<!\\)"')
_QUOTED = re.compile(r'"[^"<>]*+"')


class AndroidStrings(XmlCatalogue):
    """The strings, arrays of strings and plurals of an Android application (``strings.xml``).

    Args:
        data: The file.

    Raises:
        DocumentRefused: It is another XML.
    """

    root_name = "resources"
    not_read = "XML, but no strings of Android"

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        for element in self.root.all("string", "item"):
            is_string = element.name == "string" or (
                element.parent and element.parent.name in ("string-array", "plurals")
            )
            if is_string and self.inherited(element, "translatable") != "false":
                self.add_element(self.inherited(element, "name"), element)

    def shown(self, element: Element) -> str | None:
        """What stands for an element: ``xliff:g`` is not translated, all others are formatting."""
        return (shown_text(self.nodes(element)) or element.name) if element.name == "g" else None

    def read_text(self, text: str, original: str, is_preserved: bool) -> str:
        """The characters that a text with backslashes stands for. In quotation marks whitespace is kept."""
        text = text[1:-1] if _is_quoted(original) else _QUOTATION_MARK.sub("", _WRAPPED.sub(" ", text))
        return _ANDROID.read(text)

    def write_text(self, text: str, original: str) -> str:
        """A text with backslashes, and in quotation marks if its original is."""
        if _is_quoted(original):
            return f'"{_ANDROID.write(text)}"'.replace("\\'", "'" if "\\'" not in original else "\\'")
        written = _ANDROID.write(text)
        if original.startswith("\\u0020") and written.startswith(" "):
            written = "\\u0020" + written[1:]
        if original.endswith("\\u0020") and written.endswith(" "):
            written = written[:-1] + "\\u0020"
        return ("\\" if text.startswith(("@", "?")) and not original.startswith(text[0]) else "") + written


@lru_cache(maxsize=1)  # for all texts of a string
def _is_quoted(original: str) -> bool:
    return bool(_QUOTED.fullmatch(original))


class Resources(XmlCatalogue):
    """The strings of a .NET application (``.resx``, ``.resw``).

    Args:
        data: The file.

    Raises:
        DocumentRefused: It is another XML.
    """

    root_name = "root"
    not_read = "no resources of .NET"

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        for entry in self.root.children:
            attributes = self.attributes(entry)
            name = attributes.get("name", "")
            is_text = (
                entry.name == "data" and not attributes.keys() & {"type", "mimetype"} and not name.startswith(">>")
            )
            if is_text and (value := entry.first("value")):
                self.add_element(name, value)


class StringsDict(XmlCatalogue):
    """The plural forms of an application for Apple's systems (``.stringsdict``).

    Args:
        data: The file.

    Raises:
        DocumentRefused: It is another XML.
    """

    root_name = "plist"
    not_read = "no list of properties in XML"

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        for dictionary in self.root.all("dict"):
            for key, value in zip(dictionary.children[::2], dictionary.children[1::2], strict=False):
                name = self.raw(key)
                if value.name == "string" and name in _TEXTS:
                    self.add_element(name, value)


_TEXTS = frozenset({"NSStringLocalizedFormatKey", "zero", "one", "two", "few", "many", "other"})
