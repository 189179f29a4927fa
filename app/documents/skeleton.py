"""The skeleton of a document: all of it but its words, compared between a source and its translation.

The source is written with marks in place of its words. What stands between the marks has to be in the translation, too,
and what stands between the marks of one text (tags, placeholders) as often as there. Archives are compared by part.
"""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from app.documents.formats.book import Book, BookData
from app.documents.formats.catalogues.catalogue import CatalogueFile
from app.documents.formats.catalogues.string_catalog import StringCatalog
from app.documents.formats.csv_cells import CsvCells
from app.documents.formats.document_file import DocumentFile, TextFile, Unit, unescaped, with_stretches
from app.documents.formats.markdown import Markdown
from app.documents.formats.office import OfficeFile
from app.documents.formats.subtitles import SubRip
from app.documents.formats.table import format_of
from app.documents.formats.xml_parts import ElementBudget, parsed
from app.documents.paragraphs import part_differences
from app.errors import DocumentRefused
from app.serving.detection import has_letters
from model.text.markup.html_items import html_items
from model.text.markup.items import OBJECT, Role
from model.text.numbers import find_numbers, wrong_numbers
from model.text.protection import find_spans

_MARK = "Qx{}xQ"
_HOLE = re.compile(r"Qx(\d++)xQ(?:(?:(?!Qx\d).|(?<=[\[\"])Qx\d++xQ(?=[\]|\"]))*+Qx\1xQ)*+", re.DOTALL)
"""Marks of one text, and of the captions of its elements."""

_HOLE_OF_CUE = re.compile(r"Qx(\d++)xQ(?:(?:(?!-->|Qx\d).)*+Qx\1xQ)*+", re.DOTALL)
_NUMBER = re.compile(r"Qx(\d++)xQ")
_CAPTION_MARK = re.compile(r'(?<=[\["])Qx(\d++)xQ(?=[\]|"])')
_ATTRIBUTE_MARK = re.compile('="?Qx')
_TAGS_OF_CUE = re.compile(r"\A(?:<[^<>]*+>|\{[^{}]*+\})++|(?:<[^<>]*+>|\{[^{}]*+\})++\Z")
"""Tags at the ends of a cue's text, which belong to the text: another cue may have them in a translation."""

_BETWEEN = re.compile(r"Qx\d++xQ|(?<=>)(?=<)")
_TAG = re.compile(r"</?[a-zA-Z][^<>]*+>")
_NEXT_LINE = re.compile(r"\n[^\S\n]*+(?:(?:[-*+•>|]|\d{1,3}[.)])[^\S\n]++)*+")
_LANGUAGE_OF_CATALOG = re.compile(r'^ {8}"(?P<code>[\w-]+)" ?: ?\{', re.MULTILINE)
_SEPARATOR = re.compile("[.,:'\u2019\u00a0\u202f ]")
_LABEL = re.compile(r"(?<![\]\\!])\[(?!\^)([^\[\]\n]++)\](?:\[\])?+(?![\[(:])")
_ESCAPE = re.compile(r"\\(?=[^\w\s])")
_TITLE_RULE = re.compile(r"^([!-/:-@\[-`{-~])\1{2,}[ \t]*(?=\r?$)", re.MULTILINE)
_STRING_GOES_ON = re.compile(r'"[ \t]*\r?\n[ \t]*"')
_SHOWN_AS = {Role.OPENING: "", Role.CLOSING: "", Role.POINT: OBJECT, Role.CONTENT: OBJECT, Role.BREAK: "\n"}
_REACH = 2_000
"""Characters of a translation that may be more than its source has, before what follows it is missing."""

_SHOWN = 80


@dataclass(frozen=True)
class Difference:
    """A place where a translation has another skeleton than its source.

    Args:
        where: The part of an archive, if it is one, and the text before.
        expected: What the source has there.
        actual: What the translation has there.
    """

    where: str
    expected: str
    actual: str

    def __str__(self) -> str:
        """It in one line."""
        return f"{self.where}: expected {_shown(self.expected)}, there is {_shown(self.actual)}"


def differences(filename: str, source: bytes, result: bytes, target: str = "") -> list[Difference]:
    """What a translated document has otherwise than its source, apart from its words.

    Args:
        filename: The name of the source, whose ending determines the format.
        source: The source.
        result: The translation.
        target: The target language; without it the one that the translation names.

    Raises:
        UnsupportedDocument: The format is unknown.
        DocumentRefused: One of them cannot be read.
        DocumentTooComplex: One of them takes too much time or memory.
    """
    format = format_of(filename, source)
    if source == result:
        return []
    if format.result_suffix:
        raise DocumentRefused(f"A translated {format.suffix} file is of another format; nothing of it can be compared.")
    before, after = format.read(source), format.read(result)
    if isinstance(before, TextFile) and isinstance(after, TextFile):
        return list(_text_differences("", format.read, before, after, target))
    if isinstance(before, Book) and isinstance(after, Book):
        return list(_book_differences(before, after, target or after.named_language))
    assert isinstance(before, OfficeFile) and isinstance(after, OfficeFile)
    return list(_archive_differences(before, after))


def _archive_differences(before: OfficeFile, after: OfficeFile) -> Iterator[Difference]:
    yield from _name_differences(before.archive.names, after.archive.names)
    for name in before.archive.names:
        if name not in after.archive or before.archive[name] == after.archive[name]:
            continue
        if name in (*before.part_names(), *before.style_names()):
            source, result = (parsed(file.archive[name], ElementBudget()).getroot() for file in (before, after))
            for where, expected, actual in part_differences(source, result):
                yield Difference(f"{name}, {where}", expected, actual)
        else:
            yield Difference(name, "the same bytes", "other bytes")


def _book_differences(before: Book, after: Book, target: str) -> Iterator[Difference]:
    yield from _name_differences(before.archive.names, after.archive.names)
    for name in before.archive.names:
        page = before.pages.get(name)
        if page is not None and name in after.pages:
            yield from _text_differences(f"{name}, ", type(page), page, after.pages[name], target)
        elif name in after.archive and before.archive[name] != after.archive[name]:
            yield Difference(name, "the same bytes", "other bytes")


def _name_differences(before: Sequence[str], after: Sequence[str]) -> Iterator[Difference]:
    if before != after:
        missing = [name for name in before if name not in after]
        added = [name for name in after if name not in before]
        yield Difference("the parts of the archive", ", ".join(missing) or "the same order", ", ".join(added))


def _text_differences(
    where: str, read: Callable[[bytes], DocumentFile], before: TextFile, after: TextFile, target: str
) -> Iterator[Difference]:
    """The differences of two text files; ``before`` is written, and must not be used afterwards."""
    target = target or after.target_language or after.named_language or _language_of_catalog(before.text, after.text)
    untranslated = _untranslated(before, after)
    units = before.units
    is_cued = isinstance(before, SubRip)
    marks = [
        None if number in untranslated else _with_marks(unit, number, is_cued) for number, unit in enumerate(units)
    ]
    data = before.write(marks, target)
    # The data of a book name the target language also if there is nothing to translate in them.
    written = read(before.written(target) if isinstance(before, BookData) else data)
    assert isinstance(written, TextFile)
    change = _normalisation(before)
    template = _Template(change(written.text), units, is_cued)
    originals = template.compare(change(before.text)).contents
    compared = template.compare(change(after.text))
    for index, expected, actual in [*compared.differences, *template.check(compared.contents, originals)]:
        yield Difference(where + template.place(index), expected, actual)


def _language_of_catalog(before: str, after: str) -> str:
    """The language that a string catalog has after its translation and not before; empty in other files."""
    languages = [set(_LANGUAGE_OF_CATALOG.findall(text)) for text in (before, after)]
    return min(languages[1] - languages[0], default="")


def _untranslated(before: TextFile, after: TextFile) -> set[int]:
    """The units of a catalogue with sources and translations whose translation is still missing."""
    if not isinstance(before, CatalogueFile) or not before.is_bilingual or isinstance(before, StringCatalog):
        return set()
    left = [unit.text for unit in after.units]
    numbers: set[int] = set()
    for number, unit in enumerate(before.units):
        if len(numbers) < len(left) and unit.text == left[len(numbers)]:
            numbers.add(number)
    return numbers


def _normalisation(file: TextFile) -> Callable[[str], str]:
    """What removes the differences that the words make outside them: line breaks in strings, lengths of rules."""
    name = type(file).__name__
    if name == "GettextCatalogue":
        return lambda text: _STRING_GOES_ON.sub("", text)
    if name == "RestructuredText":
        return lambda text: _TITLE_RULE.sub(r"\1\1\1", text)
    if isinstance(file, Markdown):  # a link of which the text is the label
        return lambda text: _LABEL.sub(r"[\1][\1]", text)
    return partial(_without_quotation, file.cell_separator) if isinstance(file, CsvCells) else str


def _without_quotation(separator: str, text: str) -> str:
    """A table with signs that no cell has between its cells and rows, which have no quotation marks around them."""
    sign = re.escape(separator)
    token = re.compile(rf'(?<![^{sign}\r\n])"((?:[^"]|"")*+)"(?=[{sign}\r\n]|\Z)|({sign})|(\r?\n|\r)')
    return token.sub(
        lambda match: "\ue000" if match[2] else f"\ue001{match[3]}" if match[3] else match[1].replace('""', '"'), text
    )


def _with_marks(unit: Unit, number: int, is_cued: bool) -> str:
    """A unit whose words are marks; a text that is divided among cues keeps the number of its words."""
    mark = _MARK.format(number)

    def marked(text: str, spans: Sequence[tuple[int, int]]) -> str:
        words = mark if not is_cued else " ".join([mark] * len(text.split()))
        return " ".join([words, *(f"{text[start:end]} {mark}" for start, end in spans)])

    if unit.format == "text":
        lines = _NEXT_LINE.split(unit.text)
        ends = [*_NEXT_LINE.findall(unit.text), ""]
        return "".join(
            (marked(line, find_spans(line)) if has_letters(line) else line) + end
            for line, end in zip(lines, ends, strict=True)
        )
    items = html_items(unit.text)
    spans = find_spans("".join(_SHOWN_AS.get(item.role, item.text) for item in items))
    parts, position = [mark], 0
    for item in items:
        begin, position = position, position + len(_SHOWN_AS.get(item.role, item.text))
        if item.role is Role.TEXT:
            own = [(start - begin, end - begin) for start, end in spans if begin <= start and end <= position]
            parts.append(html.escape(marked(item.text, own), quote=False) if item.text.strip() else "")
            continue
        source = with_stretches(item.source, ((value.start, value.end, mark) for value in item.attributes))
        parts.append(f" {source}{mark}" if item.role is Role.OPENING else f"{source} {mark}")
    return "".join(parts)


@dataclass
class _Compared:
    """A text that was compared with a template.

    Args:
        contents: What it has for each hole, None where that is not known.
        differences: Where it differs outside the holes: the hole before, what is expected, and what is there.
    """

    contents: list[str | None]
    differences: list[tuple[int, str, str]]


class _Template:
    """A source in which marks stand for the words: pieces, and holes with one text or several between them.

    Args:
        marked: The source with marks.
        units: The units of the source, by the numbers of the marks.
        is_cued: Whether cues divide the texts.
    """

    def __init__(self, marked: str, units: Sequence[Unit], is_cued: bool) -> None:
        self._units = units
        self._is_cued = is_cued
        self._pieces: list[str] = []
        self._holes: list[str] = []
        end = 0
        for match in (_HOLE_OF_CUE if is_cued else _HOLE).finditer(marked):
            piece, hole = marked[end : match.start()], match[0]
            if is_cued and self._holes and (tags := _TAGS_OF_CUE.match(piece)):
                self._holes[-1] += tags[0]
                piece = piece[tags.end() :]
            if is_cued and (tags := _TAGS_OF_CUE.search(piece)):
                hole = tags[0] + hole
                piece = piece[: tags.start()]
            # Such a piece may be within a text, too.
            is_in_paragraph = piece.count("\n") < 2 and (not piece.strip() or _NEXT_LINE.fullmatch(piece))
            if self._holes and is_in_paragraph:
                self._holes[-1] += piece + hole
            else:
                self._pieces.append(piece)
                self._holes.append(hole)
            end = match.end()
        self._pieces.append(marked[end:])

    def place(self, index: int) -> str:
        """Where a hole is, for a reader."""
        if index < 0:
            return "at the beginning"
        number = _numbers(self._holes[index])[0]
        return f"text {number + 1} ({_shown(self._units[number].words.strip(), 40)})"

    def compare(self, text: str) -> _Compared:
        """Find the pieces in a text, in order."""
        contents: list[str | None] = []
        differences: list[tuple[int, str, str]] = []
        position, is_aligned = 0, True
        for index, piece in enumerate(self._pieces):
            is_last = index == len(self._pieces) - 1
            size = sum(len(self._units[number].text) for number in _numbers(self._holes[index - 1])) if index else 0
            end = position + 5 * size + _REACH + len(piece)
            start = 0 if index == 0 else len(text) - len(piece) if is_last else text.find(piece, position, end)
            is_there = start >= position and text.startswith(piece, start) and (index or not is_last or piece == text)
            if index:
                contents.append(text[position:start] if is_there and is_aligned else None)
            if is_there:
                position = start + len(piece)
            else:
                expected, actual, position = _first_missing(piece, text, position)
                differences.append((index - 1, expected, actual))
            is_aligned = bool(is_there)
        return _Compared(contents, differences)

    def check(self, contents: Sequence[str | None], originals: Sequence[str | None]) -> Iterator[tuple[int, str, str]]:
        """What translations lack of tags, placeholders, lines and numbers, and the tags that they have besides."""
        for index, hole, content, original in self._texts(contents, originals):
            if content == original:
                continue
            flat = _plain(content)
            parts = _BETWEEN.split(hole)
            if self._is_cued:  # lines of cues are divided elsewhere
                parts = [part.replace("\\N", " ") for part in parts]
            tokens = Counter(part.strip() if self._is_cued or part.strip() else part.strip(" ") for part in parts)
            for token, count in tokens.items():
                if self._is_cued and original and token.startswith("<"):  # where a cue begins, it may be there again
                    count = min(count, original.count(token))
                if token and max(content.count(token), flat.count(_plain(token) or token)) < count:
                    yield index, token, content
            if not _ATTRIBUTE_MARK.search(hole):
                tags, expected = (Counter(_TAG.findall(text)) for text in (content, hole))
                for tag in tags.keys() - expected.keys() if self._is_cued else tags - expected:
                    yield index, "no such tag", tag
            captions = set(map(int, _CAPTION_MARK.findall(hole)))  # those in tags are not in the flat text
            numbers = (number for number in _numbers(hole) if number not in captions)
            lines = (line for number in numbers for line in self._units[number].words.splitlines())
            words = " ".join(" ".join(filter(has_letters, lines)).split())
            for number in _missing_numbers(words.lower(), unescaped(_TAG.sub(" ", flat)).lower()):
                yield index, number, content

    def _texts(
        self, contents: Sequence[str | None], originals: Sequence[str | None]
    ) -> Iterator[tuple[int, str, str, str | None]]:
        """The holes whose contents are known, those of one text in several cues as one, in each text and its source."""
        last: tuple[int, str, str, str | None] | None = None
        for index, (hole, content, original) in enumerate(zip(self._holes, contents, originals, strict=True)):
            if last and content is not None and self._is_cued and _numbers(last[1])[-1] == _numbers(hole)[0]:
                last = last[0], last[1] + hole, f"{last[2]} {content}", f"{last[3]} {original}"
                continue
            if last:
                yield last
            last = None if content is None else (index, hole, content, original)
        if last:
            yield last


def _plain(text: str) -> str:
    """A text without what depends on the words beside it: line breaks where it is wrapped, escapes, references."""
    return " ".join(_ESCAPE.sub("", unescaped(text)).split())


def _numbers(hole: str) -> list[int]:
    """The numbers of the units in a hole."""
    return list(dict.fromkeys(int(number) for number in _NUMBER.findall(hole)))


def _missing_numbers(words: str, answer: str) -> Iterator[str]:
    """The numbers outside protected spans that a translation lacks."""
    spans = find_spans(words)
    for start, end in spans:
        answer = answer.replace(words[start:end], " ", 1)
    for start, end in wrong_numbers(words, find_numbers(words, spans), answer, find_numbers(answer)):
        # Labels of links and the like may have it again.
        if _SEPARATOR.sub("", words[start:end]) not in _SEPARATOR.sub("", answer):
            yield words[start:end]


def _first_missing(piece: str, text: str, position: int) -> tuple[str, str, int]:
    """The first line of a piece that a text does not have, what it has there, and where to continue."""
    missing = piece
    for line in filter(None, map(str.strip, piece.splitlines())):
        start = text.find(line, position, position + _REACH)
        if start < 0:
            missing = line
            break
        position = start + len(line)
    actual = next(filter(str.strip, text[position : position + 1_000].splitlines()), "")
    return missing, actual, position


def _shown(text: str, length: int = _SHOWN) -> str:
    text = text if len(text) <= length else text[:length] + "…"
    return repr(text) if text else "nothing"
