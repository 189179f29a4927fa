"""YAML: strings that are values are translated; names, comments, other values and the layout are kept."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

import yaml

from app.documents.formats.catalogues.catalogue import CatalogueFile
from app.documents.formats.languages import is_language_code, names_same_language
from app.errors import DocumentRefused

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_STRING = "tag:yaml.org,2002:str"
_PROPERTIES = re.compile(r"(?:[&!]\S*+\s++)*+")
_PLAIN = re.compile(r"(?![-?:](?:\s|\Z))[^\s,\[\]{}#&*!|>'\"%@`](?:[^\n\r:#]|:(?=\S)|(?<=\S)#)*+(?<!\s)")
_FLOW_SIGN = re.compile(r"\A[-?:]|[,\[\]{}]")
_LINE_END = re.compile("[\n\x85\u2028\u2029]")
_SPACE = " \t\r\n"
_MAX_DEPTH = 200


@dataclass(slots=True)
class _Collection:
    """A mapping or sequence whose end is not read.

    Args:
        is_mapping: Whether it is a mapping.
        is_flow: Whether it is written in brackets.
        at_name: Whether a name of the mapping is next, and not its value.
        name: The last name.
    """

    is_mapping: bool
    is_flow: bool
    at_name: bool
    name: str = ""


class YamlStrings(CatalogueFile):
    """A YAML file, such as the locales of Rails and Symfony.

    If its only name at the top is a language code, it becomes that of the target language.

    Args:
        data: The file.

    Raises:
        DocumentRefused: It is not valid YAML.
    """

    has_choices = True

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self._roots: list[yaml.ScalarEvent] = []
        self._resolver: Any = yaml.resolver.Resolver()
        try:
            self._read()
        except (yaml.YAMLError, RecursionError) as error:
            problem = getattr(error, "problem", None) or "it is not well-formed"
            raise DocumentRefused(f"The file is no YAML: {problem}.") from None

    def _read(self) -> None:
        around: list[_Collection] = []
        for event in yaml.parse(self.text, Loader=_LOADER):
            if isinstance(event, yaml.CollectionStartEvent):
                is_mapping = isinstance(event, yaml.MappingStartEvent)
                around.append(_Collection(is_mapping, bool(event.flow_style), at_name=is_mapping))
                if len(around) > _MAX_DEPTH:
                    raise DocumentRefused(f"The file has more than {_MAX_DEPTH} levels.")
                continue
            if isinstance(event, yaml.CollectionEndEvent):
                around.pop()
            elif isinstance(event, yaml.ScalarEvent) and around and around[-1].at_name:
                around[-1].name = event.value
                self._roots += [event] if len(around) == 1 else []
            elif isinstance(event, yaml.ScalarEvent):
                key = ".".join(collection.name for collection in around if collection.is_mapping)
                self._add_scalar(key, event, bool(around) and around[-1].is_flow)
            elif not isinstance(event, yaml.AliasEvent):
                continue
            if around and around[-1].is_mapping:
                around[-1].at_name = not around[-1].at_name

    def _add_scalar(self, key: str, event: yaml.ScalarEvent, is_flow: bool) -> None:
        start, end = _span(event)
        if event.tag not in (None, "!", _STRING):
            return
        if event.anchor or event.tag:
            properties = _PROPERTIES.match(self.text, start, end)
            start = properties.end() if properties else start
        if event.style == '"':
            self.add_value(key, start, end, event.value, _double_quoted)
        elif event.style == "'":
            self.add_value(key, start, end, event.value, _single_quoted)
        elif event.style in ("|", ">"):
            self._add_block(key, start, end, event)
        elif self._is_string(event.value):
            self.add_value(key, start, end, event.value, lambda text: self._plain(text, is_flow))

    def _add_block(self, key: str, start: int, end: int, event: yaml.ScalarEvent) -> None:
        raw = self.text[start:end].rstrip(_SPACE)
        header, _, body = raw.partition("\n")
        lines = [line for line in body.split("\n") if line.strip(_SPACE)]
        if not lines or (event.style == ">" and re.search(r"(?m)^[ \t]", event.value)):
            return  # lines of a folded text that are indented further are not joined
        indentation = min((line[: len(line) - len(line.lstrip(_SPACE))] for line in lines), key=len)
        line_end = "\r\n" if header.endswith("\r") else "\n"

        def write(text: str) -> str:
            if event.style == ">":
                text = re.sub(r"\n++", lambda breaks: breaks[0] + "\n", text)
            text = text if event.value[:1].isspace() else text.lstrip()
            written = [indentation + line if line else "" for line in _LINE_END.split(text)]
            return line_end.join([header.rstrip("\r"), *written])

        self.add_value(key, start, start + len(raw), event.value.rstrip("\n"), write)

    def _is_string(self, text: str) -> bool:
        """Whether a text without quotation marks is a string, and no number, date or the like."""
        return bool(self._resolver.resolve(yaml.ScalarNode, text, (True, False)) == _STRING)

    def _plain(self, text: str, is_flow: bool) -> str:
        """A text without quotation marks, if it is the same string without them."""
        is_plain = _PLAIN.fullmatch(text) and self._is_string(text) and not (is_flow and _FLOW_SIGN.search(text))
        return text if is_plain else _single_quoted(text)

    def to_bytes(self, target: str) -> bytes:
        """The file; the only name at its top becomes the target language, if it is a language."""
        root = self._roots[0] if len(self._roots) == 1 else None
        if root and self.is_changed and is_language_code(root.value) and not names_same_language(root.value, target):
            self.replace(*_span(root), target)
        return super().to_bytes(target)


def _span(event: yaml.ScalarEvent) -> tuple[int, int]:
    """The first character of a scalar in the file, and the one after its last."""
    assert event.start_mark is not None and event.end_mark is not None
    return event.start_mark.index, event.end_mark.index


def _double_quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _single_quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'" if text.isprintable() else _double_quoted(text)
