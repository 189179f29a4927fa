"""Terms of stored glossaries: read from TSV and CSV, and selected for the texts of a request."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence

from app.errors import InvalidGlossary
from model.decoding.options import MAX_TERM_CHARACTERS, MAX_TERMS
from model.text.glossary import Glossary, GlossaryTerm, find_terms

MAX_STORED_TERMS = 100_000
"""Terms of one language pair of a stored glossary."""

_SHOWN_CHARACTERS = 60


def parse_tsv(text: str) -> Glossary:
    """Read terms: one a line, source and target with a tab between them. Empty lines are skipped.

    Raises:
        InvalidGlossary: A line is no term, or two have the same source.
    """
    return _checked((number, line.split("\t")) for number, line in enumerate(text.split("\n"), 1) if line.strip())


def parse_csv(text: str) -> Glossary:
    """Read terms: one a row, source and target, and possibly the two languages, which are ignored.

    Raises:
        InvalidGlossary: A row is no term, or two have the same source.
    """
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        rows = [(reader.line_num, row[:2] if len(row) == 4 else row) for row in reader if any(map(str.strip, row))]
    except csv.Error as error:
        raise InvalidGlossary(f"Line {reader.line_num} of the entries is not CSV: {error}.") from None
    return _checked(rows)


def to_tsv(terms: Glossary) -> str:
    """Terms as :func:`parse_tsv` reads them.

    Args:
        terms: The terms.
    """
    return "\n".join(f"{term.source}\t{term.target}" for term in terms)


def merged(several: Iterable[Glossary]) -> Glossary:
    """The terms of several glossaries; of terms with the same source the first counts.

    Args:
        several: The glossaries.

    Raises:
        InvalidGlossary: They are too many.
    """
    found: dict[str, GlossaryTerm] = {}
    for terms in several:
        for term in terms:
            found.setdefault(term.source, term)
    return _bounded(found)


def terms_in(terms: Glossary, texts: Sequence[str], language: str) -> Glossary:
    """The terms that texts hold: a request may have fewer terms than a stored glossary.

    Args:
        terms: The terms.
        texts: The texts.
        language: The language of the texts, without a region.

    Raises:
        InvalidGlossary: The texts hold more terms than a request may have.
    """
    lower = "\n".join(texts).lower()
    held = tuple(term for term in terms if term.source.lower() in lower)
    if len(held) <= MAX_TERMS:
        return held
    # Many of them are only parts of words.
    held = tuple(term for term in held if any(find_terms(text, (term,), language, ()) for text in texts))
    if len(held) > MAX_TERMS:
        raise InvalidGlossary(
            f"The texts hold {len(held)} terms of the glossary, and {MAX_TERMS} can be used at once; send fewer texts "
            "in one request."
        )
    return held


def _checked(rows: Iterable[tuple[int, Sequence[str]]]) -> Glossary:
    """Terms from the cells of numbered lines."""
    found: dict[str, GlossaryTerm] = {}
    for number, cells in rows:
        if len(cells) != 2:
            raise InvalidGlossary(f"Line {number} of the entries must have a source and a target.")
        source, target = (_checked_side(number, cell.strip()) for cell in cells)
        if source in found:
            raise InvalidGlossary(
                f"Line {number} of the entries has the same source as an earlier one: {_shown(source)}."
            )
        found[source] = GlossaryTerm(source, target)
    if not found:
        raise InvalidGlossary("The glossary has no entries.")
    return _bounded(found)


def _bounded(found: Mapping[str, GlossaryTerm]) -> Glossary:
    if len(found) > MAX_STORED_TERMS:
        raise InvalidGlossary(f"The glossary has more than {MAX_STORED_TERMS} entries for one language pair.")
    return tuple(found.values())


def _checked_side(number: int, text: str) -> str:
    if not 1 <= len(text) <= MAX_TERM_CHARACTERS:
        raise InvalidGlossary(
            f"Line {number} of the entries: source and target must have 1 to {MAX_TERM_CHARACTERS} characters."
        )
    if len(text.splitlines()) > 1 or any(_is_control(character) for character in text):
        raise InvalidGlossary(f"Line {number} of the entries has a control character: {_shown(text)}.")
    return text


def _is_control(character: str) -> bool:
    return character < " " or "\x7f" <= character <= "\x9f"


def _shown(text: str) -> str:
    return repr(text[:_SHOWN_CHARACTERS])
