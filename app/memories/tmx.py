"""TMX 1.4, the exchange format of translation memories: read and written piece by piece, in bounded memory.

Only the text of segments is used. Entities cannot be declared, nothing outside the file is read, and elements, nesting
and the size of each piece have limits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from xml.parsers import expat
from xml.sax.saxutils import escape, quoteattr

from app.memories.unit import MAX_TEXT_CHARACTERS, StoredUnit

MEDIA_TYPE = "application/x-tmx+xml"

MAX_NESTING = 20
"""Elements in one another; those of TMX are nested six deep, and markup in a segment may be nested further."""

MAX_LANGUAGES = 100
"""Most translations of one unit."""

_MAX_TAG_BYTES = 1_000_000
"""A tag, comment or declaration is kept in memory until it ends."""

_FEED_BYTES = 65_536

_MAX_SEGMENT_CHARACTERS = 2 * MAX_TEXT_CHARACTERS
"""Characters of a segment that are kept, with whitespace that is not stored."""

_CODES = frozenset({"bpt", "ept", "it", "ut"})
"""Elements of a segment that hold native codes; so does ``ph``, which may also hold a placeholder such as ``%s``."""


class TmxRefused(ValueError):
    """A file is not valid TMX, or exceeds a limit; the message says where."""


@dataclass(frozen=True)
class TmxUnit:
    """A translation unit.

    Args:
        texts: Its texts by language, as the file names it.
    """

    texts: Mapping[str, str]


@dataclass
class _OpenUnit:
    """A unit that is being read."""

    texts: dict[str, str] = field(default_factory=dict)
    language: str = ""
    parts: list[str] = field(default_factory=list)
    num_characters: int = 0


class TmxReader:
    """Reads a file piece by piece."""

    def __init__(self) -> None:
        """The beginning of a file."""
        self.source_language = ""
        """The language of the source texts, as the header names it; empty if it names none."""
        self._parser = expat.ParserCreate()
        self._parser.buffer_text = True
        self._parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_NEVER)
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._add_text
        self._parser.EntityDeclHandler = self._refuse_entity
        self._parser.SkippedEntityHandler = self._refuse_entity
        self._names: list[str] = []
        self._units: list[TmxUnit] = []
        self._unit: _OpenUnit | None = None
        self._hidden: list[str] = []  # names of the open elements that hold native codes
        self._placeholder: list[str] = []
        self._num_fed = 0

    def feed(self, data: bytes) -> list[TmxUnit]:
        """The units that end in the next bytes.

        Args:
            data: The bytes.

        Raises:
            TmxRefused: They are not TMX, or exceed a limit.
        """
        for begin in range(0, len(data), _FEED_BYTES):
            piece = data[begin : begin + _FEED_BYTES]
            self._parse(piece, is_last=False)
            self._num_fed += len(piece)
            if self._num_fed - max(0, self._parser.CurrentByteIndex) > _MAX_TAG_BYTES:
                raise TmxRefused(f"A tag or comment has more than {_MAX_TAG_BYTES} bytes ({self._position()}).")
        return self._taken()

    def close(self) -> list[TmxUnit]:
        """The units at the end of the file.

        Raises:
            TmxRefused: The file is cut off.
        """
        self._parse(b"", is_last=True)
        return self._taken()

    def _parse(self, data: bytes, *, is_last: bool) -> None:
        try:
            self._parser.Parse(data, is_last)
        except expat.ExpatError as error:
            reason = expat.ErrorString(error.code)
            raise TmxRefused(
                f"The file is not well-formed XML: {reason} (line {error.lineno}, column {error.offset + 1})."
            ) from None
        except (LookupError, ValueError) as error:  # an unknown encoding
            if isinstance(error, TmxRefused):
                raise
            raise TmxRefused(f"The file is not well-formed XML: {str(error)[:200]}.") from None

    def _taken(self) -> list[TmxUnit]:
        units, self._units = self._units, []
        return units

    def _position(self) -> str:
        return f"line {self._parser.CurrentLineNumber}"

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        name = name.rpartition(":")[2]
        if not self._names and name != "tmx":
            raise TmxRefused(f"The file is not TMX: its first element is {name[:50]!r} and must be 'tmx'.")
        self._names.append(name)
        if len(self._names) > MAX_NESTING:
            raise TmxRefused(f"More than {MAX_NESTING} elements are nested ({self._position()}).")
        unit = self._unit
        if name == "header":
            self.source_language = attributes.get("srclang", "").strip()[:100]
        elif name == "tu":
            self._unit = _OpenUnit()
        elif unit is None:
            return
        elif name == "tuv":
            unit.language = (attributes.get("xml:lang") or attributes.get("lang", "")).strip()[:100]
            unit.parts, unit.num_characters = [], 0
        elif "seg" in self._names[:-1]:
            if name in _CODES or (name == "sub" and self._placeholder):
                self._hidden.append(name)
            elif name == "ph" and not self._hidden:
                self._placeholder = [""]

    def _end(self, name: str) -> None:
        name = self._names.pop()
        unit = self._unit
        if unit is None:
            return
        if self._hidden and self._hidden[-1] == name:
            self._hidden.pop()
        elif name == "ph" and self._placeholder and not self._hidden:
            code, self._placeholder = "".join(self._placeholder), []
            if not code.lstrip().startswith("<"):
                self._add_text(code)
        elif name == "tuv":
            text = "".join(unit.parts).strip()
            if text and unit.language and len(unit.texts) < MAX_LANGUAGES:
                unit.texts.setdefault(unit.language, text)
        elif name == "tu":
            self._units.append(TmxUnit(unit.texts))
            self._unit = None

    def _add_text(self, text: str) -> None:
        unit = self._unit
        if unit is None or self._hidden or "seg" not in self._names:
            return
        if self._placeholder:
            if len(self._placeholder) < MAX_TEXT_CHARACTERS:
                self._placeholder.append(text)
            return
        unit.num_characters += len(text)
        if unit.num_characters <= _MAX_SEGMENT_CHARACTERS:
            unit.parts.append(text)
        else:
            unit.parts.clear()  # the unit will be skipped

    def _refuse_entity(self, name: str, *_: object) -> None:
        raise TmxRefused(f"The file declares or uses the entity {name[:50]!r}; write characters as themselves.")


def tmx_beginning(source: str) -> bytes:
    """The beginning of a file.

    Args:
        source: The language of its source texts.
    """
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n<tmx version="1.4">\n'
        '<header creationtool="Verso" creationtoolversion="1" segtype="sentence" o-tmf="Verso" adminlang="en" '
        f'srclang={quoteattr(source)} datatype="plaintext"/>\n<body>\n'
    ).encode()


def tmx_units(source: str, units: Iterable[StoredUnit]) -> bytes:
    """Units of a file.

    Args:
        source: The language of their source texts.
        units: The units.
    """
    return "".join(
        f'<tu creationdate="{_date(unit.created)}" changedate="{_date(unit.updated)}">'
        f"<tuv xml:lang={quoteattr(source)}><seg>{_escaped(unit.source)}</seg></tuv>"
        f"<tuv xml:lang={quoteattr(unit.language)}><seg>{_escaped(unit.target)}</seg></tuv></tu>\n"
        for unit in units
    ).encode()


TMX_END = b"</body>\n</tmx>\n"
"""The end of a file."""


def _date(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y%m%dT%H%M%SZ")


_FORBIDDEN = dict.fromkeys([*range(9), 11, 12, *range(14, 32), 0xFFFE, 0xFFFF])
"""Characters that XML 1.0 cannot have."""


def _escaped(text: str) -> str:
    return escape(text.translate(_FORBIDDEN), {"\r": "&#13;"})
