"""Catalogues of Qt (``.ts``): translations that are missing or unfinished are made."""

from __future__ import annotations

from collections.abc import Sequence

from app.documents.formats.catalogues.catalogue import Message, State
from app.documents.formats.catalogues.xml_catalogue import Element, XmlCatalogue
from app.serving.detection import has_letters


class QtCatalogue(XmlCatalogue):
    """A catalogue of Qt. Finished translations are kept, and those of messages that the program no longer has.

    Args:
        data: The file.

    Raises:
        DocumentRefused: It is another file.
    """

    is_bilingual = True
    root_name = "TS"
    not_read = "no catalogue of Qt"

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.declare_language(self.attributes(self.root).get("language", ""))
        for message in self.root.all("message"):
            source, translation = message.first("source"), message.first("translation")
            if source and translation and self.attributes(translation).get("type") not in ("vanished", "obsolete"):
                self._add_translation(message, source, translation)

    def _add_translation(self, message: Element, source: Element, translation: Element) -> None:
        unit, read = self.unit_of(source)
        if not has_letters(unit.words):
            return
        is_plural = self.attributes(message).get("numerus") == "yes"
        is_unfinished = self.attributes(translation).get("type") == "unfinished"
        forms = [form for form in translation.children if form.name == "numerusform"] if is_plural else [translation]
        is_whole = bool(forms) and all(map(self.has_text, forms))
        state: State = "translated" if is_whole and not is_unfinished else "unfinished" if is_whole else "new"

        def write(translations: Sequence[str]) -> None:
            content = read(translations[0])
            for form in forms:
                self.set_content(form, content)
            if not forms:
                self.set_content(translation, f"<numerusform>{content}</numerusform>" * 2)
            self.set_attribute(translation, "type", None)

        self.add_message(Message(self.raw(source), [unit], write, self.raw(translation), state))

    def to_bytes(self, target: str) -> bytes:
        """The file; it names the target language, unless nothing was translated."""
        if self.is_changed:
            self.name_language(self.root, "language", target.replace("-", "_"))
        return super().to_bytes(target)
