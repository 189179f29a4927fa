"""Documents translated without a service: with the pipeline of a model that writes capitals."""

from __future__ import annotations

from app.documents.formats.document_file import DocumentFile, Unit
from app.documents.formats.table import FORMATS
from app.documents.skeleton import differences
from model.decoding.options import Hypothesis
from model.translation.options import TranslationOptions
from model.translation.results import Translation
from tests.app.fakes import FakeTranslator

_TRANSLATOR = FakeTranslator()


def translation_of(unit: Unit) -> Translation:
    """The translation of a unit by a model that writes capitals, with the positions of its sentences."""
    options = TranslationOptions(decoding="greedy", format=unit.format, return_sentences=True)
    plan = _TRANSLATOR.prepare(unit.text, "en", "de", options)
    while plan.pending:
        plan.settle([Hypothesis(list(request.source_ids[1:-1]), None, "stop") for request in plan.pending])
    weights = _TRANSLATOR.align(plan.attended)
    return plan.complete({item.key: rows for item, rows in zip(plan.attended, weights, strict=True)})


def in_capitals(unit: Unit) -> str:
    """The text of the translation of a unit."""
    return translation_of(unit).text


def read(suffix: str, data: bytes | str) -> DocumentFile:
    """A file that has been read."""
    return FORMATS[suffix].read(data.encode() if isinstance(data, str) else data)


def texts_of(suffix: str, data: bytes | str) -> list[str]:
    """The texts of a file's units."""
    return [unit.text for unit in read(suffix, data).units]


def translated(suffix: str, data: bytes | str, target: str = "de") -> bytes:
    """A file in capitals, of which nothing else has changed, where the answer has the format of the source."""
    source = data.encode() if isinstance(data, str) else data
    file = read(suffix, source)
    result = file.write([in_capitals(unit) for unit in file.units], target)
    assert FORMATS[suffix].result_suffix or list(map(str, differences(f"file{suffix}", source, result, target))) == []
    return result


def translated_text(suffix: str, text: str, target: str = "de") -> str:
    """A text file in capitals."""
    return translated(suffix, text, target).decode()


def unchanged(suffix: str, data: bytes | str) -> bytes:
    """A file whose translations are its own texts."""
    file = read(suffix, data)
    return file.write([unit.text for unit in file.units], "de")
