"""Protected spans: characters of a source that stand in its translation as they are, each exactly once.

The model reads a placeholder symbol instead of a span, and writes the same symbol where the span belongs. This module
puts the spans back and restores the spaces around them, which symbols do not say.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from model.text.symbols import Span, Symbol, placeholder
from model.text.tokenizer import TargetText

_OPENING = "([{«„‚<¿¡"
"""Characters to which what follows is always joined without a space."""


@dataclass(frozen=True)
class HeldSpan:
    """A protected span while its sentence is translated.

    Args:
        text: Its characters.
        before: The character before it in the sentence; empty at the start.
        joins_left: Whether that is a letter, a digit or the end of another span.
        joins_right: Whether a letter, a digit or another span stands directly behind it.
    """

    text: str
    before: str
    joins_left: bool
    joins_right: bool


@dataclass(frozen=True)
class TargetSentence:
    """The translation of one sentence.

    Args:
        text: The translation.
        tokens: The characters that each target token covers.
        spans: Where each protected span stands, in the order of the source.
    """

    text: str
    tokens: tuple[Span, ...]
    spans: tuple[Span, ...] = ()

    def with_replaced(self, start: int, end: int, new: str) -> TargetSentence:
        """The translation with some of its characters replaced; tokens that cover some of them cover all that is new.

        Args:
            start: Index of the first character.
            end: Index after the last one.
            new: What stands there instead.
        """
        by = len(new) - (end - start)

        def moved(span: Span) -> Span:
            if span[1] <= start:
                return span
            if span[0] >= end:
                return span[0] + by, span[1] + by
            return min(span[0], start), max(span[1] + by, start + len(new))

        text = self.text[:start] + new + self.text[end:]
        return TargetSentence(text, tuple(map(moved, self.tokens)), tuple(map(moved, self.spans)))


def outside(text: str, spans: Sequence[Span]) -> str:
    """A sentence without its protected spans.

    Args:
        text: The sentence.
        spans: Its protected spans, in order.
    """
    if not spans:
        return text
    edges = [0, *(index for span in spans for index in span), len(text)]
    return "".join(text[start:end] for start, end in zip(edges[::2], edges[1::2], strict=True))


def masked(text: str, spans: Sequence[Span]) -> str:
    """A text of the same length with each protected span replaced by a word, so that no sentence ends inside a span.

    Args:
        text: Any text.
        spans: Its protected spans, in order.
    """
    if not spans:
        return text
    found: list[str] = []
    position = 0
    for start, end in spans:
        found += [text[position:start], "X" + "x" * (end - start - 1)]
        position = end
    return "".join([*found, text[position:]])


def hold(text: str, spans: Sequence[Span]) -> list[HeldSpan]:
    """The protected spans of a sentence, with what must be known to put them back.

    Args:
        text: The sentence.
        spans: Its protected spans, in order.
    """
    starts, ends = {start for start, _ in spans}, {end for _, end in spans}
    return [
        HeldSpan(
            text[start:end],
            text[start - 1 : start],
            joins_left=start > 0 and (start in ends or text[start - 1].isalnum()),
            joins_right=end < len(text) and (end in starts or text[end].isalnum()),
        )
        for start, end in spans
    ]


def put_back(
    parts: Sequence[Symbol | TargetText],
    held: Sequence[HeldSpan],
    convert: Callable[[TargetText], TargetText],
) -> TargetSentence:
    """A translation with its protected spans in place of their placeholders.

    Args:
        parts: What the model wrote; placeholder ``k`` stands for span ``k``, and each is there at most once.
        held: The spans.
        convert: Applied to the text between them.
    """
    numbers = {placeholder(number): number for number in range(len(held))}
    text = ""
    tokens: list[Span] = []
    places: dict[int, Span] = {}
    before: HeldSpan | None = None
    for part in parts:
        if isinstance(part, TargetText):
            run = convert(part)
            # A word joins an opening tag, and a span in the middle of a word.
            if text and run.begins_word and not (before is not None and before.joins_right):
                text += " "
            tokens += [(len(text) + start, len(text) + end) for start, end in run.tokens]
            text, before = text + run.text, None
        else:
            number = numbers[part.name]
            span = held[number]
            if text and not _joins(text, before, span):
                text += " "
            places[number] = len(text), len(text) + len(span.text)
            tokens.append(places[number])
            text, before = text + span.text, span
    return TargetSentence(text, tuple(tokens), tuple(places[number] for number in sorted(places)))


def _joins(text: str, before: HeldSpan | None, span: HeldSpan) -> bool:
    """Whether a span follows a text, or another span, without a space."""
    if before is not None:
        return before.joins_right or span.joins_left
    return span.joins_left or text[-1] in _OPENING or text[-1] == span.before
