"""A run without Ray and without a model: what is translated, what is skipped, what is refused, what is left behind."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from model.bulk.files import BulkFile, find_files
from model.bulk.job import Job
from model.bulk.records import Records
from model.bulk.rows import Columns, TranslatedRow
from model.bulk.run import Outcome, Stream, pending_files, translate_files
from model.errors import DataError
from model.text.glossary import GlossaryTerm
from model.translation.options import TranslationOptions
from tests.model.bulk.streams import ShoutingStream, a_job

BEAM_1 = TranslationOptions(beam_size=1)


class Folder:
    """An input and an output folder, and runs from one to the other."""

    def __init__(self, path: Path) -> None:
        self.source, self.out = path / "in", path / "out"
        self.source.mkdir()
        self.out.mkdir()
        self.said: list[str] = []

    def write(self, **texts: str) -> None:
        for name, text in texts.items():
            (self.source / name.replace("_", ".")).write_bytes(text.encode())

    def run(self, job: Job | None = None, stream: Stream | None = None, *, overwrite: bool = False) -> Outcome:
        job, outcome = job or a_job(), Outcome()
        records = Records(self.out, job.recorded)
        with records.locked():
            files = pending_files(find_files([str(self.source)], self.out), records, job, outcome, overwrite=overwrite)
            if files:
                translate_files(files, records, job, stream or ShoutingStream(job), outcome, report=self.said.append)
        return outcome

    def text(self, name: str) -> str:
        return (self.out / name).read_bytes().decode()

    @property
    def outputs(self) -> list[str]:
        """All files in the output folder but those of records."""
        return sorted(path.name for path in self.out.iterdir() if path.name != ".verso")


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def test_lines_keep_their_order_and_blank_ones_stay(folder: Folder) -> None:
    folder.write(a_txt="one\n\n  two\r\nthree")
    outcome = folder.run()
    assert folder.text("a.txt") == "ONE\n\n  TWO\nTHREE\n"
    assert (outcome.exit_code, outcome.counts.rows, outcome.counts.errors) == (0, 4, 0)


def test_fields_of_json_lines_are_kept_byte_by_byte(folder: Folder) -> None:
    folder.write(
        a_jsonl='{"n": 1.10, "text": "one", "u": "\\u00e4"}\n\n{}\n {"text":null , "big":1e400 } \r\n{"text":""}'
    )
    outcome = folder.run()
    assert folder.text("a.jsonl").splitlines() == [
        '{"n": 1.10, "text": "one", "u": "\\u00e4", "translation": "ONE"}',
        "",
        '{"translation": null, "translation_error": "there is no field \'text\'"}',
        ' {"text":null , "big":1e400, "translation": null}',
        '{"text":"", "translation": ""}',
    ]
    assert (outcome.exit_code, outcome.counts.errors) == (3, 1)


def test_rows_that_cannot_be_translated_have_an_error_and_the_others_a_translation(folder: Folder) -> None:
    rows = [{"text": "a" * 101}, {"text": 7}, {"text": "b"}, {"text": ["x"]}]
    folder.write(a_jsonl="".join(json.dumps(row) + "\n" for row in rows) + '{"text": "\\ud83d!"}\n')
    outcome = folder.run()
    results = [json.loads(line) for line in folder.text("a.jsonl").splitlines()]
    assert [row["translation"] for row in results] == [None, None, "B", None, None]
    assert "has 101 characters and --max-characters is 100" in results[0]["translation_error"]
    assert "no text: 7" in results[1]["translation_error"]
    assert "translation_error" not in results[2]
    assert "surrogate" in results[4]["translation_error"]
    assert (outcome.exit_code, outcome.counts.rows, outcome.counts.errors) == (3, 5, 4)


def test_the_line_of_an_error_is_empty_and_its_error_in_a_file_beside(folder: Folder) -> None:
    folder.write(a_txt="one\n" + "a" * 101 + "\ntwo\n")
    assert folder.run().exit_code == 3
    assert folder.text("a.txt") == "ONE\n\nTWO\n"
    error = json.loads(folder.text("a.txt.errors.jsonl"))
    assert error["line"] == 2 and "101 characters" in error["translation_error"]
    assert folder.run(a_job(max_characters=200), overwrite=True).exit_code == 0
    assert folder.outputs == ["a.txt"]


def test_confidence_has_a_field_or_stands_before_the_line(folder: Folder) -> None:
    folder.write(a_txt="one\n", b_jsonl='{"text": "two"}\n')
    folder.run(a_job(columns=Columns(has_confidence=True)))
    assert folder.text("a.txt") == "0.5000\tONE\n"
    assert json.loads(folder.text("b.jsonl"))["translation_confidence"] == 0.5


def test_a_second_run_skips_finished_files_and_reports_their_errors(folder: Folder) -> None:
    folder.write(a_txt="one\n" + "a" * 101 + "\n", b_txt="two\n")
    folder.run()
    stream = ShoutingStream(a_job())
    again = folder.run(stream=stream)
    assert stream.num_texts == 0
    assert (again.num_before, again.before.rows, again.num_files, again.exit_code) == (2, 3, 0, 3)
    assert again.describe() == ["skipped 2 finished files with 3 rows (1 rows in them have errors)"]


def test_a_run_that_is_interrupted_leaves_complete_files_and_the_next_one_does_the_rest(folder: Folder) -> None:
    folder.write(a_txt="1\n2\n", b_txt="3\n4\n", c_txt="5\n6\n")
    stream = ShoutingStream(a_job())
    stream.dies_after = 3
    with pytest.raises(KeyboardInterrupt):
        folder.run(stream=stream)
    assert folder.outputs == ["a.txt"]
    rest = ShoutingStream(a_job())
    assert folder.run(stream=rest).exit_code == 0
    assert rest.num_texts == 4
    assert [folder.text(name) for name in folder.outputs] == ["1\n2\n", "3\n4\n", "5\n6\n"]


@pytest.mark.parametrize("remaining", [".b.txt.partial", ".verso/b.txt.json"])
def test_what_a_killed_run_has_left_of_a_file_is_written_anew(folder: Folder, remaining: str) -> None:
    folder.write(a_txt="1\n", b_txt="2\n")
    folder.run()
    (folder.out / "b.txt").unlink()  # killed between the record and the name of the output
    (folder.out / remaining).write_text(
        (folder.out / ".verso" / "b.txt.json").read_text(encoding="utf-8"), encoding="utf-8"
    )
    assert folder.run().num_files == 1
    assert folder.outputs == ["a.txt", "b.txt"] and folder.text("b.txt") == "2\n"


def test_a_changed_input_is_refused_and_translated_again_on_demand(folder: Folder) -> None:
    folder.write(a_txt="one\n", b_txt="two\n")
    folder.run()
    folder.write(a_txt="new\n")
    stream = ShoutingStream(a_job())
    with pytest.raises(DataError, match=r"a\.txt: the input was changed\n.*--overwrite"):
        folder.run(stream=stream)
    assert stream.num_texts == 0 and folder.text("a.txt") == "ONE\n"
    assert folder.run(stream=stream, overwrite=True).num_before == 1
    assert stream.num_texts == 1 and folder.text("a.txt") == "NEW\n"


def test_an_input_that_was_copied_or_touched_is_the_same(folder: Folder) -> None:
    folder.write(a_txt="one\n")
    folder.run()
    os.utime(folder.source / "a.txt", (1, 1))
    assert folder.run().num_before == 1


@pytest.mark.parametrize(
    ("job", "reason"),
    [
        (a_job(options=BEAM_1), 'beam_size was "default" and is 1'),
        (a_job(max_characters=50), "max_characters was 100 and is 50"),
        (a_job(columns=Columns(translation="de")), "columns was"),
        (a_job(options=TranslationOptions(glossary=(GlossaryTerm("a", "b"),))), 'glossary was "default" and is'),
    ],
)
def test_changed_options_are_refused_with_both_values(folder: Folder, job: Job, reason: str) -> None:
    folder.write(a_txt="one\n")
    folder.run()
    with pytest.raises(DataError) as refused:
        folder.run(job)
    assert reason in str(refused.value)
    assert folder.run(job, overwrite=True).num_files == 1
    assert folder.run(job).num_before == 1


def test_workers_threads_and_batches_do_not_count_as_changes(folder: Folder) -> None:
    folder.write(a_txt="one\n")
    folder.run()
    other = a_job()
    other = Job(**{**vars(other), "num_threads": 8, "bundle": Path("/elsewhere.pt"), "device": "cuda"})
    assert folder.run(other).num_before == 1


def test_an_output_that_was_altered_is_noticed(folder: Folder) -> None:
    folder.write(a_txt="one\n")
    folder.run()
    (folder.out / "a.txt").write_text("edited by hand\n", encoding="utf-8")
    with pytest.raises(DataError, match="the output has 15 bytes, and 4 were written"):
        folder.run()


def test_a_file_of_somebody_else_is_never_overwritten(folder: Folder) -> None:
    folder.write(a_txt="one\n")
    (folder.out / "a.txt").write_text("precious\n", encoding="utf-8")
    for overwrite in (False, True):
        with pytest.raises(DataError, match="was not written by this command"):
            folder.run(overwrite=overwrite)
    assert folder.text("a.txt") == "precious\n"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"text": "a"}\n{"text": "b', "Line 2 of .* is not JSON.*cut short"),
        ('{"text": "a"}\n[1]\n', "must be a JSON object"),
        ('{"text": "a"}\n{"text": "b", "translation": "x"}\n', "a field 'translation'.*--output-column"),
        ('{"body": "a"}\n', "has no field 'text'.*it has 'body'.*--column"),
    ],
)
def test_a_damaged_file_fails_alone_and_has_no_output(folder: Folder, text: str, reason: str) -> None:
    folder.write(a_jsonl=text, b_jsonl='{"text": "fine"}\n')
    outcome = folder.run()
    assert folder.outputs == ["b.jsonl"]
    assert (outcome.exit_code, len(outcome.failed), outcome.num_files) == (1, 1, 1)
    assert re.search(reason, outcome.failed[0])
    assert "a.jsonl" in outcome.describe()[-1]


def test_text_that_is_not_utf_8_fails_with_its_line(folder: Folder) -> None:
    (folder.source / "a.txt").write_bytes(b"one\ntwo\nM\xfcnchen\n")
    outcome = folder.run()
    assert outcome.exit_code == 1 and folder.outputs == []
    assert "Line 3 of" in outcome.failed[0] and "0xfc" in outcome.failed[0]


def test_an_input_that_changes_during_the_run_has_no_output(folder: Folder) -> None:
    folder.write(a_txt="one\ntwo\n", b_txt="three\n")
    job = a_job()

    def stream(files: list[BulkFile]) -> object:
        rows = list(ShoutingStream(job)(files))
        folder.write(a_txt="one\ntwo\nmore\n")
        return iter(rows)

    outcome = folder.run(job, stream)  # type: ignore[arg-type]
    assert "was changed while it was translated" in outcome.failed[0]
    assert folder.outputs == ["b.txt"]


@pytest.mark.parametrize("order", [(0, 0, 1), (1, 0), (0, 2), (0,), (0, 1, 2, 3)])
def test_rows_that_are_lost_or_come_twice_are_never_written(folder: Folder, order: tuple[int, ...]) -> None:
    folder.write(a_txt="one\ntwo\nthree\n")
    try:
        outcome = folder.run(stream=lambda files: iter([TranslatedRow(0, index, translation="x") for index in order]))
    except AssertionError:
        pass
    else:
        assert outcome.exit_code == 1
    assert folder.outputs == []


def test_empty_files_have_empty_outputs(folder: Folder) -> None:
    folder.write(a_txt="", b_jsonl="", c_txt="last\n")
    assert folder.run().exit_code == 0
    assert [folder.text(name) for name in folder.outputs] == ["", "", "LAST\n"]


def test_two_runs_into_one_folder_are_refused(folder: Folder) -> None:
    folder.write(a_txt="one\n")
    with Records(folder.out, {}).locked(), pytest.raises(DataError, match="Another run writes into"):
        folder.run()
    assert folder.run().exit_code == 0
