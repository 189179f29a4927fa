"""Gettext catalogues (.po, .pot): translations are made of the messages that lack one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from app.documents.formats.catalogues.catalogue import CatalogueFile, Message, State
from app.documents.formats.catalogues.escapes import Escapes
from app.documents.formats.document_file import Unit
from app.documents.formats.encodings import GETTEXT
from app.documents.formats.languages import names_same_language, plain_language
from app.errors import DocumentRefused

_LINE = re.compile(r"^[^\S\n]*+(?P<content>[^\r\n]*[^\s])[^\S\n]*+(?:\n|\Z)", re.MULTILINE)
_STRING = r'"(?:[^"\\]|\\.)*+"'
_CONTENT = re.compile(
    r"#.*+|(?P<keyword>(?:domain|msgctxt|msgid(?:_plural)?|msgstr(?:\[\d{1,3}\])?)?+)\s*+"
    rf"(?P<strings>{_STRING}(?:\s*+{_STRING})*+)"
)
_NO_CHARSET = re.compile(r"charset=CHARSET\b")
_NO_PLURAL_FORMS = re.compile(r"nplurals=INTEGER; plural=EXPRESSION;")
_ONE_AND_OTHERS = frozenset({"bg", "ca", "da", "de", "el", "en", "es", "et", "fi", "hu", "it", "nb", "nl", "nn", "sv"})
"""Languages with two plural forms, the first of which is for one."""

_NUM_PLURALS = re.compile(r"nplurals\s*=\s*(\d)")
_LANGUAGE = re.compile(r"(?:(?<=\\n)|(?<![\w-]))Language:[^\S\r\n]*+([\w@.-]*+)")
_FUZZY = re.compile(r",\s*fuzzy\b")
_ESCAPES = Escapes({"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}, '"\\\n\t\r')

MAX_WIDTH = 79
"""Characters of a line, as gettext's own tools break strings."""

Span = tuple[int, int]
"""A first character in the file, and the one after the last."""


@dataclass
class _Entry:
    """A message with its comments.

    Args:
        values: The strings by their keywords.
        flags: Lines with flags.
        previous: Lines with an earlier version of the source.
    """

    values: dict[str, Span] = field(default_factory=dict)
    flags: list[Span] = field(default_factory=list)
    previous: list[Span] = field(default_factory=list)

    @property
    def is_complete(self) -> bool:
        """Whether a further source or comment belongs to another message."""
        return "msgid" in self.values and any(keyword.startswith("msgstr") for keyword in self.values)


class GettextCatalogue(CatalogueFile):
    """A gettext catalogue.

    Existing translations are kept; fuzzy ones are made again and are no longer fuzzy. Obsolete messages are kept.

    Args:
        data: The file.

    Raises:
        DocumentRefused: It is no catalogue.
    """

    declaration = GETTEXT
    is_bilingual = True

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self._header: Span | None = None
        self._header_entry = _Entry()
        self._width = MAX_WIDTH
        num_plurals = 2
        entries = list(self._entries())
        if not entries and self.text.strip():
            raise DocumentRefused("The file is no gettext catalogue: it has no messages.")
        for entry in entries:
            if self._string(entry.values["msgid"]) or "msgctxt" in entry.values:
                self._add_entry(entry, num_plurals)
            elif self._header is None and (header := entry.values.get("msgstr")):
                self._header = header
                self._header_entry = entry
                fields = self._string(header)
                num_plurals = int(forms[1]) if (forms := _NUM_PLURALS.search(fields)) else 2
                self.declare_language(language[1] if (language := _LANGUAGE.search(fields)) else "")

    def _entries(self) -> Iterator[_Entry]:
        """The messages that are not obsolete.

        Raises:
            DocumentRefused: A line is not of a catalogue.
        """
        entry, keyword = _Entry(), ""
        for line in _LINE.finditer(self.text):
            content = _CONTENT.fullmatch(line["content"])
            if content is None or not (content["strings"] is None or content["keyword"] or keyword):
                raise DocumentRefused(
                    f"The file is no gettext catalogue: {line['content'][:40]!r} is none of its lines."
                )
            if entry.is_complete and (content["strings"] is None or content["keyword"] in ("msgid", "msgctxt")):
                yield entry
                entry, keyword = _Entry(), ""
            if content["strings"] is None:
                kind = line["content"][:2]
                {"#,": entry.flags, "#|": entry.previous}.get(kind, []).append((line.start("content"), line.end()))
                continue
            first, end = line.start("content") + content.start("strings"), line.end("content")
            keyword = content["keyword"] or keyword
            entry.values[keyword] = (first if content["keyword"] else entry.values[keyword][0], end)
            if len(line["content"]) > MAX_WIDTH + 5:
                self._width = max(self._width, len(line["content"]))
        if entry.is_complete:
            yield entry

    def _string(self, span: Span) -> str:
        """The characters that a string of the file stands for."""
        return _ESCAPES.read("".join(part[1:-1] for part in re.findall(_STRING, self.text[slice(*span)])))

    def _add_entry(self, entry: _Entry, num_plurals: int) -> None:
        is_fuzzy = any(_FUZZY.search("," + self.text[start + 2 : end]) for start, end in entry.flags)
        forms = {int(keyword[7:-1]) for keyword in entry.values if keyword.startswith("msgstr[")}
        keywords = [f"msgstr[{form}]" for form in sorted(forms | set(range(num_plurals)))] if forms else ["msgstr"]
        targets = {keyword: self._string(entry.values.get(keyword, (0, 0))) for keyword in keywords}
        wanted = [keyword for keyword, target in targets.items() if is_fuzzy or not target]
        plural = entry.values.get("msgid_plural", entry.values["msgid"])
        singular = plural if len(keywords) == 1 else entry.values["msgid"]
        sources = {keyword: singular if keyword in ("msgstr", "msgstr[0]") else plural for keyword in wanted}
        distinct = list(dict.fromkeys(sources.values()))
        state: State = "unfinished" if is_fuzzy else "new" if wanted else "translated"

        def write(translations: Sequence[str]) -> None:
            texts = dict(zip(distinct, translations, strict=True))
            self._write_entry(entry, {keyword: (source, texts[source]) for keyword, source in sources.items()})

        units = [Unit(self._string(source)) for source in distinct]
        self.add_message(Message(self._string(entry.values["msgid"]), units, write, "".join(targets.values()), state))

    def _write_entry(self, entry: _Entry, translations: Mapping[str, tuple[Span, str]]) -> None:
        last = max(end for keyword, (_, end) in entry.values.items() if keyword.startswith("msgstr"))
        for keyword, (source, text) in translations.items():
            lines = self._quoted(text, keyword, self.text[slice(*source)])
            if keyword in entry.values:
                self.replace(*entry.values[keyword], lines)
            else:  # a plural form that the file does not have
                self.replace(last, last, f"{self.line_end}{keyword} {lines}")
        for start, end in entry.previous:
            self.replace(start, end, "")
        self._clear_fuzzy(entry)

    def _clear_fuzzy(self, entry: _Entry) -> None:
        for start, end in entry.flags:
            line = self.text[start:end]
            others = _FUZZY.sub("", "," + line[2:], 1)[1:].lstrip(" ")
            self.replace(start, end, f"#, {others}" if others.strip() else "")

    def _quoted(self, text: str, keyword: str, source: str) -> str:
        """A string as the file has it: on one line, or on several if it is long or its source is on several."""
        lines = [_ESCAPES.write(line) for line in re.findall(r"[^\n]*+\n|[^\n]++", text)]
        is_wrapped = "\n" in source
        fits = len(keyword) + sum(map(len, lines)) + 3 <= self._width
        if (fits and not (is_wrapped and len(lines) > 1)) or (not is_wrapped and len(source) > MAX_WIDTH):
            return f'"{"".join(lines)}"'
        parts = ['""']
        for line in lines:
            part = ""
            for word in re.findall(r"\S++\s*+|\s++", line):
                if part and len(part) + len(word.rstrip()) + 2 > self._width:
                    parts.append(f'"{part}"')
                    part = ""
                part += word
            parts.append(f'"{part}"')
        return self.line_end.join(parts)

    def to_bytes(self, target: str) -> bytes:
        """The catalogue; its header names the language, unless nothing was translated."""
        if self.is_changed and self._header is not None:
            self._name_language(self._header, target.replace("-", "_"))
            self._fill_template(self._header, target)
        return super().to_bytes(target)

    def _name_language(self, header: Span, target: str) -> None:
        language = _LANGUAGE.search(self.text, *header)
        if language is None:
            self.replace(header[1], header[1], f'{self.line_end}"Language: {target}\\n"')
        elif not names_same_language(language[1], target):
            self.replace(*language.span(), f"Language: {target}")

    def _fill_template(self, header: Span, target: str) -> None:
        """Fill the fields of a template's header that programs read."""
        charset = _NO_CHARSET.search(self.text, *header)
        if charset is None:
            return
        self.replace(*charset.span(), "charset=UTF-8")
        self._clear_fuzzy(self._header_entry)
        plural_forms = _NO_PLURAL_FORMS.search(self.text, *header)
        if plural_forms and plain_language(target) in _ONE_AND_OTHERS:
            self.replace(*plural_forms.span(), "nplurals=2; plural=(n != 1);")
