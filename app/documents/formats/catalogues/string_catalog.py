"""String catalogs of Xcode (``.xcstrings``): a localization for the target language is added to each string."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from app.documents.formats.catalogues.catalogue import Message
from app.documents.formats.catalogues.json_strings import JsonFile, JsonValue
from app.documents.formats.document_file import Unit
from app.documents.formats.languages import names_same_language
from app.errors import DocumentRefused


class StringCatalog(JsonFile):
    """A string catalog. Strings that have a translation into the target language, which is not new, keep it.

    Args:
        data: The file.

    Raises:
        DocumentRefused: It is another file.
    """

    is_bilingual = True

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        strings = self.root.members.get("strings")
        if strings is None:
            raise DocumentRefused("The file is no string catalog: it has no strings.")
        self._source = self.string(self.root.members.get("sourceLanguage"))
        self._localizations: dict[str, Any] = {}
        for key, entry in strings.members.items():
            translates = entry.members.get("shouldTranslate")
            if key and (translates is None or self.text[translates.start] != "f"):
                self._add_entry(key, entry)
        self._strings = strings.members

    def _add_entry(self, key: str, entry: JsonValue) -> None:
        localizations = entry.members.get("localizations")
        source = localizations.members.get(self._source) if localizations else None
        localization: Any = {"stringUnit": {"state": "new", "value": key}}
        if source is not None:
            localization = json.loads(self.text[source.start : source.end])
        units = list(_string_units(localization))

        def write(translations: Sequence[str]) -> None:
            for unit, translation in zip(units, translations, strict=True):
                unit |= {"state": "translated", "value": translation}
            self._localizations[key] = localization

        self.add_message(Message(key, [Unit(unit["value"]) for unit in units], write))

    def to_bytes(self, target: str) -> bytes:
        """The file with a localization for the target language."""
        for key, localization in self._localizations.items():
            entry = self._strings[key]
            localizations = entry.members.get("localizations")
            if localizations is None:
                self._insert(entry, "localizations", {target: localization})
                continue
            code = next((code for code in localizations.members if names_same_language(code, target)), target)
            existing = localizations.members.get(code)
            if existing is None:
                self._insert(localizations, code, localization)
            elif any(unit.get("state") == "new" for unit in _string_units(json.loads(self._raw(existing)))):
                self.replace(existing.start, existing.end, self._written(localization, self._indentation(existing)))
        return super().to_bytes(target)

    def _raw(self, value: JsonValue) -> str:
        return self.text[value.start : value.end]

    def _indentation(self, value: JsonValue) -> str:
        """The whitespace at the beginning of the line on which a value starts."""
        line = self.text[self.text.rfind("\n", 0, value.start) + 1 : value.start]
        return line[: len(line) - len(line.lstrip())]

    def _written(self, value: Any, indentation: str) -> str:
        """A value in the layout of Xcode."""
        written = json.dumps(value, ensure_ascii=False, indent=2, separators=(",", " : "))
        return written.replace("\n", self.line_end + indentation)

    def _insert(self, around: JsonValue, name: str, value: Any) -> None:
        """Add a member to an object, in the order of names."""
        indentation = self._indentation(around) + "  "
        member = f"{json.dumps(name, ensure_ascii=False)} : {self._written(value, indentation)}"
        if not around.members:
            lines = ["{", f"{indentation}{member}", indentation[:-2] + "}"]
            self.replace(around.start, around.end, self.line_end.join(lines))
            return
        before = [other for other in around.members if other < name]
        if before:
            end = around.members[before[-1]].end
            self.replace(end, end, f",{self.line_end}{indentation}{member}")
        else:
            start = self.text.index('"', around.start)
            self.replace(start, start, f"{member},{self.line_end}{indentation}")


def _string_units(localization: Any) -> Iterator[dict[str, Any]]:
    """The string units of a localization, of all its variations."""
    if isinstance(localization, dict):
        for name, value in localization.items():
            if name == "stringUnit" and isinstance(value, dict) and isinstance(value.get("value"), str):
                yield value
            else:
                yield from _string_units(value)
