"""Reserved symbols: instructions to the model inside a sentence, beside its text.

A vocabulary can reserve 64 tokens that no text is encoded to. They mark what stands at their place (placeholders), how
to translate a word (glossary terms), and properties of the whole sentence (form of address, synthetic source).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

Span = tuple[int, int]
"""Characters ``text[start:end]``; (n, n) for a token that covers no character."""


def shifted(span: Span, by: int) -> Span:
    """A span in a text that has more characters before it.

    Args:
        span: A span.
        by: Number of these characters; negative if there are fewer.
    """
    return span[0] + by, span[1] + by


def overlaps(span: Span, others: Sequence[Span]) -> bool:
    """Whether a span shares characters with one of several.

    Args:
        span: A span.
        others: Spans in order that do not overlap.
    """
    place = bisect_left(others, (span[1], 0))
    return place > 0 and others[place - 1][1] > span[0]


def after_span(index: int, spans: Sequence[Span]) -> int:
    """An index, or the end of the span that it lies in.

    Args:
        index: Index of a character.
        spans: Spans in order that do not overlap.
    """
    place = bisect_left(spans, (index, 0)) - 1
    return spans[place][1] if place >= 0 and index < spans[place][1] else index


NUM_PLACEHOLDERS = 16
BACK_TRANSLATED = "<bt>"
"""Marks a source sentence produced by a model (tagged back-translation, Caswell et al. 2019)."""

FORMAL, INFORMAL = "<formal>", "<informal>"
TERM_START, TERM_TARGET, TERM_END = "<term>", "<as>", "</term>"
_NUM_RESERVED = 64


@dataclass(frozen=True)
class Symbol:
    """A reserved symbol, where text and symbols stand together.

    Args:
        name: One of :func:`reserved_symbols`.
    """

    name: str


Part = str | Symbol
"""A piece of a sentence: text, or a symbol between texts."""


def placeholder(number: int) -> str:
    """The name of a placeholder symbol.

    Args:
        number: 0 to ``NUM_PLACEHOLDERS - 1``.
    """
    return f"<ph{number}>"


def reserved_symbols() -> tuple[str, ...]:
    """The 64 symbols a vocabulary can reserve besides pieces, markers and special tokens; some are still unused.

    Texts are never encoded to them; they are inserted by id.
    """
    named = [placeholder(number) for number in range(NUM_PLACEHOLDERS)]
    named += [BACK_TRANSLATED, FORMAL, INFORMAL, TERM_START, TERM_TARGET, TERM_END]
    return (*named, *(f"<spare{number}>" for number in range(_NUM_RESERVED - len(named))))


@dataclass(frozen=True)
class Replacement:
    """Characters of a sentence that are passed to the model as something else; nothing where ``start`` is ``end``.

    Args:
        start: Index of the first character.
        end: Index after the last one.
        parts: What is passed instead.
    """

    start: int
    end: int
    parts: tuple[Part, ...]


def with_replacements(text: str, replacements: Sequence[Replacement]) -> list[tuple[Part, Span]]:
    """A text with some of its characters replaced, as parts.

    Args:
        text: A sentence.
        replacements: Its replacements, which do not overlap.

    Returns:
        Each part with the characters of the text that it stands for. All parts of a replacement stand for the
        characters that it replaces.
    """
    found: list[tuple[Part, Span]] = []
    position = 0
    for one in sorted(replacements, key=lambda replacement: (replacement.start, replacement.end)):
        if one.start > position:
            found.append((text[position : one.start], (position, one.start)))
        found += [(part, (one.start, one.end)) for part in one.parts]
        position = one.end
    if position < len(text):
        found.append((text[position:], (position, len(text))))
    return found


def term_parts(word: str, translation: str) -> tuple[Part, ...]:
    """A word with its translation beside it (Dinu et al. 2019): what a source says about a glossary term.

    Args:
        word: The word as it stands in the source.
        translation: How to translate it.
    """
    return Symbol(TERM_START), word, Symbol(TERM_TARGET), translation, Symbol(TERM_END)
