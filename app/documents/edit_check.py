"""What an edited sentence must keep: markers of inline elements, placeholders of programs, line breaks."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping

from model.text.spans import KINDS, possible_kinds

MARKER = re.compile(r"\{(?P<closing>/?)(?P<number>\d{1,6})\}")
"""What may be a marker; it is one if the sentence has its number."""

LENGTH_FACTOR = 4
LENGTH_ALLOWANCE = 200
"""A translation may have so many times the characters of its source and of the machine's translation, and so many
more: a bound on what a document with many short sentences keeps."""

_PLACEHOLDERS = frozenset(
    kind
    for kind in KINDS
    if kind.name
    in {
        "statement of a template",
        "expression of a template",
        "placeholder in braces",
        "format specifier",
        "placeholder after a colon",
    }
)
_FORBIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x84\x86-\x9f\u2028\u2029\ud800-\udfff\ufffe\uffff]")
"""Characters that some formats cannot store, and ends of lines other than the usual one."""

_SHOWN = 40


def flaw_in(translation: str, source: str, machine_translation: str, markers: Mapping[int, str]) -> str | None:
    """Why a translation of a sentence cannot be written to its file; None if it can.

    Args:
        translation: The translation, without whitespace at its ends.
        source: The sentence.
        machine_translation: The machine's translation, which has all that must be kept.
        markers: The markers of the sentence, by their numbers.
    """
    bound = LENGTH_FACTOR * max(len(source), len(machine_translation)) + LENGTH_ALLOWANCE
    if len(translation) > bound:
        return f"has {len(translation)} characters; the limit for this sentence is {bound}"
    if not translation:
        return "is blank"
    forbidden = _FORBIDDEN.search(translation)
    if forbidden:
        return f"has the character U+{ord(forbidden[0]):04X}; remove it"
    num_lines = machine_translation.count("\n")
    if translation.count("\n") != num_lines:
        return f"has {translation.count(chr(10))} line breaks; the sentence has {num_lines}"
    return _flaw_of_markers(translation, machine_translation, markers) or _flaw_of_placeholders(
        translation, source, machine_translation
    )


def without_markers(text: str, markers: Mapping[int, str]) -> str:
    """A sentence or its translation as readers see it: elements are not marked, and what they show is text.

    Args:
        text: The sentence, or its translation.
        markers: The markers of the sentence, by their numbers.
    """
    return MARKER.sub(lambda match: match[0] if (shown := markers.get(int(match["number"]))) is None else shown, text)


def _flaw_of_markers(translation: str, machine_translation: str, markers: Mapping[int, str]) -> str | None:
    """What is wrong with the markers: each must be there once, and elements must not overlap."""
    expected, actual = (list(_markers_in(text, markers)) for text in (machine_translation, translation))
    missing = Counter(expected) - Counter(actual)
    added = Counter(actual) - Counter(expected)
    if missing:
        return f"lacks the marker {next(iter(missing))}; each marker of the sentence must be there once"
    if added:
        marker = next(iter(added))
        count, allowed = actual.count(marker), expected.count(marker)
        return f"has the marker {marker} {count} times; the sentence has it {allowed} times"
    closed = {marker for marker in expected if marker.startswith("{/")}
    inside: list[str] = []
    for marker in actual:
        closing = marker.replace("{", "{/")
        if marker in closed:
            if not inside or inside.pop() != marker:
                return f"has {marker} where another element is open; close each element within the one around it"
        elif closing in closed:
            inside.append(closing)
    return None


def _markers_in(text: str, markers: Mapping[int, str]) -> Iterator[str]:
    return (match[0] for match in MARKER.finditer(text) if int(match["number"]) in markers)


def _flaw_of_placeholders(translation: str, source: str, machine_translation: str) -> str | None:
    """The placeholder that is missing; one that the machine's translation lacks may be missing here, too."""
    for placeholder, count in _placeholders_in(source).items():
        if translation.count(placeholder) < min(count, machine_translation.count(placeholder)):
            return f"lacks the placeholder {placeholder[:_SHOWN]}, which a program replaces"
    return None


def _placeholders_in(text: str) -> Counter[str]:
    kinds = [kind for kind in possible_kinds(text) if kind in _PLACEHOLDERS]
    return Counter(text[start:end] for start, end in sorted({span for kind in kinds for span in kind.find(text)}))
