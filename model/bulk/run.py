"""A run of bulk translation: skip finished files, translate the rest, and report the outcome."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from tqdm import tqdm

from model.bulk.files import BulkFile
from model.bulk.job import Job
from model.bulk.records import Counts, Records
from model.bulk.rows import TranslatedRow
from model.errors import DataError

Stream = Callable[[Sequence[BulkFile]], Iterator[TranslatedRow]]
"""Translates the rows of files, and yields them in the order of files and rows."""

_MAX_NAMED = 10
"""Maximum number of files that a message names; of the others it gives only the number."""


@dataclass
class Outcome:
    """The outcome of a run.

    Args:
        counts: Rows, errors and tokens of the files that this run translated.
        num_files: Number of files that this run translated.
        before: The same counts of the files that earlier runs finished.
        num_before: Number of files that earlier runs finished.
        failed: For each file without output, the reason.
        seconds: Duration of the run.
        start_s: Seconds until the first translation, which are part of ``seconds``.
    """

    counts: Counts = field(default_factory=Counts)
    num_files: int = 0
    before: Counts = field(default_factory=Counts)
    num_before: int = 0
    failed: list[str] = field(default_factory=list)
    seconds: float = 0.0
    start_s: float = 0.0

    @property
    def exit_code(self) -> int:
        """1 if a file has no output, 3 if all files have one but rows have errors, else 0."""
        if self.failed:
            return 1
        return 3 if self.counts.errors + self.before.errors else 0

    def describe(self) -> list[str]:
        """The outcome in words, one line for each part."""
        lines = []
        counts, before = self.counts, self.before
        if self.num_before:
            errors = f" ({before.errors:,} rows in them have errors)" if before.errors else ""
            lines.append(f"skipped {self.num_before:,} finished files with {before.rows:,} rows{errors}")
        if self.num_files:
            lines.append(
                f"translated {self.num_files:,} files with {counts.rows:,} rows, {counts.sentences:,} sentences, in "
                f"{self.seconds:.1f} s ({self.start_s:.1f} s until the first translation): "
                f"{counts.sentences / self.seconds:,.1f} sentences/s, {counts.source_tokens / self.seconds:,.0f} "
                f"source and {counts.target_tokens / self.seconds:,.0f} target tokens/s"
            )
        if counts.errors:
            lines.append(f"{counts.errors:,} rows have no translation but an error")
        if counts.cut:
            lines.append(f"{counts.cut:,} translations have a sentence that was cut at --max-new-tokens")
        if self.failed:
            lines.append(f"{len(self.failed):,} files were not translated:")
            lines.extend(f"  {reason}" for reason in _first_lines(self.failed))
        return lines


def pending_files(
    files: Sequence[BulkFile], records: Records, job: Job, outcome: Outcome, *, overwrite: bool
) -> list[BulkFile]:
    """The files to translate. Finished files, and files that cannot be read, are recorded in the outcome.

    Args:
        files: All files.
        records: Their records.
        job: What to do with them.
        outcome: The outcome of the run.
        overwrite: Whether to translate files again whose input, options or output have changed.

    Raises:
        DataError: Outputs exist that were made from other inputs or with other options, or by another program.
    """
    pending: list[BulkFile] = []
    refused: list[str] = []
    for file in files:
        status = records.status(file)
        if status.state == "finished":
            outcome.num_before += 1
            outcome.before.add(status.counts)
            continue
        if status.state == "foreign":
            refused.append(f"{records.output(file)} was not written by this command: remove it")
        elif status.state == "changed" and not overwrite:
            refused.append(f"{records.output(file)}: {status.reason}")
        try:
            file.format.check(file.source, job.columns)
            pending.append(file)
        except DataError as error:
            outcome.failed.append(str(error))
    if refused:
        shown = "\n  ".join(_first_lines(refused))
        raise DataError(
            f"{len(refused)} outputs exist already and are not those of this run:\n  {shown}\n"
            "Nothing was translated. --overwrite translates again what was changed; --out names another folder."
        )
    return pending


def translate_files(
    files: Sequence[BulkFile],
    records: Records,
    job: Job,
    stream: Stream,
    outcome: Outcome,
    *,
    report: Callable[[str], None],
    show_progress: bool = True,
) -> None:
    """Translate files, one output after the other.

    Args:
        files: The files.
        records: Their outputs and records.
        job: What to do with the texts.
        stream: Translates the rows of the files.
        outcome: The outcome of the run, to which this function adds.
        report: Called with each error message.
        show_progress: Whether to draw a bar if standard error is a terminal.

    Raises:
        OSError: An output cannot be written.
        WorkersFailed: The workers cannot continue.
    """
    begin = time.perf_counter()
    rows = _Rows(stream(files))
    with tqdm(
        total=sum(file.num_bytes for file in files),
        unit="B",
        unit_scale=True,
        dynamic_ncols=True,
        disable=None if show_progress else True,
    ) as bar:
        for number, file in enumerate(files):
            counts = Counts()
            bar.set_postfix_str(f"file {number + 1:,} of {len(files):,}", refresh=False)
            try:
                _translate_file(file, records, job, rows.of_file(number, counts), bar)
                records.finish(file, counts)
            except DataError as error:
                outcome.failed.append(str(error))
                report(f"error: {error}")
            else:
                outcome.num_files += 1
                outcome.counts.add(counts)
            finally:
                records.discard(file)  # a complete output has been renamed and stays
            rows.skip_file(number)
            if not number:
                outcome.start_s = (rows.first_at or begin) - begin
    rows.end()
    outcome.seconds = time.perf_counter() - begin


def _translate_file(file: BulkFile, records: Records, job: Job, rows: Iterator[TranslatedRow], bar: tqdm[Any]) -> None:
    partial = records.partial(file)
    partial.parent.mkdir(parents=True, exist_ok=True)
    records.discard(file)  # partial output of a run that was killed
    num_bytes = 0
    for position in file.format.write(file.source, partial, records.partial_errors(file), job.columns, rows):
        bar.update(position - num_bytes)
        num_bytes = position


class _Rows:
    """The rows of a stream by file. Checks that no row is missing and none comes twice.

    Args:
        stream: The rows.
    """

    def __init__(self, stream: Iterator[TranslatedRow]) -> None:
        self._stream = stream
        self._next: TranslatedRow | None = None
        self.first_at: float | None = None
        """The time of the first row, by ``time.perf_counter``."""

    def of_file(self, number: int, counts: Counts) -> Iterator[TranslatedRow]:
        """Yield the rows of a file, and add them to its counts.

        Raises:
            DataError: The rest of the file cannot be read.
        """
        index = 0
        while (row := self._peek()) is not None and row.file == number:
            self._next = None
            if row.failure is not None:
                raise DataError(row.failure)
            if row.row != index:
                raise AssertionError(f"row {row.row} of file {number} came instead of row {index}")
            index += 1
            counts.rows += 1
            counts.errors += row.error is not None
            counts.cut += row.is_cut
            counts.sentences += row.num_sentences
            counts.source_tokens += row.num_source_tokens
            counts.target_tokens += row.num_target_tokens
            yield row
        if row is not None and row.file < number:
            raise AssertionError(f"a row of file {row.file} came among those of file {number}")

    def skip_file(self, number: int) -> None:
        """Skip the remaining rows of a file that has failed."""
        while (row := self._peek()) is not None and row.file == number:
            self._next = None

    def end(self) -> None:
        """Check that the stream has ended."""
        if self._peek() is not None:
            raise AssertionError("rows are left after the last file")

    def _peek(self) -> TranslatedRow | None:
        if self._next is None:
            self._next = next(self._stream, None)
            if self.first_at is None:
                self.first_at = time.perf_counter()
        return self._next


def _first_lines(lines: Sequence[str]) -> list[str]:
    """The first lines, and the number of the others."""
    num_others = len(lines) - _MAX_NAMED
    return [*lines[:_MAX_NAMED], *([f"and {num_others:,} more"] if num_others > 0 else [])]
