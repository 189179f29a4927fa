"""Tables as text (.csv, .tsv): cells with words are translated; separators, quotation marks and line ends are kept."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from app.documents.formats.codes import is_code
from app.documents.formats.document_file import TextFile, Unit

_SEPARATORS = ",;\t|"
_SAMPLE = 20_000
_MOST_ROWS = 1_000
"""Rows that show what a column has."""

_QUOTED = r'"[^"]*+(?:""[^"]*+)*+"'
_DIRECTIVE = re.compile(r'"?sep=(?P<separator>[^\r\n"])"?(?:\r?\n|\Z)', re.IGNORECASE)
_BEGIN_OF_FORMULA = re.compile(r"\s*[=+\-@＝＋－＠]|[\t\r]")
"""How a cell begins that spreadsheets take for a formula."""

_FORMULA = re.compile(r"\s*+(?:[=＝]|[+\-@]\$?[A-Z]{1,3}(?:\$?[0-9]|\())")
_COLUMN_NAME = re.compile(r"[a-z][\w.:-]*+")
_CAPITALS = re.compile(r"[A-Z0-9][A-Z0-9_./-]*+")
_SHORT_CODE = re.compile(r"[A-Z]{2,3}|id")


@dataclass(slots=True)
class _Cell:
    """A cell: its first character in the file and the one after its last, its column, and its text."""

    start: int
    end: int
    column: int
    text: str
    is_quoted: bool


class CsvCells(TextFile):
    """A table as text, its cells separated by commas, semicolons, tabs or bars.

    Formulas, codes and columns of codes stay as they are, and so do names of columns if they are identifiers.

    Args:
        data: The file.

    Raises:
        DocumentRefused: It is no text.
    """

    separator = ""
    """What separates the cells; empty if the file shows it."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        directive = _DIRECTIVE.match(self.text)  # of Excel
        self.cell_separator = directive["separator"] if directive else self.separator or _separator(self.text[:_SAMPLE])
        rows = list(self._rows(directive.end() if directive else 0))
        columns = _columns_of_codes(rows)
        is_header = bool(rows) and _are_column_names(rows)
        for row in rows[1:] if is_header else rows:
            for cell in row:
                if not (cell.column in columns and _CAPITALS.fullmatch(cell.text)) and not is_kept(cell.text):
                    self._add_cell(cell)

    def _rows(self, start: int) -> Iterator[list[_Cell]]:
        """The cells of each row that are not empty."""
        other = re.escape(self.cell_separator)
        token = re.compile(rf"(?P<quoted>{_QUOTED})|(?P<plain>[^{other}\r\n]++)|(?P<separator>{other})|[\r\n]")
        row: list[_Cell] = []
        column, begins = 0, True
        for match in token.finditer(self.text, start):
            content = match["quoted"] or match["plain"]
            if content and begins:
                text = content[1:-1].replace('""', '"') if match["quoted"] else content
                row.append(_Cell(*match.span(), column, text, bool(match["quoted"])))
            elif not content and match["separator"]:
                column += 1
            elif not content:
                yield row
                row, column = [], 0
            begins = not content
        yield row

    def _add_cell(self, cell: _Cell) -> None:
        def put(translation: str) -> None:
            is_quoted = cell.is_quoted
            if _begin_of_formula(translation) not in ("", _begin_of_formula(cell.text)):
                translation, is_quoted = f"'{translation}", True  # of a glossary; with this sign it is a text
            signs = [self.cell_separator, "\n", "\r", *([] if '"' in cell.text else ['"'])]
            if is_quoted or translation.startswith('"') or any(sign in translation for sign in signs):
                translation = '"' + translation.replace('"', '""') + '"'
            self.replace(cell.start, cell.end, translation)

        self.add(Unit(cell.text), put)


def is_kept(text: str) -> bool:
    """Whether the text of a cell is a formula or a code.

    Args:
        text: The text.
    """
    return bool(_FORMULA.match(text) or _SHORT_CODE.fullmatch(text)) or is_code(text)


def _are_column_names(rows: Sequence[Sequence[_Cell]]) -> bool:
    """Whether the first row names columns for programs: words in lower case, unlike the cells below."""
    first, *others = rows
    is_named = len(first) > 1 and all(_COLUMN_NAME.fullmatch(cell.text) for cell in first)
    return is_named and any(not _COLUMN_NAME.fullmatch(cell.text) for row in others[:_MOST_ROWS] for cell in row)


def _columns_of_codes(rows: Sequence[Sequence[_Cell]]) -> frozenset[int]:
    """The columns whose cells below the first row are words in capitals, if the table has other cells, too."""
    cells: defaultdict[int, list[str]] = defaultdict(list)
    for row in rows[1:_MOST_ROWS]:
        for cell in row:
            cells[cell.column].append(cell.text)
    columns = {column for column, texts in cells.items() if len(texts) > 1 and all(map(_CAPITALS.fullmatch, texts))}
    has_others = any(text.upper() != text for texts in cells.values() for text in texts)
    return frozenset(columns if has_others else ())


def _begin_of_formula(text: str) -> str:
    """The sign that makes a cell a formula; nothing if it is none."""
    begin = _BEGIN_OF_FORMULA.match(text)
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


class TsvCells(CsvCells):
    """A table with tabs between its cells."""

    separator = "\t"
