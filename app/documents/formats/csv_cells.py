"""CSV: cells with letters are translated; separators, quotation marks and line ends are kept."""

from __future__ import annotations

import re
from collections import Counter

from app.documents.formats.document_file import TextFile, Unit

_SEPARATORS = ",;\t|"
_SAMPLE = 20_000
_QUOTED = r'"[^"]*+(?:""[^"]*+)*+"'
_FORMULA = re.compile(r"\s*[=+\-@＝＋－＠]|[\t\r]")
"""How a cell begins that spreadsheets take for a formula."""


class CsvCells(TextFile):
    """A table as text, its cells separated by commas, semicolons, tabs or bars.

    Args:
        data: The file.

    Raises:
        DocumentRefused: It is no text.
    """

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self._separator = _separator(self.text[:_SAMPLE])
        other = re.escape(self._separator)
        cell = re.compile(rf"(?P<quoted>{_QUOTED})|(?P<plain>[^{other}\r\n]++)|[{other}\r\n]")
        begins = True
        for found in cell.finditer(self.text):
            if found["quoted"] is not None and begins:
                self._add_cell(found, found["quoted"][1:-1].replace('""', '"'))
            elif found["plain"] is not None and begins:
                self._add_cell(found, found["plain"])
            begins = found["quoted"] is None and found["plain"] is None

    def _add_cell(self, found: re.Match[str], text: str) -> None:
        def put(translation: str) -> None:
            is_quoted = found["quoted"] is not None
            if _begin_of_formula(translation) not in ("", _begin_of_formula(text)):
                translation, is_quoted = f"'{translation}", True  # of a glossary; with this sign it is a text
            if is_quoted or any(sign in translation for sign in (self._separator, '"', "\n", "\r")):
                translation = '"' + translation.replace('"', '""') + '"'
            self.replace(found.start(), found.end(), translation)

        self.add(Unit(text), put)


def _begin_of_formula(text: str) -> str:
    """The sign that makes a cell a formula; nothing if it is none."""
    begin = _FORMULA.match(text)
    return "" if begin is None else begin[0][-1]


def _separator(sample: str) -> str:
    """What separates the cells of a table: the sign of which most lines have the same number, of several the commonest.

    Args:
        sample: The beginning of the table.
    """
    lines = [line for line in re.sub(_QUOTED, "", sample).splitlines() if line.strip()]

    def fitness(sign: str) -> tuple[int, int]:
        counts = Counter(line.count(sign) for line in lines)
        del counts[0]
        return max(((num_lines, count) for count, num_lines in counts.items()), default=(0, 0))

    return max(_SEPARATORS, key=fitness)
