"""The given beginning of a translation: its tokens, and the spans of the source that occur in it.

The prefix is encoded as a whole, so the model may continue its last word. A protected span of the source that occurs
in the prefix is encoded as its placeholder, or left out if it has none: the model reads what it would have written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from model.errors import InvalidPrefix
from model.text.case_folding import in_lower_case
from model.text.layout import unusual_spaces
from model.text.placeholders import Place, TargetPrefix, cut_spans, without_spans
from model.text.symbols import Part, Span, Symbol, TargetText, overlaps, placeholder, shifted
from model.text.tokenizer import VersoTokenizer
from model.translation.model_input import ModelInput
from model.translation.reading import SourceSentence
from model.translation.writing import SentenceWriter


def with_prefix(sentence: SourceSentence, text: str, writer: SentenceWriter) -> SourceSentence:
    """A sentence whose translation begins with a text.

    Args:
        sentence: The sentence.
        text: The beginning of its translation, without whitespace at its ends.
        writer: Writes its translation.

    Raises:
        InvalidPrefix: The model would write it differently.
    """
    protected = [sentence.text[slice(*span)] for span in sentence.protected]
    spans = _spans_in(text, protected)
    kept = sorted(spans.values())
    spaces = _spaces_in(text, [sentence.text[slice(*span)] for span in sentence.spaces], kept)
    symbols = {number: span for number, span in spans.items() if number < len(sentence.required_ids)}
    folds = sentence.in_capitals and _has_no_lower_case(without_spans(text, kept))
    model_input = _plain_input(
        in_lower_case(text) if folds else text,
        sorted(spans[number] for number in spans.keys() - symbols),
        list(spaces.values()),
    ).with_placeholders(symbols)
    parts = [(part, span) for part, span in model_input.parts if isinstance(part, Symbol) or part.strip()]
    token_ids = _encode([part for part, _ in parts], writer)
    written = writer.parts(sentence, token_ids)
    names = {placeholder(number): protected[number] for number in symbols}
    if [_written_text(part, protected) for part in written] != [
        names[part.name] if isinstance(part, Symbol) else part.strip() for part, _ in parts
    ]:
        read = "".join(names[part.name] if isinstance(part, Symbol) else part for part, _ in parts)
        reading = "" if read == text else f", which the model reads as {read!r}"
        answer = "".join(_written_text(part, protected) for part in written)
        raise InvalidPrefix(
            f"target_prefix is {text!r}{reading}, and the model would write {answer!r}; leave out characters that it "
            "does not know, and write the others as it does."
        )
    tokens = model_input.original(_token_spans(written, parts), len(text))
    numbered_spaces = {len(protected) + number: span for number, span in spaces.items()}
    prefix = TargetPrefix(text, tuple(token_ids), tuple(tokens), {**spans, **numbered_spaces})
    return replace(sentence, prefix=prefix)


def _written_text(part: Place | TargetText, protected: Sequence[str]) -> str:
    return part.text if isinstance(part, TargetText) else protected[part.number]


def _has_no_lower_case(text: str) -> bool:
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
    """The positions of spans of the source in a prefix, each once, from left to right; the longest of several.

    Args:
        text: The prefix.
        spans: The spans.
    """
    positions: dict[int, Span] = {}
    end = 0
    while True:
        occurrences = [
            (start, -len(span), number)
            for number, span in enumerate(spans)
            if number not in positions and (start := _find_word(text, span, end)) >= 0
        ]
        if not occurrences:
            return positions
        start, negative_length, number = min(occurrences)
        end = start - negative_length
        positions[number] = (start, end)


def _find_word(text: str, span: str, position: int) -> int:
    """Index of the next occurrence of a span that is not part of a longer word; -1 if there is none."""
    start = text.find(span, position)
    while start >= 0:
        before, after = text[start - 1 : start], text[start + len(span) : start + len(span) + 1]
        if not ((before.isalnum() and span[0].isalnum()) or (after.isalnum() and span[-1].isalnum())):
            break
        start = text.find(span, start + 1)
    return start


def _spaces_in(text: str, spaces: Sequence[str], protected: Sequence[Span]) -> dict[int, Span]:
    """The positions of unusual whitespace of the source in a prefix, outside of its protected spans."""
    positions: dict[int, Span] = {}
    for span in unusual_spaces(text):
        equal = (number for number, space in enumerate(spaces) if space == text[slice(*span)])
        number = next((number for number in equal if number not in positions), None)
        if number is not None and not overlaps(span, protected):
            positions[number] = span
    return positions


def _plain_input(text: str, cut: Sequence[Span], spaces: Sequence[Span]) -> ModelInput:
    """A prefix without some spans and with plain spaces in place of unusual whitespace."""
    _, origins = cut_spans(text, cut)
    starts = {start for start, _ in spaces}
    dropped = {index for start, end in spaces for index in range(start + 1, end)}
    origins = [origin for origin in origins if origin not in dropped]
    return ModelInput("".join(" " if origin in starts else text[origin] for origin in origins), origins)


def _encode(parts: Sequence[Part], writer: SentenceWriter) -> list[int]:
    tokenizer = writer.tokenizer
    if any(isinstance(part, Symbol) for part in parts) and isinstance(tokenizer, VersoTokenizer):
        return tokenizer.encode_target_parts(parts)[:-1]
    return tokenizer.encode_target("".join(map(str, parts)))[:-1]
