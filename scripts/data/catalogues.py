"""Extractors of message catalogues: gettext, Fluent, properties, JSON, YAML, JavaScript, Android."""

from __future__ import annotations

import gettext
import html
import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import yaml

from model.errors import DataError
from model.training.corpus import Pair
from scripts.data.text import (
    common_files,
    from_markdown,
    lines_of,
    read,
    same_keys,
    siblings,
    strip_tags,
    tidy,
    without_tags,
)

Messages = dict[str, str]
"""Texts by key."""

_BREAK = re.compile(r"(?i)<br */?>|</p>|<li>|</li>|\\n")


def message_lines(source: str, target: str) -> Iterator[Pair]:
    """The lines of a message with markup and its translation, if both have the same number of them."""
    sides = []
    for text in (source, target):
        plain = html.unescape(without_tags(_BREAK.sub("\n", html.unescape(text))))
        sides.append([stripped for line in plain.split("\n") if (stripped := tidy(line))])
    if len(sides[0]) == len(sides[1]):
        yield from zip(*sides, strict=True)


# gettext


def mo(*paths: Path) -> Iterator[Pair]:
    """Compiled catalogues of gettext, English to German."""
    for path in paths:
        with path.open("rb") as file:
            catalogue: dict[Any, str] = vars(gettext.GNUTranslations(file))["_catalog"]
        for key, text in catalogue.items():
            source = key[0] if isinstance(key, tuple) else key
            yield from lines_of(source.rpartition("\x04")[2], text)


_PO_ENTRY = re.compile(r"(?ms)^msgid (.*?)^msgstr (.*)")
_PO_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')
_PO_LEFT_OUT = re.compile(r"(?m)^#,.*fuzzy|^#~|msgid_plural")


def po_messages(path: Path) -> Iterator[Pair]:
    """The messages of a ``.po`` file, without obsolete, fuzzy and plural ones."""
    for entry in read(path).split("\n\n"):
        match = _PO_ENTRY.search(entry)
        if match and not _PO_LEFT_OUT.search(entry):
            source, target = ("".join(_PO_STRING.findall(part)) for part in match.groups())
            yield _unescaped(source), _unescaped(target)


def _unescaped(text: str) -> str:
    return text.replace('\\"', '"').replace("\\n", "\n")


def po(*paths: Path) -> Iterator[Pair]:
    """Source catalogues of gettext; their texts may be Markdown."""
    for path in paths:
        for source, target in po_messages(path):
            yield from lines_of(from_markdown(source), from_markdown(target))


def po_of_program(*paths: Path) -> Iterator[Pair]:
    """The same with the markup of interfaces."""
    for pair in po(*paths):
        yield from message_lines(*pair)


_SENTENCE_END = re.compile(r'[.!?]"?$')


def po_of_game(*paths: Path) -> Iterator[Pair]:
    """The same of the dialogue of a game: what ends as sentences do and has no variables (``&name``)."""
    for pair in po(*paths):
        if "&" not in "".join(pair) and all(_SENTENCE_END.search(tidy(side)) for side in pair):
            yield pair


# Mozilla

_FLUENT_MESSAGE = re.compile(r"(-?[a-zA-Z][\w-]*) *=(.*)")
_FLUENT_ATTRIBUTE = re.compile(r"\s+\.")
_BRAND_NAME = re.compile(r"\{ *-brand-name-([\w-]+) *\}")
_BRAND = re.compile(r"\{ *-(?:brand|vendor)-(?:short|shorter|product|full)?-?(?:short-)?name *\}|&brandShortName;")
_ASSIGNMENT = re.compile(r"(?: {2,4}(?=\.))?(\.?[a-zA-Z][\w.-]*) *= *(.*)")


def fluent_messages(path: Path) -> Messages:
    """The messages of a Fluent file, without attributes; terms of brands become their names."""
    messages: Messages = {}
    key = ""
    for line in read(path).splitlines():
        if match := _FLUENT_MESSAGE.match(line):
            key = match[1]
            messages[key] = match[2]
        elif key and line.startswith(" ") and not _FLUENT_ATTRIBUTE.match(line):
            messages[key] += " " + line.strip()
        else:
            key = ""
    return {
        key: strip_tags(_BRAND_NAME.sub(lambda match: match[1].replace("-", " ").title(), text))
        for key, text in messages.items()
        if not key.startswith("-")
    }


def fluent(source: Path, target: Path) -> Iterator[Pair]:
    """Fluent files of the same path."""
    for first, second in common_files(source, target, ".ftl"):
        yield from same_keys(fluent_messages(first), fluent_messages(second))


def firefox_messages(folder: Path) -> Messages:
    """The messages and attributes of all Fluent and ``.properties`` files of a folder, by file name and key."""
    messages: Messages = {}
    for path in sorted(folder.rglob("*")):
        if path.suffix not in (".ftl", ".properties"):
            continue
        key = ""
        for line in read(path).splitlines():
            if match := _ASSIGNMENT.match(line):
                name = match[1]
                if name.startswith(".") and key:
                    name = key.split("/", 1)[1].split(".")[0] + name
                key = f"{path.name}/{name}"
                messages[key] = match[2]
            elif key and path.suffix == ".ftl" and line.startswith(" "):
                messages[key] += " " + line.strip()
            elif not line.startswith("#"):
                key = ""
    return {key: strip_tags(_BRAND.sub("Firefox", text)) for key, text in messages.items()}


def firefox(source: Path, target: Path) -> Iterator[Pair]:
    """The messages of Firefox, by file name and key, whatever their folders."""
    yield from sorted_pairs(firefox_messages(source), firefox_messages(target))


# JSON and YAML


def _flat(node: object, path: tuple[str, ...] = ()) -> Iterator[tuple[str, str]]:
    """The strings of a nested table by their path; the language on top is no part of it."""
    if isinstance(node, dict):
        for key, value in node.items():
            yield from _flat(value, (*path, str(key)))
    elif isinstance(node, list):
        for index, value in enumerate(node):
            anchor = value.get("anchor", index) if isinstance(value, dict) else index
            yield from _flat(value, (*path, str(anchor)))
    elif isinstance(node, str):
        yield "/".join(part for part in path if part not in ("en", "de")), node


def table_messages(path: Path) -> Messages:
    """The strings of a JSON or YAML file by their path.

    Raises:
        DataError: It is neither.
    """
    try:
        return dict(_flat(json.loads(read(path)) if path.suffix == ".json" else yaml.safe_load(read(path))))
    except (ValueError, yaml.YAMLError) as error:
        raise DataError(f"{path} cannot be read: {error}.") from error


def _file_pairs(source: Path, target: Path) -> Iterable[tuple[Path, Path]]:
    """The two files, or the files of two folders that have the same path."""
    if source.is_file():
        return [(source, target)]
    return (files for ending in (".json", ".yml") for files in common_files(source, target, ending))


def strings(source: Path, target: Path) -> Iterator[Pair]:
    """Two files, or two folders of files, with the same keys; a text with a tag for a word is left out."""
    for first, second in _file_pairs(source, target):
        for text, translation in sorted_pairs(table_messages(first), table_messages(second)):
            if not re.search(r"<\w+ */>", text):
                yield from lines_of(strip_tags(from_markdown(text)), strip_tags(from_markdown(translation)))


def sorted_pairs(source: Messages, target: Messages) -> Iterable[Pair]:
    """The messages with the same key, in the order of the keys."""
    return same_keys(dict(sorted(source.items())), target)


def sibling_strings(folder: Path, source: str, target: str) -> Iterator[Pair]:
    """Files of strings that are :func:`~scripts.data.text.siblings`."""
    for files in siblings(folder, source, target):
        for pair in same_keys(*map(table_messages, files)):
            yield from message_lines(*(_linkless(text) for text in pair))


def strings_with_languages(*paths: Path) -> Iterator[Pair]:
    """Tables that have the languages side by side: ``en`` and ``de``, or ``name`` and ``name_de``."""
    for path in paths:
        for table in _tables(json.loads(read(path))):
            keys = [("en", "de"), *((key, f"{key}_de") for key in table)]
            for pair in ((table.get(first), table.get(second)) for first, second in keys):
                if isinstance(pair[0], str) and isinstance(pair[1], str):
                    yield strip_tags(pair[0]), strip_tags(pair[1])


def _tables(node: object) -> Iterator[dict[str, object]]:
    if isinstance(node, dict):
        yield node
    for value in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from _tables(value)


def _linkless(text: str) -> str:
    return re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text).replace("**", "")


_JAVASCRIPT_STRING = re.compile(r'(?m)^\s*"?([\w.-]+)"?\s*:\s*"((?:[^"\\]|\\.)*)"')


def javascript_strings(source: Path, target: Path) -> Iterator[Pair]:
    """Two modules of JavaScript with a table of strings, a line each; apostrophes are doubled in them."""
    sides = [dict(_JAVASCRIPT_STRING.findall(read(path))) for path in (source, target)]
    for pair in same_keys(*sides):
        yield from message_lines(*(text.replace('\\"', '"').replace("''", "'") for text in pair))


# Android

_STRING = re.compile(r'(?s)<string name="([^"]+)"[^>]*>(.*?)</string>')
_GROUP = re.compile(r'(?s)<(?:plurals|string-array) name="([^"]+)"[^>]*>(.*?)</(?:plurals|string-array)>')
_ITEM = re.compile(r'(?s)<item(?: quantity="(\w+)")?>(.*?)</item>')


def android_messages(path: Path) -> Messages:
    """The strings, plurals and arrays of a resource file of Android."""
    text = re.sub(r"(?s)<!--.*?-->", "", read(path))
    messages = dict(_STRING.findall(text))
    for name, body in _GROUP.findall(text):
        for index, (quantity, item) in enumerate(_ITEM.findall(body)):
            messages[name + (quantity or str(index))] = item
    return messages


def android(folder: Path) -> Iterator[Pair]:
    """Resources of Android, ``values/`` and ``values-de/``, wherever they are in a folder."""
    for path in sorted(folder.rglob("values-de/*.xml")):
        other = path.parent.with_name("values") / path.name
        if other.is_file():
            for pair in same_keys(android_messages(other), android_messages(path)):
                yield from message_lines(*(_android_text(text) for text in pair))


def _android_text(text: str) -> str:
    text = html.unescape(text.replace("<![CDATA[", "").replace("]]>", ""))
    text = text.replace("\\'", "'").replace('\\"', '"').strip()
    return text[1:-1] if text[:1] == text[-1:] == '"' else text
