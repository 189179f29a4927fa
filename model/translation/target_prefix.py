"""The given beginning of a translation: what the model reads of it, and which spans of the source stand in it.

Tokens are chosen for the whole prefix, so a word that it ends with may be continued. A protected span of the source
that stands in the prefix is read as its placeholder, or is left out if it has none: what the model reads is what it
would have written itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from model.errors import InvalidPrefix
from model.text.case_folding import in_small_letters
from model.text.layout import unusual_spaces
from model.text.placeholders import Place, TargetPrefix, cut_spans, without_spans
from model.text.symbols import Part, Span, Symbol, overlaps, placeholder, shifted
from model.text.tokenizer import TargetText, Tokenizer
from model.translation.reading import ModelInput, SourceSentence
from model.translation.writing import SentenceWriter


def with_prefix(sentence: SourceSentence, text: str, writer: SentenceWriter) -> SourceSentence:
    """A sentence whose translation begins with a text.

    Args:
        sentence: The sentence.
        text: What its translation begins with, without whitespace at its ends.
        writer: Writes its translation.

    Raises:
        InvalidPrefix: The model would write it differently.
    """
    protected = [sentence.text[slice(*span)] for span in sentence.protected]
    spans = _spans_in(text, protected)
    kept = sorted(spans.values())
    spaces = _spaces_in(text, [sentence.text[slice(*span)] for span in sentence.spaces], kept)
    symbols = {number: span for number, span in spans.items() if number < len(sentence.once_ids)}
    folds = sentence.in_capitals and _has_no_small_letter(without_spans(text, kept))
    model_input = _plain_input(
        in_small_letters(text) if folds else text,
        sorted(spans[number] for number in spans.keys() - symbols),
        list(spaces.values()),
    ).with_placeholders(symbols)
    parts = [(part, span) for part, span in model_input.parts if isinstance(part, Symbol) or part.strip()]
    token_ids = _encoded([part for part, _ in parts], writer)
    written = writer.parts(sentence, token_ids)
    names = {placeholder(number): protected[number] for number in symbols}
    if [_shown(part, protected) for part in written] != [
        names[part.name] if isinstance(part, Symbol) else part.strip() for part, _ in parts
    ]:
        read = "".join(names[part.name] if isinstance(part, Symbol) else part for part, _ in parts)
        which = "" if read == text else f", of which the model reads {read!r}"
        raise InvalidPrefix(
            f"target_prefix is {text!r}{which}, and the model would write "
            f"{''.join(_shown(part, protected) for part in written)!r}; leave out characters that it does not know, "
            "and write the others as it does."
        )
    tokens = model_input.original(_token_spans(written, parts), len(text))
    numbered_spaces = {len(protected) + number: span for number, span in spaces.items()}
    prefix = TargetPrefix(text, tuple(token_ids), tuple(tokens), {**spans, **numbered_spaces})
    return replace(sentence, prefix=prefix)


def _shown(part: Place | TargetText, protected: Sequence[str]) -> str:
    return part.text if isinstance(part, TargetText) else protected[part.number]


def _has_no_small_letter(text: str) -> bool:
    return not any(character.islower() and character != "ß" for character in text)


def _token_spans(written: Sequence[Place | TargetText], parts: Sequence[tuple[Part, Span]]) -> list[Span]:
    """The characters that each token covers; whitespace around a part belongs to none."""
    spans: list[Span] = []
    for run, (part, characters) in zip(written, parts, strict=True):
        if isinstance(run, Place) or isinstance(part, Symbol):
            spans.append(characters)
        else:
            spans += [shifted(span, characters[0] + len(part) - len(part.lstrip())) for span in run.tokens]
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
    """Where unusual whitespace of the source stands in a prefix, without_spans of its protected spans."""
    found: dict[int, Span] = {}
    for span in unusual_spaces(text):
        numbers = (number for number, one in enumerate(spaces) if number not in found and one == text[slice(*span)])
        number = next(numbers, None)
        if number is not None and not overlaps(span, protected):
            found[number] = span
    return found


def _plain_input(text: str, cut: Sequence[Span], spaces: Sequence[Span]) -> ModelInput:
    """A prefix without some spans and with plain spaces in place of unusual whitespace."""
    _, origins = cut_spans(text, cut)
    starts = {start for start, _ in spaces}
    others = {index for start, end in spaces for index in range(start + 1, end)}
    origins = [origin for origin in origins if origin not in others]
    return ModelInput("".join(" " if origin in starts else text[origin] for origin in origins), origins)


def _encoded(parts: Sequence[Part], writer: SentenceWriter) -> list[int]:
    tokenizer = writer.tokenizer
    if any(isinstance(part, Symbol) for part in parts) and isinstance(tokenizer, Tokenizer):
        return tokenizer.encode_target_parts(parts)[:-1]
    return tokenizer.encode_target("".join(map(str, parts)))[:-1]
