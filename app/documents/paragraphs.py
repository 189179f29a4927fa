"""The XML of two office documents, compared element by element; in a paragraph the order is free, as words move."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from lxml import etree

from app.documents.formats.xml_parts import local_name
from app.serving.detection import has_letters
from model.text.protection import find_spans

_PARAGRAPHS = frozenset({"p", "h", "si", "is"})
_NOTE = "spreadsheetml/2006/main}text"
_RUNS = frozenset(
    {"r", "t", "rPr", "span", "s", "proofErr", "lastRenderedPageBreak", "noBreakHyphen", "rPh", "phoneticPr"}
)
"""What a translation divides otherwise, or what programs add when they save a document."""

_TRANSLATED = frozenset(
    {"title", "desc", "t", "index-title-template", "subject", "description", "keywords", "keyword", "language"}
)
_TRANSLATED_ATTRIBUTES = frozenset(
    {
        "descr",
        "title",
        "alt",
        "label",
        "num-prefix",
        "num-suffix",
        "num-list-format",
        "string",
        "string-value",
        "fullCalcOnLoad",
        "tooltip",
        "lang",
        *(f"{name}{script}" for name in ("language", "country") for script in ("", "-asian", "-complex")),
        *(f"{name}{script}" for name in ("rfc-language-tag", "script") for script in ("", "-asian", "-complex")),
    }
)
_TRANSLATED_VALUES = frozenset({"lvlText", "tblCaption", "tblDescription", "lang"})
"""Elements whose value is translated, or is the language."""

_CHECKING = frozenset({"lang", "altLang", "dirty", "err", "smtClean", "noProof", "bmk"})
"""Properties of runs for spelling checkers and the like."""

_FORMATTED = ("{*}r", "{*}span")

PartDifference = tuple[str, str, str]
"""Where, what is expected, and what is there."""


def part_differences(before: etree._Element, after: etree._Element, place: str = "") -> Iterator[PartDifference]:
    """The differences between an element of a source and that of its translation.

    Args:
        before: The element of the source.
        after: The one of the translation.
        place: The names of the elements around it.
    """
    name = local_name(before)
    place = f"{place}/{name}"
    if _tag(before) != _tag(after):
        yield place, _tag(before), _tag(after)
    elif _is_paragraph(before):
        yield from _paragraph_differences(before, after, place)
    else:
        texts = [" ".join((element.text or "").split()) for element in (before, after)]
        if texts[0] != texts[1] and name not in _TRANSLATED:
            yield place, texts[0], texts[1]
        names = [[local_name(child) for child in element] for element in (before, after)]
        if names[0] != names[1]:
            yield place, " ".join(names[0]), " ".join(names[1])
            return
        for number, (child, other) in enumerate(zip(before, after, strict=True), start=1):
            yield from part_differences(child, other, f"{place}[{number}]")


def _is_paragraph(element: etree._Element) -> bool:
    return local_name(element) in _PARAGRAPHS or str(element.tag).endswith(_NOTE)


def _paragraph_differences(before: etree._Element, after: etree._Element, place: str) -> Iterator[PartDifference]:
    counts: list[Counter[str]] = [Counter(), Counter()]
    inner: list[list[etree._Element]] = [[], []]
    for element, count, paragraphs in zip((before, after), counts, inner, strict=True):
        _count(element, count, paragraphs)
    texts = [_own_text(element) for element in (before, after)]
    place = f"{place} ({' '.join(texts[0].split())[:40]!r})"
    for tag in (counts[0] - counts[1]) + (counts[1] - counts[0]):
        yield place, f"{tag} {counts[0][tag]} times", f"{counts[1][tag]} times"
    if texts[0].split() != texts[1].split() and not has_letters(texts[0]):
        yield place, texts[0], texts[1]
    for start, end in find_spans(texts[0]):
        span = texts[0][start:end]
        whole = re.compile(rf"(?<!\w){re.escape(span)}(?!\w)" if span.isalnum() else re.escape(span))
        if len(whole.findall(texts[1])) < len(whole.findall(texts[0])):
            yield place, span, texts[1]
    formats = [set(_formats(element)) for element in (before, after)]
    for formatting in sorted(formats[0] - formats[1]):
        yield place, f"words with {formatting}", "none"
    for child, other in zip(*inner, strict=False):  # their number is counted above
        yield from part_differences(child, other, place)


def _count(element: etree._Element, count: Counter[str], paragraphs: list[etree._Element]) -> None:
    """Count the elements in a paragraph but outside the paragraphs in it, which are collected."""
    for child in element:
        name = local_name(child)
        if name not in _RUNS:
            count[_tag(child)] += 1
        if _is_paragraph(child):
            paragraphs.append(child)
        elif name != "rPr":
            _count(child, count, paragraphs)


def _own_text(element: etree._Element) -> str:
    """The text of a paragraph without the paragraphs in it."""
    parts = [element.text or ""] if local_name(element) not in ("instrText", "delText", "posOffset") else []
    for child in element:
        name = local_name(child)
        if name == "rPr":
            continue
        if name not in _RUNS or name == "s":
            parts.append(" ")
        elif name == "noBreakHyphen":
            parts.append("\u2011")
        if name and not _is_paragraph(child):
            parts.append(_own_text(child))
        if name not in _RUNS:
            parts.append(" ")
        parts.append(child.tail or "")
    return "".join(parts)


def _formats(paragraph: etree._Element) -> Iterator[str]:
    """The formattings of the runs in a paragraph that have words."""
    for run in paragraph.iter(*_FORMATTED):
        if not has_letters("".join(map(str, run.itertext()))):
            continue
        properties = run.find("{*}rPr")
        if properties is not None:
            parts = [f'{name!s}="{value!s}"' for name, value in properties.attrib.items() if name not in _CHECKING]
            parts += [_tag(child) for child in properties if local_name(child) not in _CHECKING]
            yield from filter(None, [" ".join(sorted(parts))])
        elif local_name(run) == "span":
            yield _tag(run)


def _tag(element: etree._Element) -> str:
    """An element as it is compared: its name and those of its attributes that are not translated."""
    shown = [local_name(element)]
    for key, value in sorted(element.attrib.items()):
        name = str(key).rpartition("}")[2]
        is_value = shown[0] in _TRANSLATED_VALUES and name in ("val", "eastAsia", "bidi")
        is_column = shown[0] == "tableColumn" and name == "name"
        if is_column or (shown[0] == "t" and name == "space"):
            continue
        if name not in _TRANSLATED_ATTRIBUTES and not name.startswith("rsid") and not is_value:
            shown.append(f'{name}="{value!s}"')
    return f"<{' '.join(shown)}>"
