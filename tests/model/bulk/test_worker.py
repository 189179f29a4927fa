"""A worker with a model: rows in, rows out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from model.bulk.rows import PlacedRow
from model.bulk.worker import Worker
from model.errors import ArtifactError
from model.process.files import file_digest
from model.translation.options import TranslationOptions
from model.translator import Translator
from tests.model.bulk.streams import a_job


@pytest.fixture
def worker(toy_bundle: Path) -> Worker:
    job = a_job(options=TranslationOptions(return_confidence=True))
    return Worker(replace(job, bundle=toy_bundle, sha256=file_digest(toy_bundle)))


def placed(*texts: str | None) -> list[PlacedRow]:
    return [PlacedRow(3, index, text, None, None) for index, text in enumerate(texts)]


def test_rows_come_back_in_order_with_what_was_counted(worker: Worker) -> None:
    translations = worker.translate(placed("red cat. old dog.", None, "", "tree."))
    assert [row.translation for row in translations] == ["rot Katze. alt Hund.", None, "", "Baum."]
    assert [row.error for row in translations] == [None] * 4
    assert [row.num_sentences for row in translations] == [2, 0, 0, 1]
    assert [(row.file, row.row) for row in translations] == [(3, index) for index in range(4)]
    assert 0 < (translations[0].confidence or 0) <= 1 and translations[1].confidence is None
    assert translations[0].num_target_tokens > translations[3].num_target_tokens > 0


def test_the_error_of_one_text_does_not_fail_the_others(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    translate = Translator.translate

    def failing(self: Translator, texts: list[str], *arguments: object) -> object:
        if "dog." in texts:
            raise RuntimeError("out of luck")
        return translate(self, texts, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Translator, "translate", failing)
    translations = worker.translate(placed("cat.", "dog.", "tree."))
    assert [row.translation for row in translations] == ["Katze.", None, "Baum."]
    assert [row.error for row in translations] == [None, "RuntimeError: out of luck", None]


def test_rows_with_errors_and_ends_of_files_pass_through(worker: Worker) -> None:
    translations = worker.translate([PlacedRow(0, 0, None, "too long", None), PlacedRow(0, 1, None, None, "cut short")])
    assert [(row.error, row.failure, row.translation) for row in translations] == [
        ("too long", None, None),
        (None, "cut short", None),
    ]


def test_documents_in_rows_are_translated_and_a_broken_one_is_an_error(toy_bundle: Path) -> None:
    job = replace(a_job(options=TranslationOptions(format="xml")), bundle=toy_bundle, sha256=file_digest(toy_bundle))
    good, bad = Worker(job).translate(placed("<p>red <b>cat</b>.</p>", "<p>red"))
    assert good.translation == "<p>rot <b>Katze</b>.</p>"
    assert bad.translation is None and (bad.error or "").startswith("The markup cannot be read")


def test_a_bundle_that_differs_from_the_one_of_the_command_is_refused(toy_bundle: Path) -> None:
    with pytest.raises(ArtifactError, match=r"SHA-256|digest"):
        Worker(replace(a_job(), bundle=toy_bundle))
