"""HTML: the stretches between block elements are units, and go through the text pipeline as they are."""

from __future__ import annotations

from collections.abc import Iterator

from app.documents.formats.document_file import TextFile
from model.text.markup.html_items import html_items
from model.text.markup.items import Item, Role


class WebPage(TextFile):
    """An HTML page.

    Args:
        data: The file.

    Raises:
        DocumentRefused: It is no text.
    """

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.text = self.prepared(self.text)
        for start, end in html_stretches(self.text):
            self.add_stretch(start, end, "html")

    def prepared(self, text: str) -> str:
        """The page as HTML."""
        return text


def html_stretches(document: str) -> Iterator[tuple[int, int]]:
    """First and last character of each part of a page that has text of its own, between block elements.

    A part that would be read otherwise by itself, such as ``<title>a <b> c</title>``, is left out.

    Args:
        document: The page.
    """
    run: list[Item] = []
    start = position = 0
    for item in html_items(document):
        if item.role is Role.BOUNDARY:
            yield from _stretch(document, start, run)
            run = []
            if item.attributes:
                yield from _stretch(document, position, [item])
        else:
            if not run:
                start = position
            run.append(item)
        position += len(item.source)
    yield from _stretch(document, start, run)


def _stretch(document: str, start: int, run: list[Item]) -> Iterator[tuple[int, int]]:
    if not any(any(map(str.isalpha, item.text)) or item.attributes for item in run):
        return
    end = start + sum(len(item.source) for item in run)
    source = document[start:end]
    if "".join(item.text for item in html_items(source)) == "".join(item.text for item in run):
        yield start, end
