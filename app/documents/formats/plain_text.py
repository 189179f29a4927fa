"""Plain text: each paragraph is a unit."""

from __future__ import annotations

import re

from app.documents.formats.document_file import TextFile

_PARAGRAPH = re.compile(r"[^\n]*\S[^\n]*(?:\n[^\n]*\S[^\n]*){0,19}")
"""Lines without a blank one between them, twenty at most: what is translated at once has to have an end."""


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
