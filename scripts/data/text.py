"""Text of files, as the extractors share it."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from model.errors import DataError
from model.training.corpus import Pair

MAX_FILE_BYTES = 64 << 20
"""No text of a source is larger; a larger one is not what was pinned."""

_SPACE = re.compile(r"\s+")
_TAG = re.compile(r"<[^>]+>")
_NO_TEXT = re.compile(r"(?s)<(script|style)\b.*?</\1>|<br */?>")
_EMPTY_LINK_OR_IMAGE = re.compile(r"<a [^<>]*></a>|!\[[^\]]*\]\([^)]*\)")
_LINK = re.compile(r"(?<!!)\[([^\]\[]*)\]\([^)]*\)")
_EMPHASIS = re.compile(r"\*\*|__|(?<!\w)[*_](?=\w)|(?<=[\w.!?])[*_](?!\w)")
_LINE_START = re.compile(r"^\s*(?:>|#+|[-*+]|\d+\.)\s+")
_PRODUCT = re.compile(r"(?i)\[!INCLUDE ?\[prod_(?:short|long)\]\([^)]*\)\]")


def read(path: Path) -> str:
    """The text of a file; bytes that are not UTF-8 become replacement characters.

    Raises:
        DataError: It is larger than :data:`MAX_FILE_BYTES`.
    """
    check_size(path, path.stat().st_size)
    return path.read_bytes().decode("utf-8", "replace").replace("\r\n", "\n").replace("\r", "\n")


def check_size(name: object, num_bytes: int) -> None:
    """Refuse to read a text that is too large.

    Raises:
        DataError: It is larger than :data:`MAX_FILE_BYTES`.
    """
    if num_bytes > MAX_FILE_BYTES:
        raise DataError(f"{name} has {num_bytes:,} bytes; no text of a source has more than {MAX_FILE_BYTES:,}.")


def tidy(text: str) -> str:
    """The text in one line, without character references."""
    return _SPACE.sub(" ", html.unescape(text)).strip()


def without_tags(text: str) -> str:
    """The text without what is between angle brackets."""
    end = text.rfind(">") + 1  # so that each bracket is closed, and the search takes linear time
    return _TAG.sub("", text[:end]) + text[end:]


def strip_tags(text: str) -> str:
    """The text of HTML or XML, in one line."""
    return tidy(without_tags(_NO_TEXT.sub(" ", text)))


def from_markdown(text: str) -> str:
    """The text of a line of Markdown. What has no plain form keeps a sign that :mod:`~scripts.data.cleaning` drops."""
    text = _EMPTY_LINK_OR_IMAGE.sub("", _PRODUCT.sub("Business Central", text))
    return _LINE_START.sub("", _EMPHASIS.sub("", _LINK.sub(r"\1", text)))


def lines_of(source: str, target: str) -> Iterator[Pair]:
    """The lines of two texts if both have the same number of them, otherwise the texts."""
    sides = [[line for line in text.split("\n") if line.strip()] for text in (source, target)]
    if len(sides[0]) == len(sides[1]):
        yield from zip(*sides, strict=True)
    elif all(sides):
        yield " ".join(sides[0]), " ".join(sides[1])


def common_files(source: Path, target: Path, ending: str) -> Iterator[tuple[Path, Path]]:
    """The files of two folders that have the same path and an ending, in the order of their paths."""
    for path in sorted(target.rglob(f"*{ending}")):
        other = source / path.relative_to(target)
        if other.is_file():
            yield other, path


def siblings(folder: Path, source: str, target: str) -> Iterator[tuple[Path, Path]]:
    """Files beside each other whose names differ in the language, wherever they are in a folder.

    Args:
        folder: Searched with all its folders.
        source: The name of a file with the original; ``{}`` is what the asterisk of ``target`` stands for.
        target: The name of its translation, with an asterisk.
    """
    begin, _, end = target.partition("*")
    for path in sorted(folder.rglob(target)):
        middle = path.name.removeprefix(begin).removesuffix(end)
        if originals := sorted(path.parent.glob(source.replace("{}", middle))):
            yield originals[0], path


def same_keys(source: dict[str, str], target: dict[str, str]) -> Iterable[Pair]:
    """The messages of two catalogues with the same key, in the order of the first."""
    return ((text, target[key]) for key, text in source.items() if key in target)
