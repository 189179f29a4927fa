"""Graded translations: the file, the repository's own one, and how a model reads them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from benchmarks.quality.confidence import FILE, translate_again
from model import TranslationOptions, Translator
from model.errors import DataError
from model.training.graded import GradedTranslation, given_plan, read_graded, write_graded

ROW = GradedTranslation("test", "toy", "en", "de", "red cat.", "rot Katze.", "rot Katze.", "yes")


@pytest.fixture(scope="module")
def translator(toy_bundle: Path) -> Translator:
    return Translator.load(toy_bundle)


def test_rows_are_read_as_they_were_written(tmp_path: Path) -> None:
    rows = [ROW, GradedTranslation("fit", "toy", "de", "en", '"rot" Katze', '"red" cat', "'red' cat", "")]
    write_graded(rows, tmp_path / "graded.tsv")
    assert read_graded(tmp_path / "graded.tsv") == rows


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("use\tkind", "use\tsort", "it must have use, kind, source_language"),
        ("\tyes", "\tperhaps", "line 2: it must have 8 columns"),
        ("test\ttoy", "toy", "line 2"),
        ("test\ttoy", "dev\ttoy", "line 2"),
    ],
)
def test_other_files_are_refused(old: str, new: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "graded.tsv"
    write_graded([ROW], path)
    path.write_text(path.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")
    with pytest.raises(DataError, match=message):
        read_graded(path)


def test_a_graded_translation_has_the_evidence_of_the_same_translation_by_the_model(translator: Translator) -> None:
    plan = translator.prepare(ROW.source, "en", "de")
    translator.decode([plan])
    assert plan.complete().text == ROW.translation
    (own,) = translator.confidence(plan)
    (evidence,) = translator.confidence(given_plan(translator.pipeline, ROW))
    assert evidence.log_probs.tolist() == pytest.approx(own.log_probs.tolist())
    assert evidence.word_log_probs == pytest.approx(own.word_log_probs)


def test_a_grade_is_kept_as_long_as_its_translation_is_the_same(translator: Translator) -> None:
    other = GradedTranslation("test", "toy", "en", "de", "old dog.", "alt Hund.", "Hund.", "no")
    kept, changed = translate_again(translator, [ROW, other], TranslationOptions())
    assert kept == ROW
    assert (changed.translation, changed.right) == ("alt Hund.", "")


def test_the_repository_has_graded_translations_of_both_directions_for_both_uses() -> None:
    rows = read_graded(FILE)
    number = Counter((row.use, row.pair) for row in rows)
    assert all(number[use, pair] >= 100 for use in ("fit", "test") for pair in (("en", "de"), ("de", "en")))
    assert len({(row.source, row.pair) for row in rows}) == len(rows)
