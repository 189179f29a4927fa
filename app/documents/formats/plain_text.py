"""Plain text: each paragraph is a unit."""

from __future__ import annotations

import re

from app.documents.formats.document_file import TextFile

_LINE = r"[^\S\n]*+\S[^\n]*+"
_PARAGRAPH = re.compile(rf"^{_LINE}(?:\n{_LINE}){{0,19}}", re.MULTILINE)
"""Lines without a blank one between them, twenty at most: what is translated at once has to have an end.

A match begins at the start of a line and never gives characters back, so each is looked at once.
"""


class PlainText(TextFile):
    """A text file.

    Args:
        data: The file.

    Raises:
        DocumentRefused: It is no text.
    """

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        for paragraph in _PARAGRAPH.finditer(self.text):
            self.add_stretch(*paragraph.span())
