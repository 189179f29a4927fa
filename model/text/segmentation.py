"""Sentence segmentation: split a text into sentences that fit the model, and join their translations.

The library sentencex finds sentence boundaries, line by line. A sentence that is too long for the model is split
further: at punctuation if there is any, else at spaces, else between characters. No text is dropped, and the text
between sentences is kept unchanged.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import sentencex

from model.text.pieces import encodable
from model.text.symbols import Span, after_span

_LINE = re.compile(r"[^\r\n\v\f\x1c-\x1e\x85\u2028\u2029]+")
# A look-behind, as "[...]+" takes seconds on ten thousand exclamation marks.
_AFTER_CLAUSE = re.compile(r"(?<=[;:,.!?…—–)\]}»”])(?=\s)|(?<=\s)(?=[—–(\[{«„“])")
_AFTER_SPACE = re.compile(r"(?<!\s)\s")
_ZERO_WIDTH_JOINER = "\u200d"
_FLAG_LETTER = re.compile("[\U0001f1e6-\U0001f1ff]")
# Skin tones, and the tags that spell flags such as Scotland's.
_EMOJI_TAIL = re.compile("[\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f]")
_WIDE_SPACE_AFTER_INITIAL = re.compile(r"([A-Z]\s*)[^\S\x00-\x7f](?=\.)")
_GERMAN_ORDINAL = re.compile(
    r"\b(?:d(?:er|ie|as|e[mns])|[ai]m|zu[mr]|vom|beim|(?:[mds]?ein|ihr|unser|eu(?:e)?r|kein|jed|dies)(?:e[mnrs]?)?)"
    r" \d{1,3}\. *$",
    re.IGNORECASE,
)
"""The end of what the library takes for a sentence, before the noun of an ordinal: ``im 2. Stock``."""
_NEW_SENTENCE = re.compile(
    r"(?:Ich|Du|Er|Sie|Es|Wir|Ihr|Man|D(?:er|ie|as|ann|anach|ort|a|abei|aher|eshalb|ies\w*)|Ein\w*|Und|Aber|Oder|Doch"
    r"|Im|In|Am|An|Auf|Bei|Mit|Nach|Vor|Von|Zu\w*|Wenn|Als|Ob|Wie|Was|Wer|Wo|Warum|Bis|Seit|So|Dort|Hier|Jetzt|Nun"
    r"|Heute|Morgen|Gestern|Bitte|Alle|Auch|Nur|Noch|Schon|Kein\w*|Mein\w*|Sein\w*|Unser\w*)\b"
)
_FIRST_REACH = 64
_MAX_READ = 8_000
_MIN_FOLLOWING = 200
"""Characters that the library reads at once, and those that follow the end of a sentence, so that it is certain."""


@dataclass(frozen=True)
class Segment:
    """A unit of translation: ``text[start:end]``, not empty and without whitespace at its ends.

    Args:
        start: Index of its first character.
        end: Index after its last character.
    """

    start: int
    end: int


def split_text(text: str, language: str, fits: Callable[[int, int], bool], kept: Sequence[Span] = ()) -> list[Segment]:
    """The sentences of a text, in order.

    Args:
        text: Any text.
        language: Its language, which determines its abbreviations.
        fits: Whether the characters from a start to an end are short enough for the model. Called once for a sentence
            that fits, and about a dozen times, with a bounded length, for each segment of a longer sentence.
        kept: Spans in order; no sentence ends and none is split inside one.

    Returns:
        Segments that contain every visible character of the text.
    """
    segments: list[Segment] = []
    for line in _LINE.finditer(text):
        for start, end in _sentences(line[0], language, line.start()):
            segments += split_segment(text, start, end, fits, kept)
    return segments


def split_segment(
    text: str, start: int, end: int, fits: Callable[[int, int], bool], kept: Sequence[Span] = ()
) -> list[Segment]:
    """A sentence, or its parts if it does not fit; none if it is blank.

    Args:
        text: The text that contains it.
        start: Index of its first character.
        end: Index after its last character.
        fits: As for :func:`split_text`.
        kept: Spans in order; the sentence is not split inside one.
    """
    start, end = stripped(text, start, end)
    return _split_long(text, start, end, fits, lambda index: after_span(index, kept)) if start < end else []


def join_text(text: str, segments: Sequence[Segment], translations: Sequence[str]) -> str:
    """The text with each segment replaced by its translation.

    Args:
        text: The text that was split.
        segments: Its segments.
        translations: One for each segment.
    """
    parts: list[str] = []
    position = 0
    for segment, translation in zip(segments, translations, strict=True):
        parts += [text[position : segment.start], translation]
        position = segment.end
    return "".join([*parts, text[position:]])


def stripped(text: str, start: int, end: int) -> Span:
    """A part of a text without the whitespace at its ends.

    Args:
        text: The text.
        start: Index of the part's first character.
        end: Index after its last character.
    """
    while start < end and text[start].isspace():
        start += 1
    while start < end and text[end - 1].isspace():
        end -= 1
    return start, end


def _sentences(line: str, language: str, offset: int) -> Iterator[tuple[int, int]]:
    line = encodable(line)
    # The library panics on "Plan A" with a no-break space before the full stop: this space has more than one byte.
    line = _WIDE_SPACE_AFTER_INITIAL.sub(r"\1 ", line)
    sentences = list(_segmented(line, language))
    if "".join(sentences) != line:
        # The library promises sentences that add up to the line; if they do not, the line is not split.
        sentences = [line]
    if language == "de":
        sentences = list(_with_ordinals(sentences))
    position = offset
    for sentence in sentences:
        start, end = stripped(sentence, 0, len(sentence))
        if start < end:
            yield position + start, position + end
        position += len(sentence)


def _with_ordinals(sentences: Sequence[str]) -> Iterator[str]:
    """The sentences of a German line; an ordinal and its noun stay together."""
    pending: list[str] = []
    for sentence in sentences:
        if pending and (not _GERMAN_ORDINAL.search(pending[-1][-_FIRST_REACH:]) or _NEW_SENTENCE.match(sentence)):
            yield "".join(pending)
            pending = []
        pending.append(sentence)
    if pending:
        yield "".join(pending)


def _segmented(line: str, language: str) -> Iterator[str]:
    """The sentences of a line, which the library reads in parts: one of quotation marks takes it quadratic time."""
    while len(line) > _MAX_READ:
        part = line[:_MAX_READ]
        length = 0
        for sentence in sentencex.segment(language, part):
            if length + len(sentence) > _MAX_READ - _MIN_FOLLOWING:
                break
            length += len(sentence)
            yield sentence
        if not length:
            length = part.rfind(" ") + 1 or len(part)
            yield part[:length]
        line = line[length:]
    yield from sentencex.segment(language, line)


def _split_long(
    text: str, start: int, end: int, fits: Callable[[int, int], bool], outside: Callable[[int], int]
) -> list[Segment]:
    # Most sentences fit and are tested once.
    if fits(start, end):
        return [Segment(start, end)]
    segments: list[Segment] = []
    while start < end:
        reach = _reach(start, end, fits, outside)
        if reach == end and fits(start, end):
            segments.append(Segment(start, end))
            break

        def furthest(cuts: Iterable[int], begin: int = start) -> int | None:
            return _furthest([cut for cut in cuts if outside(cut) == cut], begin, fits)

        cut = (
            furthest(match.end() for match in _AFTER_CLAUSE.finditer(text, start, reach))
            or furthest(match.start() for match in _AFTER_SPACE.finditer(text, start, reach))
            or furthest(_character_breaks(text, start, reach))
            # A letter with very many combining accents can be too long for the model: split between accents.
            or furthest(range(start + 1, reach))
            # Not even one character fits: the model will report that the source is too long.
            or outside(start + 1)
        )
        first, last = stripped(text, start, cut)
        segments.append(Segment(first, last))
        start, _ = stripped(text, cut, end)
    return segments


def _reach(start: int, end: int, fits: Callable[[int, int], bool], outside: Callable[[int], int]) -> int:
    """An index after which no cut fits, or the end of the text.

    The length is doubled until it does not fit, so that the rest of a long text is not tokenised for each segment.
    """
    length = _FIRST_REACH
    while (reach := outside(start + length)) < end and fits(start, reach):
        length *= 2
    return min(reach, end)


def _furthest(cuts: list[int], start: int, fits: Callable[[int, int], bool]) -> int | None:
    """The last of ``cuts`` before which the text fits, or None; by binary search."""
    cuts = [cut for cut in cuts if cut > start]
    low, high = -1, len(cuts)
    while high - low > 1:
        middle = (low + high) // 2
        if fits(start, cuts[middle]):
            low = middle
        else:
            high = middle
    return cuts[low] if low >= 0 else None


def _character_breaks(text: str, start: int, end: int) -> list[int]:
    """Indices between characters that do not split accented letters, emoji sequences or flags."""
    indices: list[int] = []
    flag_letters = 0
    for index in range(start + 1, end):
        flag_letters = flag_letters + 1 if _FLAG_LETTER.match(text, index - 1) else 0
        if (
            unicodedata.category(text[index]) not in ("Mn", "Mc", "Me")
            and _ZERO_WIDTH_JOINER not in (text[index], text[index - 1])
            and not _EMOJI_TAIL.match(text, index)
            and not (flag_letters % 2 and _FLAG_LETTER.match(text, index))
        ):
            indices.append(index)
    return indices
