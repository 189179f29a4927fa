"""The given beginning of a translation: what the model reads of it, and which spans of the source stand in it.

Tokens are chosen for the whole prefix, so a word that it ends with may be continued. A protected span of the source
that stands in the prefix is read as its placeholder, or is left out if it has none: what the model reads is what it
would have written itself.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence

from model.errors import InvalidPrefix
from model.text.case_folding import in_small_letters
from model.text.layout import unusual_spaces
from model.text.placeholders import TargetPrefix, original_spans, outside, taken_out
from model.text.symbols import Part, Replacement, Span, Symbol, overlaps, placeholder, shifted, with_replacements
from model.text.tokenizer import TargetText, TextTokenizer, Tokenizer


def read_prefix(
    text: str,
    protected: Sequence[str],
    spaces: Sequence[str],
    num_placeholders: int,
    tokenizer: TextTokenizer,
    *,
    folds: bool,
) -> TargetPrefix:
    """Encode the beginning of the translation of a sentence.

    Args:
        text: The beginning, without white space at its ends.
        protected: The protected spans of the sentence.
        spaces: The unusual white space of the sentence.
        num_placeholders: How many of the protected spans have a placeholder: the first ones.
        tokenizer: The model's tokenizer.
        folds: Whether the sentence is in capitals, and translated in lower case.

    Raises:
        InvalidPrefix: The model would write it differently.
    """
    held = _spans_in(text, protected)
    kept = sorted(held.values())
    kept_spaces = _spaces_in(text, spaces, kept)
    told = {number: span for number, span in held.items() if number < num_placeholders}
    shown = in_small_letters(text) if folds and _has_no_small_letter(outside(text, kept)) else text
    left, origins = _left(shown, sorted(held[number] for number in held.keys() - told), list(kept_spaces.values()))
    parts = _parts(left, origins, told)
    token_ids, runs = _encoded(parts, tokenizer)
    if [run if isinstance(run, Symbol) else run.text for run in runs] != [_trimmed(part) for part, _ in parts]:
        names = {placeholder(number): protected[number] for number in told}
        asked = "".join(names[part.name] if isinstance(part, Symbol) else part for part, _ in parts)
        written = "".join(names[run.name] if isinstance(run, Symbol) else run.text for run in runs)
        read = "" if asked == text else f", of which the model reads {asked!r}"
        raise InvalidPrefix(
            f"target_prefix is {text!r}{read}, and the model would write {written!r}; leave out characters that it "
            "does not know, and write the others as it does."
        )
    tokens = original_spans(_token_spans(runs, parts), origins, len(text))
    numbered_spaces = {len(protected) + number: span for number, span in kept_spaces.items()}
    return TargetPrefix(text, tuple(token_ids), tuple(tokens), {**held, **numbered_spaces})


def _has_no_small_letter(text: str) -> bool:
    return not any(character.islower() and character != "ß" for character in text)


def _trimmed(part: Part) -> Part:
    return part if isinstance(part, Symbol) else part.strip()


def _token_spans(runs: Sequence[Symbol | TargetText], parts: Sequence[tuple[Part, Span]]) -> list[Span]:
    """The characters that each token covers; white space around a part belongs to none."""
    spans: list[Span] = []
    for run, (part, place) in zip(runs, parts, strict=True):
        if isinstance(run, Symbol) or isinstance(part, Symbol):
            spans.append(place)
        else:
            spans += [shifted(span, place[0] + len(part) - len(part.lstrip())) for span in run.tokens]
    return spans


def _spans_in(text: str, spans: Sequence[str]) -> dict[int, Span]:
    """Where spans of the source stand in a prefix, each once, from left to right; the longest where several would fit.

    Args:
        text: The prefix.
        spans: The spans.
    """
    found: dict[int, Span] = {}
    position = 0
    while True:
        places = [
            (place, -len(span), number)
            for number, span in enumerate(spans)
            if number not in found and (place := _whole(text, span, position)) >= 0
        ]
        if not places:
            return found
        start, negative_length, number = min(places)
        position = start - negative_length
        found[number] = (start, position)


def _whole(text: str, span: str, position: int) -> int:
    """Index of the next occurrence of a span that is no part of a longer word; -1 if there is none."""
    place = text.find(span, position)
    while place >= 0:
        before, behind = text[place - 1 : place], text[place + len(span) : place + len(span) + 1]
        if not ((before.isalnum() and span[0].isalnum()) or (behind.isalnum() and span[-1].isalnum())):
            break
        place = text.find(span, place + 1)
    return place


def _spaces_in(text: str, spaces: Sequence[str], protected: Sequence[Span]) -> dict[int, Span]:
    """Where unusual white space of the source stands in a prefix, outside of its protected spans."""
    found: dict[int, Span] = {}
    for span in unusual_spaces(text):
        numbers = (number for number, one in enumerate(spaces) if number not in found and one == text[slice(*span)])
        number = next(numbers, None)
        if number is not None and not overlaps(span, protected):
            found[number] = span
    return found


def _left(text: str, without: Sequence[Span], spaces: Sequence[Span]) -> tuple[str, list[int]]:
    """A prefix without some spans and with plain spaces in place of white space, and the origin of each character."""
    _, origins = taken_out(text, without)
    starts = {start for start, _ in spaces}
    others = {index for start, end in spaces for index in range(start + 1, end)}
    origins = [origin for origin in origins if origin not in others]
    return "".join(" " if origin in starts else text[origin] for origin in origins), origins


def _parts(text: str, origins: Sequence[int], told: Mapping[int, Span]) -> list[tuple[Part, Span]]:
    """The texts and placeholders of what is left of a prefix, with the characters that each stands for."""
    replacements = []
    for number, (start, end) in told.items():
        first = bisect_left(origins, start)
        replacements.append(Replacement(first, first + end - start, (Symbol(placeholder(number)),)))
    parts = with_replacements(text, replacements)
    return [(part, span) for part, span in parts if isinstance(part, Symbol) or part.strip()]


def _encoded(
    parts: Sequence[tuple[Part, Span]], tokenizer: TextTokenizer
) -> tuple[list[int], list[Symbol | TargetText]]:
    """The tokens of texts and placeholders, and what the model's output of these tokens would be written as."""
    if any(isinstance(part, Symbol) for part, _ in parts) and isinstance(tokenizer, Tokenizer):
        token_ids = tokenizer.encode_target_parts([part for part, _ in parts])[:-1]
        return token_ids, tokenizer.decode_parts(token_ids)
    token_ids = tokenizer.encode_target("".join(str(part) for part, _ in parts))[:-1]
    if not token_ids:
        return [], []
    text, spans = tokenizer.decode_with_offsets(token_ids)
    return token_ids, [TargetText(text, tuple(spans), begins_word=True)]
