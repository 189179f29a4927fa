"""A text as sentences the model can take, and back: what stands between sentences is kept as it was.

Sentence boundaries come from the library sentencex, line by line. A sentence the model cannot take whole is split
further, at punctuation if there is any, else at spaces, else between characters; nothing is cut away.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import sentencex

_LINE = re.compile(r"[^\r\n\v\f\x1c-\x1e\x85\u2028\u2029]+")
# Looks back rather than matches "[...]+", which on ten thousand exclamation marks takes seconds.
_AFTER_CLAUSE = re.compile(r"(?<=[;:,.!?…—–)\]}»”])(?=\s)|(?<=\s)(?=[—–(\[{«„“])")
_AFTER_SPACE = re.compile(r"(?<!\s)\s")
_ZERO_WIDTH_JOINER = "\u200d"
_FLAG_LETTER = re.compile("[\U0001f1e6-\U0001f1ff]")
# Skin tones, and the tags that spell flags such as Scotland's.
_EMOJI_TAIL = re.compile("[\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_FIRST_REACH = 64


@dataclass(frozen=True)
class Segment:
    """One unit to translate: ``text[start:end]``, never empty, without white space at its ends.

    Args:
        start: Its first character.
        end: One past its last character.
    """

    start: int
    end: int


def split_text(text: str, language: str, fits: Callable[[str], bool]) -> list[Segment]:
    """The sentences of a text, in order.

    Args:
        text: Any text.
        language: Its language, for abbreviations and the like.
        fits: Whether the model can take a string as one unit; asked once about a sentence that fits, and about
            a dozen strings of bounded length for each piece of one that does not.

    Returns:
        Segments that hold every visible character of the text.
    """
    segments: list[Segment] = []
    for line in _LINE.finditer(text):
        for start, end in _sentences(line[0], language, line.start()):
            segments += _split_long(text, start, end, fits)
    return segments


def join_text(text: str, segments: Sequence[Segment], translations: Sequence[str]) -> str:
    """The text with each segment replaced by its translation.

    Args:
        text: The text that was split.
        segments: Its segments.
        translations: One for each segment.
    """
    parts: list[str] = []
    done = 0
    for segment, translation in zip(segments, translations, strict=True):
        parts += [text[done : segment.start], translation]
        done = segment.end
    return "".join([*parts, text[done:]])


def _sentences(line: str, language: str, offset: int) -> Iterator[tuple[int, int]]:
    # Half a surrogate pair, which JSON can bring into a string, is no text to the library: U+FFFD stands in for it.
    line = _SURROGATE.sub("\ufffd", line)
    sentences = list(sentencex.segment(language, line))
    if "".join(sentences) != line:
        # The library promises to lose nothing; if it ever does, an unsplit line is the safe answer.
        sentences = [line]
    position = offset
    for sentence in sentences:
        start, end = _trim(sentence, 0, len(sentence))
        if start < end:
            yield position + start, position + end
        position += len(sentence)


def _trim(text: str, start: int, end: int) -> tuple[int, int]:
    while start < end and text[start].isspace():
        start += 1
    while start < end and text[end - 1].isspace():
        end -= 1
    return start, end


def _split_long(text: str, start: int, end: int, fits: Callable[[str], bool]) -> list[Segment]:
    # Nearly every sentence fits, and is then measured once.
    if fits(text[start:end]):
        return [Segment(start, end)]
    segments: list[Segment] = []
    while start < end:
        reach = _reach(text, start, end, fits)
        if reach == end and fits(text[start:end]):
            segments.append(Segment(start, end))
            break
        cut = (
            _furthest([match.end() for match in _AFTER_CLAUSE.finditer(text, start, reach)], text, start, fits)
            or _furthest([match.start() for match in _AFTER_SPACE.finditer(text, start, reach)], text, start, fits)
            or _furthest(_character_breaks(text, start, reach), text, start, fits)
            # One letter under a pile of accents can be more than the model takes: the pile is torn apart.
            or _furthest(list(range(start + 1, reach)), text, start, fits)
            # A single character that does not fit: the model takes less than one; let it say so.
            or start + 1
        )
        first, last = _trim(text, start, cut)
        segments.append(Segment(first, last))
        start, _ = _trim(text, cut, end)
    return segments


def _reach(text: str, start: int, end: int, fits: Callable[[str], bool]) -> int:
    """Where to stop looking for a cut: nothing that ends further away fits, unless this is the end.

    Found by doubling, so that what remains of a long text is not measured anew for each of its segments.
    """
    length = _FIRST_REACH
    while start + length < end and fits(text[start : start + length]):
        length *= 2
    return min(start + length, end)


def _furthest(cuts: list[int], text: str, start: int, fits: Callable[[str], bool]) -> int | None:
    """The last of ``cuts`` that leaves a first part that fits; None where there is none."""
    cuts = [cut for cut in cuts if cut > start]
    low, high = -1, len(cuts)
    while high - low > 1:
        middle = (low + high) // 2
        if fits(text[start : cuts[middle]]):
            low = middle
        else:
            high = middle
    return cuts[low] if low >= 0 else None


def _character_breaks(text: str, start: int, end: int) -> list[int]:
    """Places between characters that do not tear an accent, an emoji sequence or a flag apart."""
    places: list[int] = []
    flag_letters = 0
    for place in range(start + 1, end):
        flag_letters = flag_letters + 1 if _FLAG_LETTER.match(text, place - 1) else 0
        if (
            unicodedata.category(text[place]) not in ("Mn", "Mc", "Me")
            and _ZERO_WIDTH_JOINER not in (text[place], text[place - 1])
            and not _EMOJI_TAIL.match(text, place)
            and not (flag_letters % 2 and _FLAG_LETTER.match(text, place))
        ):
            places.append(place)
    return places
