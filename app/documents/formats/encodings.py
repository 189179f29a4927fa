"""How text files store characters: the encoding that a file declares, UTF-8, UTF-16, or what its bytes look like."""

from __future__ import annotations

import codecs
import contextlib
import re
from collections.abc import Iterable
from dataclasses import dataclass

from app.errors import DocumentRefused

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # begins like UTF-16
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_BINARY = (b"PK\x03\x04", b"%PDF", b"\xd0\xcf\x11\xe0", b"\x1f\x8b", b"{\\rtf")
_CONTROL = re.compile("[\x00-\x06\x0e-\x19\x7f-\x9f]")
"""What no text has. Latin-1 with such characters is Windows-1252; the end-of-file sign of DOS (0x1A) is allowed."""

_KNOWN = re.compile(
    r"cp\d+|iso8859-\d+|iso2022_\w+|koi8-[rtu]|mac-\w+|gb2312|gbk|gb18030|hz|big5\w*|euc_\w+|shift_jis\w*|johab"
    r"|tis-620|ascii|utf-8"
)
"""Codecs of files. Others that Python knows, such as punycode, are none, and some are slow. UTF-16 is never declared in
bytes that look like ASCII."""

_SUPERSETS = {
    "ascii": "cp1252",
    "iso8859-1": "cp1252",
    "iso8859-9": "cp1254",
    "tis-620": "cp874",
    "shift_jis": "cp932",
    "euc_kr": "cp949",
    "big5": "cp950",
    "gb2312": "gb18030",
    "gbk": "gb18030",
}
"""What programs write when they declare these encodings, and browsers read."""

_MULTIBYTE = ("iso2022", "cp9", "gb", "hz", "big5", "euc", "shift", "johab")
_LATIN = ["cp1252", "cp1250", "cp1254", "cp1257", "iso8859_2", "mac_roman"]
_OTHER_SCRIPTS = [
    *("cp1251", "koi8_r", "cp866", "iso8859_5", "cp1253", "cp1255", "cp1256", "cp874"),
    *("cp932", "euc_jp", "gb18030", "big5", "cp949"),
]
_HEAD_BYTES = 4096
_SAMPLE_BYTES = 50_000
_CHAOS_WEIGHT = 5
_MARGIN = 0.025
"""By how much a text must look better in another encoding than in Windows-1252; chosen on the corpus of chardet."""

_FEW_BYTES = 8
"""So few bytes beyond ASCII do not show a script."""


@dataclass(frozen=True)
class Declaration:
    """How the files of a format declare their encoding.

    Args:
        pattern: Matches the declaration in the beginning of a file; its group ``name`` is the encoding.
        has_references: Whether the format has character references (``&#8364;``).
    """

    pattern: re.Pattern[bytes]
    has_references: bool = False


_XML = rb"^(?:\xef\xbb\xbf)?\s*+<\?xml\b[^<>]*?\bencoding\s*=\s*[\"']\s*(?P<name>[\w.:-]+)"
XML = Declaration(re.compile(_XML), has_references=True)
HTML = Declaration(
    re.compile(_XML + rb"|<meta\b[^<>]*?\bcharset\s*=\s*[\"']?\s*(?P<meta>[\w.:-]+)", re.IGNORECASE),
    has_references=True,
)
GETTEXT = Declaration(re.compile(rb'Content-Type:[^"\n\\]*?\bcharset=(?P<name>[\w.:-]+)', re.IGNORECASE))


@dataclass(frozen=True)
class TextEncoding:
    """The encoding of a text file.

    Args:
        name: Python's name of it.
        mark: The byte order mark at the beginning, or nothing.
        declaration: How the file declares it, if it does.
        has_returns: Whether its lines end in CR alone. In its text they end in LF.
    """

    name: str
    mark: bytes = b""
    declaration: Declaration | None = None
    has_returns: bool = False

    def encode(self, text: str) -> bytes:
        """The bytes of a file with this text.

        Characters that the encoding lacks are written as references. Without references the file becomes UTF-8, which
        its declaration then names, or a byte order mark shows.
        """
        text = text.replace("\n", "\r") if self.has_returns else text
        with contextlib.suppress(UnicodeEncodeError):
            return self.mark + text.encode(self.name)
        if self.declaration is None:
            return codecs.BOM_UTF8 + text.encode()
        if self.declaration.has_references:
            return text.encode(self.name, "xmlcharrefreplace")
        data = text.encode()
        declared = self.declaration.pattern.search(data, 0, _HEAD_BYTES)
        return data if declared is None else data[: declared.start("name")] + b"UTF-8" + data[declared.end("name") :]


def decoded(data: bytes, declaration: Declaration | None = None) -> tuple[str, TextEncoding]:
    """The characters of a text file and their encoding. Line ends are as they are, but LF if all are CR.

    Args:
        data: The file.
        declaration: How its format declares the encoding.

    Raises:
        DocumentRefused: It is no text, or its encoding is unknown.
    """
    if data.startswith(_BINARY):
        raise DocumentRefused("The file is no text; its name has the wrong ending.")
    mark, name = next(((mark, name) for mark, name in _MARKS if data.startswith(mark)), (b"", ""))
    name = name or _without_mark(data)
    if name:
        text, encoding = _decoded_unicode(data, mark, name), TextEncoding(name, mark)
    else:
        text, encoding = _decoded_declared(data, declaration)
    position = text.find("\0")
    if position >= 0:
        raise DocumentRefused(f"The file is no text: it holds the NUL character at {position}.")
    if "\r" in text and "\n" not in text:
        return text.replace("\r", "\n"), TextEncoding(encoding.name, mark, encoding.declaration, has_returns=True)
    return text, encoding


def _without_mark(data: bytes) -> str:
    """UTF-16 without a byte order mark, by the NUL in most of its characters; otherwise empty."""
    head = data[:_HEAD_BYTES]
    zeros = [head[start::2].count(0) for start in (0, 1)]
    if not head or len(data) % 2 or min(zeros) > 0 or 5 * max(zeros) < len(head):
        return ""
    return "utf-16-be" if zeros[0] else "utf-16-le"


def _decoded_unicode(data: bytes, mark: bytes, name: str) -> str:
    try:
        return data[len(mark) :].decode(name)
    except UnicodeDecodeError as error:
        raise DocumentRefused(
            f"The file is not {name.upper()} at byte {error.start + len(mark)}; save it as UTF-8."
        ) from None


def _decoded_declared(data: bytes, declaration: Declaration | None) -> tuple[str, TextEncoding]:
    """The characters in the encoding that a file declares, else in UTF-8, else in the most probable one.

    UTF-8 with characters beyond ASCII is what it is, whatever encoding of single bytes the file declares.
    """
    candidates = _declared(data, declaration)
    declaration = declaration if candidates else None
    if not candidates or not (data.isascii() or candidates[0].startswith(_MULTIBYTE)):
        try:
            return data.decode(), TextEncoding("utf-8", declaration=declaration)
        except UnicodeDecodeError as error:
            if _is_damaged_utf_8(data):
                raise DocumentRefused(f"The file is not UTF-8 at byte {error.start}; save it as UTF-8.") from None
    decoding = _first_decoding(data, candidates) or _first_decoding(data, [_most_probable(data), "cp1252"])
    if decoding is not None:
        return decoding[0], TextEncoding(decoding[1], declaration=declaration)
    raise DocumentRefused("The encoding of the file is unknown; save it as UTF-8.")


def _declared(data: bytes, declaration: Declaration | None) -> list[str]:
    """Python's names of the encoding that a file declares, and of the one that it may have instead."""
    match = declaration.pattern.search(data, 0, _HEAD_BYTES) if declaration else None
    label = (match[match.lastgroup or 0] if match else b"").decode("ascii", "replace")
    try:
        name = codecs.lookup(label).name
    except (LookupError, ValueError):
        return []
    if not _KNOWN.fullmatch(name):
        return []
    return [name, _SUPERSETS[name]] if name in _SUPERSETS else [name]


def _first_decoding(data: bytes, names: Iterable[str]) -> tuple[str, str] | None:
    """The characters in the first encoding that is not a wrong one, and its name."""
    for name in names:
        with contextlib.suppress(UnicodeDecodeError, ValueError):
            text = data.decode(name)
            if not _CONTROL.search(text):
                return text, name
    return None


def _is_damaged_utf_8(data: bytes) -> bool:
    """Whether most characters beyond ASCII are UTF-8."""
    text = data[:_SAMPLE_BYTES].decode("utf-8", "replace")
    num_characters = sum(len(part) for part in re.findall("[^\0-\x7f]+", text))
    return num_characters > 4 * text.count("\ufffd")


def _most_probable(data: bytes) -> str:
    """The encoding of a text that is not UTF-8. Of two that are about as probable it is Windows-1252."""
    import charset_normalizer  # here: most files are UTF-8

    sample = data[: data.rfind(b"\n", 0, _SAMPLE_BYTES) + 1] if len(data) > _SAMPLE_BYTES else data
    sample = sample or data[:_SAMPLE_BYTES]
    num_high = len(sample.translate(None, bytes(range(128))))
    if num_high < _FEW_BYTES and _first_decoding(sample, ["cp1252"]):
        return "cp1252"
    # Letters with accents stand alone between others; those of other scripts stand together.
    together = sum(map(len, re.findall(rb"[\x80-\xff]{2,}", sample))) / max(num_high, 1)
    is_latin = together < 0.5 or (together < 0.8 and num_high < len(re.findall(rb"[A-Za-z]", sample)))
    matches = charset_normalizer.from_bytes(sample, cp_isolation=_LATIN if is_latin else _OTHER_SCRIPTS)
    fitness = {
        name: match.coherence - _CHAOS_WEIGHT * match.chaos for match in matches for name in match.could_be_from_charset
    }
    best = max(fitness, key=fitness.__getitem__, default="cp1252")
    is_usual = fitness.get("cp1252", float("-inf")) >= fitness.get(best, 0.0) - _MARGIN
    return "cp1252" if is_usual else codecs.lookup(best).name
