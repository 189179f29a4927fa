"""Metadata in YAML or TOML before a page, for the program that makes a site of it.

Titles and descriptions are translated, as readers see them. Everything else stays: programs may look for it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import partial

from app.documents.formats.codes import is_code
from app.documents.formats.document_file import TextFile, Unit
from app.documents.formats.languages import LanguageMark, language_mark

_FRONT_MATTER = re.compile(
    r"\A(?:---[ \t]*\r?\n.*?^(?:---|\.\.\.)|\+\+\+[ \t]*\r?\n.*?^\+\+\+)[ \t]*\r?$", re.DOTALL | re.MULTILINE
)
_READ_KEY = re.compile(
    r"^(?P<before>[ \t]*+(?:-[ \t]++)?)"
    r"(?:title|subtitle|description|summary|abstract|excerpt|tagline|lead|intro|details|linkTitle|shortTitle|short_title"
    r"|nav_title|sidebar_label|pagination_label|alt|caption)"
    r"[ \t]*(?P<sign>[:=])[ \t]*(?=\S)",
    re.MULTILINE,
)
_READ_VALUE = re.compile(
    r"(?:(?P<block>[>|])[-+]?[ \t]*\r?\n(?P<body>.*)"
    r"|(?P<value>\"(?:[^\"\\]|\\.)*+\"|'(?:[^']|'')*+'|[^\s\"'>|&*!{\[#][^#]*+))",
    re.DOTALL,
)
_FRONT_LINE = re.compile(r"\n(?:(?P<indent>[ \t]*+)[^\s\n][^\n]*|[ \t\r]*(?=\n))")
_CONSTANT = re.compile(r"yes|no|true|false|null|on|off|y|n|\.inf|\.nan|0x[\da-f_]+", re.IGNORECASE)
_PLAIN_VALUE = re.compile(r"(?=.*[^\W\d_]{2})[\w.(/](?:[^\n:#]|:(?=\S))*+")
_LANGUAGE = re.compile(r"^(?:lang|language|locale)[ \t]*+[:=][ \t]*+[\"']?(?P<name>[\w-]{2,40}+)", re.MULTILINE)


def add_front_matter(file: TextFile) -> int:
    """Add the titles and descriptions in the front matter of a file.

    Args:
        file: The file that gets the units.

    Returns:
        The index after the front matter; 0 if there is none.
    """
    front = _FRONT_MATTER.match(file.text)
    if front is None:
        return 0
    done = 0  # what looks like a key may be a line of a value
    for key in _READ_KEY.finditer(front[0]):
        if key.start() >= done:
            done = _end_of_value(front[0], key)
            value = _READ_VALUE.fullmatch(front[0], key.end(), key.end() + len(front[0][key.end() : done].rstrip()))
            if value:
                _add_value(file, value)
    return front.end()


def _end_of_value(front: str, key: re.Match[str]) -> int:
    """Where the value of a key ends; one of YAML may go on in lines that are indented more than the key."""
    end = start = front.find("\n", key.end())
    while key["sign"] == ":" and (line := _FRONT_LINE.match(front, end)):
        if line["indent"] is not None and len(line["indent"]) <= len(key["before"]):
            break
        end = line.end()
        start = end if line["indent"] is not None else start
    return max(start, key.end())


def _add_value(file: TextFile, value: re.Match[str]) -> None:
    if value["block"] == "|":
        for line in re.finditer(r"\S[^\n]*", value["body"]):
            file.add_stretch(value.start("body") + line.start(), value.start("body") + line.end())
    elif value["block"]:
        for lines in re.finditer(r"\S[^\n]*(?:\n[ \t]*[^\s][^\n]*)*", value["body"]):
            start = value.start("body") + lines.start()
            file.add(Unit(_in_one_line(lines[0])), partial(file.replace, start, start + len(lines[0].rstrip())))
    else:
        _add_string(file, value["value"].rstrip(), value.start("value"))


def _add_string(file: TextFile, source: str, start: int) -> None:
    """Add a value in one line or several, which become one."""
    quote = source[0] if source[0] in "\"'" else ""
    text = _in_one_line(source)
    if quote == '"':
        try:
            text = str(json.loads(text))
        except ValueError:
            return  # it has characters in a notation that JSON does not know
    elif quote:
        text = text[1:-1].replace("''", "'")
    elif _CONSTANT.fullmatch(text):
        return
    if is_code(text):
        return

    def put(translation: str) -> None:
        is_plain = not quote and _PLAIN_VALUE.fullmatch(translation) and not _CONSTANT.fullmatch(translation)
        is_single = quote == "'" and ("'" not in translation or "''" in source)
        single, double = "'" + translation.replace("'", "''") + "'", json.dumps(translation, ensure_ascii=False)
        file.replace(start, start + len(source), translation if is_plain else single if is_single else double)

    file.add(Unit(text), put)


def _in_one_line(value: str) -> str:
    return re.sub(r"\s*\n\s*", " ", value.rstrip())


def front_matter_marks(text: str) -> Iterator[LanguageMark]:
    """The language that the front matter of a text names.

    Args:
        text: The text.
    """
    if front := _FRONT_MATTER.match(text):
        for name in _LANGUAGE.finditer(text, 0, front.end()):
            if mark := language_mark(text, *name.span("name")):
                yield mark
