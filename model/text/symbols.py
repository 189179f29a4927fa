"""Reserved symbols, which tell the model about a sentence inside of it, and spans of characters.

A vocabulary can reserve 64 tokens that no text is encoded to. They replace protected spans (placeholders), give the
translation of a word (glossary terms), or mark the whole sentence (form of address, synthetic source).
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
    index = bisect_left(others, (span[1], 0))
    return index > 0 and others[index - 1][1] > span[0]


def after_span(index: int, spans: Sequence[Span]) -> int:
    """An index, or the end of the span that it lies in.

    Args:
        index: Index of a character.
        spans: Spans in order that do not overlap.
    """
    before = bisect_left(spans, (index, 0)) - 1
    return spans[before][1] if before >= 0 and index < spans[before][1] else index


NUM_PLACEHOLDERS = 16
BACK_TRANSLATED = "<bt>"
"""Marks a source sentence produced by a model (tagged back-translation, Caswell et al. 2019)."""

FORMAL, INFORMAL = "<formal>", "<informal>"
TERM_START, TERM_TARGET, TERM_END = "<term>", "<as>", "</term>"
_NUM_RESERVED = 64


@dataclass(frozen=True)
class Symbol:
    """A reserved symbol among texts.

    Args:
        name: One of :func:`reserved_symbols`.
    """

    name: str


Part = str | Symbol
"""A piece of a sentence: text, or a symbol between texts."""


@dataclass(frozen=True)
class TargetText:
    """The text of target tokens between symbols.

    Args:
        text: The text, without a space at its start.
        tokens: The characters that each token covers.
        begins_word: Whether its first token begins a word, so that a space precedes it.
    """

    text: str
    tokens: tuple[Span, ...]
    begins_word: bool


def placeholder(number: int) -> str:
    """The name of a placeholder symbol.

    Args:
        number: 0 to ``NUM_PLACEHOLDERS - 1``.
    """
    return f"<ph{number}>"


def reserved_symbols() -> tuple[str, ...]:
    """The 64 symbols that a vocabulary can reserve besides pieces, markers and special tokens; some are still unused.

    Texts are never encoded to them; they are inserted by id.
    """
    named = [placeholder(number) for number in range(NUM_PLACEHOLDERS)]
    named += [BACK_TRANSLATED, FORMAL, INFORMAL, TERM_START, TERM_TARGET, TERM_END]
    return (*named, *(f"<spare{number}>" for number in range(_NUM_RESERVED - len(named))))


@dataclass(frozen=True)
class Replacement:
    """Characters of a sentence that the model does not read, and what it reads instead.

    Args:
        start: Index of the first character.
        end: Index after the last one; equal to ``start`` if the parts are inserted.
        parts: The texts and symbols that the model reads instead.
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
        Each part with the characters of the text that it covers. All parts of a replacement cover the characters that
        it replaces.
    """
    parts: list[tuple[Part, Span]] = []
    position = 0
    for replacement in sorted(replacements, key=lambda replacement: (replacement.start, replacement.end)):
        start, end = replacement.start, replacement.end
        if start > position:
            parts.append((text[position:start], (position, start)))
        parts += [(part, (start, end)) for part in replacement.parts]
        position = end
    if position < len(text):
        parts.append((text[position:], (position, len(text))))
    return parts


def term_parts(word: str, translation: str) -> tuple[Part, ...]:
    """A glossary term as a model reads it in a source: the word, and its translation beside it (Dinu et al. 2019).

    Args:
        word: The word, as the source has it.
        translation: Its translation.
    """
    return Symbol(TERM_START), word, Symbol(TERM_TARGET), translation, Symbol(TERM_END)
