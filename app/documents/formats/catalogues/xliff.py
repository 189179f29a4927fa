"""XLIFF 1.2 and 2.x: the targets of units and segments are filled."""

from __future__ import annotations

import re
from collections.abc import Sequence

from app.documents.formats.catalogues.catalogue import Message, State
from app.documents.formats.catalogues.xml_catalogue import Element, XmlCatalogue
from app.documents.formats.inline import shown_text
from app.errors import DocumentRefused
from app.serving.detection import has_letters

_PLACEHOLDERS = frozenset({"x", "ph", "bx", "ex"})
_TO_TRANSLATE = frozenset({"new", "needs-translation", "initial"})
_WRAPPED = re.compile(r"(?<!\s)\s*\n\s*")
_INDENTATION = re.compile(r"\r?\n[ \t]*\Z")


class Xliff(XmlCatalogue):
    """An XLIFF file. Targets that hold a translation are kept, unless their state says that one is needed.

    Args:
        data: The file.

    Raises:
        DocumentRefused: It is no XLIFF of version 1 or 2.
    """

    groups = frozenset({"g", "mrk", "sub", "pc"})
    is_bilingual = True

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        version = self.attributes(self.root).get("version", "")
        if self.root.name != "xliff" or version[:2] not in ("1.", "2."):
            raise DocumentRefused("The file is no XLIFF of version 1.2 or 2.0.")
        self._is_first = version.startswith("1.")
        self.declare_language(self.attributes(self.root).get("trgLang", ""))
        for element in self.root.all("file", "trans-unit" if self._is_first else "segment"):
            if element.name == "file":
                self.declare_language(self.attributes(element).get("target-language", ""))
            elif source := element.first("source"):
                self._add_segment(element, source, element.first("target"))

    def _add_segment(self, unit: Element, source: Element, target: Element | None) -> None:
        """Add a unit of version 1, or a segment of version 2, with its source and target."""
        segmented = unit.first("seg-source")
        segments = [mark for mark in segmented.all("mrk") if self._is_segment(mark)] if segmented else []
        marks = {self.attributes(mark).get("mid"): mark for mark in target.all("mrk")} if target else {}
        places = [marks.get(self.attributes(segment).get("mid")) for segment in segments]
        owner = target if self._is_first else unit
        is_to_do = owner is not None and self.attributes(owner).get("state") in _TO_TRANSLATE
        state: State = "unfinished" if is_to_do else "translated" if self.has_text(target) else "new"
        if self.inherited(unit, "translate") == "no":
            state = "fixed"
        pairs: list[tuple[Element, Element | None]] = [(source, None)]
        if segments and all(places):
            pairs = [pair for pair in zip(segments, places, strict=True) if is_to_do or not self.has_text(pair[1])]
            state = "new" if pairs and state == "translated" else state
        elif segments:
            pairs = [(segment, None) for segment in segments]
        pairs = [pair for pair in pairs if has_letters(shown_text(self.nodes(pair[0])))]
        if not pairs:
            return
        units = [self.unit_of(segment) for segment, _ in pairs]

        def write(translations: Sequence[str]) -> None:
            contents = [read(text) for (_, read), text in zip(units, translations, strict=True)]
            if pairs[0][1] is None:
                around = segmented if segments and segmented else source
                spans = [(segment.content, segment.content_end) for segment, _ in pairs]
                self._write_target(unit, target, segmented or source, self._with_contents(around, spans, contents))
            for (_, place), content in zip(pairs, contents, strict=True):
                if place is not None:
                    self.set_content(place, content)
            if not self._is_first:
                self.write_state(unit, state="translated", subState=None)
            elif target is not None:
                self.write_state(target, state="translated", state_qualifier=None)

        key = self.attributes(unit).get("id", "")
        self.add_message(Message(key, [unit for unit, _ in units], write, self.raw(target) if target else "", state))

    def _is_segment(self, mark: Element) -> bool:
        return self.attributes(mark).get("mtype") == "seg"

    def _with_contents(self, element: Element, spans: Sequence[tuple[int, int]], contents: Sequence[str]) -> str:
        """The content of an element with stretches of it replaced."""
        parts, position = [], element.content
        for (start, end), content in zip(spans, contents, strict=True):
            parts += [self.text[position:start], content]
            position = end
        return "".join([*parts, self.text[position : element.content_end]])

    def _write_target(self, unit: Element, target: Element | None, last: Element, content: str) -> None:
        """Fill the target of a unit, or add one behind the last element of its source."""
        if target is not None:
            self.set_content(target, content)
            return
        indentation = _INDENTATION.search(self.text, unit.content, last.start)
        prefix = self.text[last.start + 1 : last.content].partition(last.name)[0]
        state = ' state="translated"' if self._is_first else ""
        element = f"<{prefix}target{state}>{content}</{prefix}target>"
        self.replace(last.end, last.end, (indentation[0] if indentation else "") + element)

    def shown(self, element: Element) -> str | None:
        """A placeholder is a word of its sentence; the codes of formatting (``bpt``, ``ept``, ...) are none."""
        attributes = self.attributes(element)
        if element.name in self.groups:
            is_kept = attributes.get("translate") == "no" or attributes.get("mtype") == "protected"
            return shown_text(self.nodes(element)) if is_kept else None
        if element.name not in _PLACEHOLDERS or self.is_break(element):
            return ""
        word = attributes.get("equiv-text") or attributes.get("equiv") or f"{element.name}{attributes.get('id', '')}"
        return word[:50]

    def is_break(self, element: Element) -> bool:
        """Whether an inline element is a line break."""
        attributes = self.attributes(element)
        return attributes.get("ctype") == "lb" or attributes.get("subType") == "xlf:lb"

    def read_text(self, text: str, original: str, is_preserved: bool) -> str:
        """A text whose line breaks are those of the file is one line."""
        return text if is_preserved or "\n" not in text else _WRAPPED.sub(" ", text)

    def to_bytes(self, target: str) -> bytes:
        """The file; it names the target language, unless nothing was translated."""
        if self.is_changed and self._is_first:
            for file in self.root.all("file"):
                self.name_language(file, "target-language", target)
        elif self.is_changed:
            self.name_language(self.root, "trgLang", target)
        return super().to_bytes(target)
