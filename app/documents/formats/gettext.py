"""Gettext catalogues (.po), read and written by polib: translations are made of the messages that lack one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial

import polib

from app.documents.formats.document_file import DocumentFile, Unit
from app.documents.formats.encodings import GETTEXT, decoded
from app.errors import DocumentRefused, DocumentTooComplex

_NUM_PLURALS = re.compile(r"nplurals\s*=\s*(\d)")
_CONTINUATION = re.compile(r'\s*+((?:#~|#\|)?)\s*+"((?:[^"\\]|\\.)*+)"\s*+')
_STRING = re.compile(r'[^"]*+"(?:[^"\\]|\\.)*+"\s*+')
_COMMENT = re.compile(r"\s*+#(?![~|])")

MAX_COMMENT_LINES = 1_000
"""Lines of comments of a message, and of the header: the library adds each to a copy of those before."""


class Catalogue(DocumentFile):
    """A gettext catalogue.

    Existing translations are kept; fuzzy ones are translated again and are no longer fuzzy. Obsolete messages are kept.

    Args:
        data: The file.

    Raises:
        DocumentRefused: It is no catalogue.
    """

    keeps_source = True

    def __init__(self, data: bytes) -> None:
        super().__init__()
        text, self._encoding = decoded(data, GETTEXT)
        lines = list(_joined_strings(text.splitlines()))
        _check_comments(lines)
        if len(lines) == 1:  # polib takes a single line for the name of a file
            lines.append("")
        try:
            self._file = polib.pofile("\n".join(lines) + "\n", wrapwidth=_width(text.splitlines()))
        except (OSError, ValueError, IndexError, KeyError, AttributeError) as error:
            raise DocumentRefused(f"The file is no gettext catalogue: {str(error)[:200]}.") from None
        if not len(self._file) and text.strip() and not self._file.metadata:
            raise DocumentRefused("The file is no gettext catalogue: it has no messages.")
        self._line_end = "\r\n" if "\r\n" in text else "\n"
        self._original: bytes | None = data
        plural_forms = _NUM_PLURALS.search(self._file.metadata.get("Plural-Forms", ""))
        for entry in self._file:
            if not entry.obsolete and not entry.translated():
                self._add_entry(entry, int(plural_forms[1]) if plural_forms else 2)

    def _add_entry(self, entry: polib.POEntry, num_plurals: int) -> None:
        if not entry.msgid_plural:
            self.add(Unit(entry.msgid), partial(self._put, entry))
            return
        entry_plurals = dict.fromkeys(range(num_plurals), "") | entry.msgstr_plural
        singular, *plurals = sorted(entry_plurals)
        self.add(Unit(entry.msgid), partial(self._put_plurals, entry, [singular] if plurals else []))
        self.add(Unit(entry.msgid_plural), partial(self._put_plurals, entry, plurals or [singular]))

    def _put(self, entry: polib.POEntry, translation: str) -> None:
        entry.msgstr = translation
        self._finish(entry)

    def _put_plurals(self, entry: polib.POEntry, forms: list[int], translation: str) -> None:
        for form in forms:
            entry.msgstr_plural[form] = translation
        self._finish(entry)

    def _finish(self, entry: polib.POEntry) -> None:
        self._original = None
        entry.flags = [flag for flag in entry.flags if flag != "fuzzy"]
        entry.previous_msgid = entry.previous_msgid_plural = entry.previous_msgctxt = None

    def to_bytes(self, target: str) -> bytes:
        """The catalogue; its header names the language, unless nothing was translated."""
        if self._original is not None:
            return self._original
        if self._file.metadata:
            self._file.metadata["Language"] = target
        return self._encoding.encode(str(self._file).replace("\n", self._line_end))


def _joined_strings(lines: Sequence[str]) -> Iterator[str]:
    """The lines of a catalogue, each string on one line; the library adds each further line to a copy of the string.

    Args:
        lines: The lines.
    """
    parts: list[str] = []  # of the present string, without its closing quotation mark
    prefix = ""
    for line in lines:
        following = _CONTINUATION.fullmatch(line) if parts else None
        if following is not None and following[1] == prefix:
            parts.append(following[2])
            continue
        if parts:
            yield "".join([*parts, '"'])
            parts = []
        if not _COMMENT.match(line) and _STRING.fullmatch(line):
            prefix = next((sign for sign in ("#~", "#|") if line.lstrip().startswith(sign)), "")
            parts = [line.rstrip()[:-1]]
        else:
            yield line
    if parts:
        yield "".join([*parts, '"'])


def _check_comments(lines: Sequence[str]) -> None:
    """Refuse a message with more comments, or a header of more lines, than the library reads in a reasonable time.

    Raises:
        DocumentTooComplex: There is one.
    """
    num_lines = 0
    message = ""
    for line in lines:
        if line.startswith("msgstr") and message == 'msgid ""' and line.count("\\n") > MAX_COMMENT_LINES:
            raise DocumentTooComplex(f"The header has more than {MAX_COMMENT_LINES} lines")
        message = line.strip() if line.startswith("msgid") else message
        if _COMMENT.match(line):
            num_lines += 1
        elif "msgid" in line:
            num_lines = 0
        if num_lines > MAX_COMMENT_LINES:
            raise DocumentTooComplex(f"A message has more than {MAX_COMMENT_LINES} lines of comments")


def _width(lines: list[str]) -> int:
    """Where the lines of a file are broken; polib would otherwise break or join them."""
    longest = max((len(line) for line in lines if line.startswith(('"', "msg"))), default=0)
    return 78 if longest <= 82 else 100_000
