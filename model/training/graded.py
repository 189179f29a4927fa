"""Translations that a reader graded: right in meaning or not.

A grade belongs to one translation. A model is measured by the scores that it gives to these translations: it reads all
of them as if it had written them.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

from model.decoding.options import Hypothesis
from model.errors import DataError
from model.training.corpus import write_lines
from model.translation.options import TranslationOptions

if TYPE_CHECKING:
    from model.translation.pipeline import TextPipeline
    from model.translation.plan import Plan

Use = Literal["fit", "test"]
Grade = Literal["yes", "no", ""]


@dataclass(frozen=True)
class GradedTranslation:
    """A row of a file of graded translations.

    Args:
        use: Whether a score may be fitted to the grade, or is measured by it.
        kind: The kind of text.
        source_language: The language of the source.
        target_language: The language of the translation.
        source: A sentence.
        reference: A right translation of it.
        translation: The translation that was graded.
        right: Whether a careful reader calls it right in meaning; empty if it is not graded yet.
    """

    use: Use
    kind: str
    source_language: str
    target_language: str
    source: str
    reference: str
    translation: str
    right: Grade

    @property
    def pair(self) -> tuple[str, str]:
        """Source and target language."""
        return self.source_language, self.target_language


_COLUMNS = tuple(column.name for column in fields(GradedTranslation))


def read_graded(path: Path) -> list[GradedTranslation]:
    """Read graded translations, with those that are not graded yet.

    Args:
        path: A file with a header and tabs between its columns, without quotation marks around them.

    Raises:
        DataError: It has other columns, or a value that is not allowed.
    """
    rows: list[GradedTranslation] = []
    with path.open(encoding="utf-8", newline="") as lines:
        reader = csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
        header = next(reader, [])
        if tuple(header) != _COLUMNS:
            raise DataError(f"{path} has the columns {', '.join(header)}; it must have {', '.join(_COLUMNS)}.")
        for number, values in enumerate(reader, start=2):
            if len(values) != len(_COLUMNS) or values[0] not in get_args(Use) or values[-1] not in get_args(Grade):
                raise DataError(
                    f"{path}, line {number}: it must have {len(_COLUMNS)} columns, 'fit' or 'test' in the first one, "
                    "and 'yes', 'no' or nothing in the last one."
                )
            rows.append(GradedTranslation(*values))  # type: ignore[arg-type]  # the literals are checked
    return rows


def write_graded(rows: Iterable[GradedTranslation], path: Path) -> None:
    """Write graded translations as :func:`read_graded` reads them.

    Args:
        rows: The translations; no text has a tab or a line end.
        path: The file.
    """
    write_lines(path, ("\t".join(row) for row in (_COLUMNS, *map(astuple, rows))))


def given_plan(pipeline: TextPipeline, row: GradedTranslation) -> Plan:
    """A graded translation as if the model had written it, for :meth:`model.translator.Translator.confidence`.

    The text is encoded again. A model may have written it in other tokens, which have other probabilities.

    Args:
        pipeline: The pipeline of the model.
        row: A sentence that the model accepts, in languages that it translates.
    """
    plan = pipeline.plan_sentence(row.source, *row.pair, TranslationOptions())
    *token_ids, _ = pipeline.tokenizer.encode_target(pipeline.reader.folded(row.translation))
    plan.settle([Hypothesis(token_ids, None, "stop")])
    plan.drop_retries()  # a translation that the service would decode again is graded all the same
    return plan
