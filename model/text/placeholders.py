"""Protected spans: characters of a source that its translation contains unchanged, each exactly once.

A model that was trained for it reads a placeholder symbol instead of a span, and writes this symbol at the position of
the span in the translation. For other models, spans are cut out of the sentence, and their positions follow from
alignment. This module restores the spans and the spaces around them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from model.text.symbols import Span, TargetText, shifted

_OPENING = "([{«„‚<¿¡"
"""Characters that are never followed by a space."""

_CLOSING = ".,;:!?…)]}»“”"
"""Characters that no space precedes."""


@dataclass(frozen=True)
class ProtectedSpan:
    """A protected span, or unusual whitespace, while its sentence is translated.

    Args:
        text: Its characters.
        joins_left: Whether it must follow without a space: directly before it is a letter, a digit or another span, or
            it closes a phrase: ``Stop!</b> Go``.
        joins_right: Whether what follows it must do so without a space: a letter, a digit or another span.
        touches_left: Whether anything but whitespace is directly before it.
        touches_right: Whether anything but whitespace is directly after it.
    """

    text: str
    joins_left: bool = True
    joins_right: bool = True
    touches_left: bool = True
    touches_right: bool = True


@dataclass(frozen=True)
class Place:
    """The position of a protected span among the texts of a translation.

    Args:
        number: The span's number in its sentence.
        written: Whether the model wrote its placeholder, which is then one of the target tokens.
    """

    number: int
    written: bool


@dataclass(frozen=True)
class TargetSentence:
    """The translation of one sentence.

    Args:
        text: The translation.
        tokens: The characters that each target token covers.
        spans: The position of each protected span, in the order of the source.
        restored: For each of them, whether the model did not write it, so that its position follows from alignment.
        respelled: The numbers that replace what the model wrote: characters of the source, and of the translation.
    """

    text: str
    tokens: tuple[Span, ...]
    spans: tuple[Span, ...] = ()
    restored: tuple[bool, ...] = ()
    respelled: tuple[tuple[Span, Span], ...] = ()

    def with_respelled(self, source: Span, span: Span, new: str) -> TargetSentence:
        """The translation with a number in another form.

        Args:
            source: The number in the source.
            span: The characters of the translation that it replaces.
            new: The new form.
        """
        changed = self.with_replaced(*span, new)
        return replace(changed, respelled=(*changed.respelled, (source, (span[0], span[0] + len(new)))))

    def with_replaced(self, start: int, end: int, new: str) -> TargetSentence:
        """The translation with some of its characters replaced; tokens that cover any of them cover all new ones.

        Args:
            start: Index of the first character.
            end: Index after the last one.
            new: The new characters.
        """
        by = len(new) - (end - start)
        return replace(
            self,
            text=self.text[:start] + new + self.text[end:],
            tokens=tuple(_after_change(span, (start, end), by) for span in self.tokens),
            spans=tuple(_after_change(span, (start, end), by) for span in self.spans),
            respelled=tuple((source, _after_change(span, (start, end), by)) for source, span in self.respelled),
        )


@dataclass(frozen=True)
class TargetPrefix:
    """The given beginning of the translation of a sentence.

    Args:
        text: Its characters, which begin the translation unchanged.
        token_ids: The tokens that the model reads.
        tokens: The characters that each of these tokens covers.
        spans: Its protected spans and unusual whitespace, by their number in the sentence.
    """

    text: str
    token_ids: tuple[int, ...]
    tokens: tuple[Span, ...]
    spans: Mapping[int, Span]


def _after_change(span: Span, changed: Span, by: int) -> Span:
    """A span after characters were replaced; it contains all of the new ones if it contained any of the old.

    Args:
        span: The span before.
        changed: The characters that were replaced.
        by: The number of new characters minus that of old ones.
    """
    if span[1] <= changed[0]:
        return span
    if span[0] >= changed[1]:
        return shifted(span, by)
    return min(span[0], changed[0]), max(span[1], changed[1]) + by


def without_spans(text: str, spans: Sequence[Span]) -> str:
    """A sentence without its protected spans.

    Args:
        text: The sentence.
        spans: Its protected spans, in order.
    """
    if not spans:
        return text
    edges = [0, *(index for span in spans for index in span), len(text)]
    return "".join(text[start:end] for start, end in zip(edges[::2], edges[1::2], strict=True))


def mask_spans(text: str, spans: Sequence[Span]) -> str:
    """A text of the same length with each protected span replaced by a word, so that no sentence ends inside a span.

    Args:
        text: Any text.
        spans: Its protected spans, in order.
    """
    return _cover(text, spans, lambda length: "X" + "x" * (length - 1))


def blank_spans(text: str, spans: Sequence[Span]) -> str:
    """A text of the same length with spaces in place of each protected span.

    Args:
        text: Any text.
        spans: Its protected spans, in order.
    """
    return _cover(text, spans, lambda length: " " * length)


def break_spans(text: str, spans: Sequence[Span]) -> str:
    """A text of the same length with line breaks in place of each span.

    Args:
        text: Any text.
        spans: Spans that divide it, in order.
    """
    return _cover(text, spans, lambda length: "\n" * length)


def _cover(text: str, spans: Sequence[Span], cover: Callable[[int], str]) -> str:
    if not spans:
        return text
    parts: list[str] = []
    position = 0
    for start, end in spans:
        parts += [text[position:start], cover(end - start)]
        position = end
    return "".join([*parts, text[position:]])


def describe_spans(text: str, spans: Sequence[Span]) -> list[ProtectedSpan]:
    """The protected spans of a sentence, with the properties that restoring them needs.

    Args:
        text: The sentence.
        spans: Its protected spans, in order.
    """
    starts, ends = {start for start, _ in spans}, {end for _, end in spans}
    return [
        ProtectedSpan(
            text[start:end],
            joins_left=start > 0 and (start in ends or text[start - 1].isalnum() or _closes(text, start, end)),
            joins_right=end < len(text) and (end in starts or text[end].isalnum()),
            touches_left=start > 0 and not text[start - 1].isspace(),
            touches_right=end < len(text) and not text[end].isspace(),
        )
        for start, end in spans
    ]


def cut_spans(text: str, spans: Sequence[Span]) -> tuple[str, list[int]]:
    """Cut spans out of a sentence, together with the spaces that this leaves over.

    Args:
        text: The sentence.
        spans: The spans, in order.

    Returns:
        The remaining text, and the index in the sentence of each of its characters.
    """
    indices: list[int] = []
    position = 0
    for start, end in spans:
        indices += range(position, start)
        position = end
        space_before = not indices or text[indices[-1]].isspace()
        if space_before and (end == len(text) or text[end] in _CLOSING):
            del indices[-1:]
        elif space_before and text[end].isspace():
            position += 1
    indices += range(position, len(text))
    return "".join(text[index] for index in indices), indices


def original_spans(
    spans: Sequence[Span], origins: Sequence[int], num_characters: int, last: Sequence[int] | None = None
) -> list[Span]:
    """Map spans of the result of :func:`cut_spans` to the text.

    Args:
        spans: Spans of the remaining text.
        origins: Index in the text of each remaining character.
        num_characters: Length of the text.
        last: The index in the text after each remaining character; None if each stands for one.
    """
    starts = [*origins, num_characters]
    ends = [0, *(last or (origin + 1 for origin in origins))]
    return [(starts[start], ends[end]) if end > start else (starts[start], starts[start]) for start, end in spans]


def after_tokens(parts: Sequence[Place | TargetText], number: int) -> list[Place | TargetText]:
    """The parts of a translation after its first tokens.

    Args:
        parts: The output of the model.
        number: Number of tokens to leave out.
    """
    remaining: list[Place | TargetText] = []
    for part in parts:
        num_tokens = _num_tokens(part)
        if number and isinstance(part, TargetText) and number < num_tokens:
            remaining.append(_split(part, number)[1])
            number = 0
        elif number:
            number -= num_tokens
        else:
            remaining.append(part)
    return remaining


def with_inserted(parts: Sequence[Place | TargetText], places: Sequence[tuple[int, int]]) -> list[Place | TargetText]:
    """The parts of a translation with places inserted.

    Args:
        parts: The output of the model.
        places: The target token that each span precedes, and the span's number, in ascending order.
    """
    result: list[Place | TargetText] = []
    remaining = deque(places)
    index = 0  # tokens before the current part
    for part in parts:
        rest = part
        while remaining and remaining[0][0] < index + _num_tokens(rest):
            token, number = remaining.popleft()
            if isinstance(rest, TargetText) and token > index:
                before, rest = _split(rest, token - index)
                result.append(before)
                index = token
            result.append(Place(number, written=False))
        result.append(rest)
        index += _num_tokens(rest)
    return result + [Place(number, written=False) for _, number in remaining]


def written_places(parts: Sequence[Place | TargetText]) -> Iterator[tuple[int, int]]:
    """The index of each target token that is a placeholder, and the number of its span.

    Args:
        parts: The output of the model.
    """
    token = 0
    for part in parts:
        if isinstance(part, Place) and part.written:
            yield token, part.number
        token += _num_tokens(part)


def restore_spans(
    parts: Sequence[Place | TargetText],
    protected: Sequence[ProtectedSpan],
    num_protected: int,
    prefix: TargetPrefix | None = None,
) -> TargetSentence:
    """A translation with its protected spans at their positions.

    Args:
        parts: Texts, and the position of each protected span exactly once.
        protected: The protected spans, and then whitespace, by number.
        num_protected: Number of protected spans.
        prefix: The given beginning of the translation, if any; it has the spans that have no position in the parts.
    """
    text = ""
    tokens: list[Span] = []
    spans: dict[int, Span] = {}
    before: ProtectedSpan | None = None
    if prefix is not None:
        text, tokens, spans = prefix.text, list(prefix.tokens), dict(prefix.spans)
        before = next((protected[number] for number, span in spans.items() if span[1] == len(text)), None)
    for part in parts:
        if isinstance(part, TargetText):
            joins = before is not None and _is_joined(before, part.text)
            # Punctuation follows without a space if only a span precedes it.
            joins = joins or (not tokens and part.text[:1] in _CLOSING)
            if text and part.text and part.begins_word and not joins:
                text += " "
            tokens += [shifted(span, len(text)) for span in part.tokens]
            text, before = text + part.text, None if part.text else before
        else:
            span = protected[part.number]
            if text and not _joins(text, before, span):
                text += " "
            spans[part.number] = len(text), len(text) + len(span.text)
            if part.written:
                tokens.append(spans[part.number])
            text, before = text + span.text, span
    restored = {part.number for part in parts if isinstance(part, Place) and not part.written}
    numbers = range(num_protected)
    return TargetSentence(
        text, tuple(tokens), tuple(spans[number] for number in numbers), tuple(number in restored for number in numbers)
    )


def _joins(text: str, before: ProtectedSpan | None, span: ProtectedSpan) -> bool:
    """Whether a span follows a text, or another span, without a space."""
    if before is not None:
        return before.joins_right or span.joins_left
    # The sign that the span touches may differ from that of the source: quotation marks differ by language.
    return span.joins_left or text[-1] in _OPENING or (span.touches_left and not text[-1].isalnum())


def _is_joined(span: ProtectedSpan, text: str) -> bool:
    """Whether a text follows a span without a space, such as an opening tag, or the middle of a word."""
    return span.joins_right or (span.touches_right and not text[:1].isalnum())


def _closes(text: str, start: int, end: int) -> bool:
    """Whether a span is between punctuation and whitespace."""
    return text[start - 1] in _CLOSING and (end == len(text) or text[end].isspace())


def _num_tokens(part: Place | TargetText) -> int:
    return len(part.tokens) if isinstance(part, TargetText) else int(part.written)


def _split(text: TargetText, token: int) -> tuple[TargetText, TargetText]:
    """Split a text before one of its tokens, without the space in between."""
    cut = text.tokens[token][0]
    end, start = len(text.text[:cut].rstrip()), len(text.text) - len(text.text[cut:].lstrip())
    shifted_tokens = tuple((max(first - start, 0), max(last - start, 0)) for first, last in text.tokens[token:])
    before = TargetText(text.text[:end], text.tokens[:token], text.begins_word)
    return before, TargetText(text.text[start:], shifted_tokens, begins_word=start > end)
