"""``verso translate --ray`` as a process of its own, with workers that are killed, and killed itself.

Run with ``python -m pytest -m ray``. Nothing here looks at the time but the bound after which a test fails.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.toy import write_corpus

pytestmark = pytest.mark.ray

ROOT = Path(__file__).resolve().parents[3]
VERSO = [sys.executable, "-c", "import sys; from app.commands.main import main; sys.exit(main())", "translate"]
PATIENCE_S = 600.0

POISONED = """
import os, signal, sys
from app.commands.main import main
from model.bulk import pipeline

class RayWorker(pipeline.RayWorker):
    def __call__(self, batch):
        if "poison" in batch.column("text").to_pylist():
            os.kill(os.getpid(), signal.SIGKILL)
        return super().__call__(batch)

pipeline.RayWorker = RayWorker
sys.exit(main(["translate", *sys.argv[1:]]))
"""
"""The command, whose workers die of a text."""


def until(condition: Callable[[], Any], process: subprocess.Popen[str] | None = None) -> Any:
    """What a condition gives as soon as that is something."""
    end = time.monotonic() + PATIENCE_S
    while not (result := condition()):
        assert time.monotonic() < end, "it did not happen"
        assert process is None or process.poll() is None, "the process has ended"
        time.sleep(0.02)
    return result


class Bulk:
    """The toy's corpora as files, what the plain command makes of them, and runs over them."""

    def __init__(self, folder: Path, bundle: Path) -> None:
        self.source, self.out = folder / "in", folder / "out"
        self.source.mkdir()
        self._model = ["--model", str(bundle), "--device", "cpu", "--target", "de", "--beam-size", "2"]
        self._environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}

    def write_lines(self, name: str, num_lines: int, seed: int) -> list[str]:
        write_corpus(self.source, name, num_lines, seed)
        (self.source / f"{name}.de").unlink()
        (self.source / f"{name}.en").rename(self.source / f"{name}.txt")
        return (self.source / f"{name}.txt").read_text(encoding="utf-8").splitlines()

    def plain(self, lines: list[str]) -> list[str]:
        """The translations of the command without ``--ray``."""
        process = subprocess.run(
            [*VERSO, *self._model, "--threads", "1"],
            cwd=ROOT,
            env=self._environment,
            input="".join(line + "\n" for line in lines),
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=True,
        )
        return process.stdout.splitlines()

    @contextmanager
    def running(
        self, *options: str, workers: int = 2, program: Sequence[str] = VERSO
    ) -> Iterator[subprocess.Popen[str]]:
        arguments = ["--ray", str(self.source), "--out", str(self.out), "--workers", str(workers), *options]
        with subprocess.Popen(
            [*program, *arguments, *self._model],
            cwd=ROOT,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            try:
                yield process
            finally:
                process.kill()

    def run(self, *options: str, workers: int = 2) -> tuple[int, str]:
        """The exit code of a run, and what it says."""
        with self.running(*options, workers=workers) as process:
            out, output = process.communicate(timeout=PATIENCE_S)
            assert out == ""
            return process.returncode, output

    def text(self, name: str) -> list[str]:
        return (self.out / name).read_text(encoding="utf-8").splitlines()

    def written(self, name: str) -> bool:
        """Whether a part of a file was written, and not all of it."""
        try:
            return (self.out / f".{name}.partial").stat().st_size > 0
        except FileNotFoundError:
            return False


def actors(process: subprocess.Popen[str]) -> list[psutil.Process]:
    """The workers of a run, by the name that Ray gives them."""
    results = []
    for child in psutil.Process(process.pid).children(recursive=True):
        try:
            if "RayWorker" in " ".join(child.cmdline()):
                results.append(child)
        except psutil.Error:
            pass  # it has ended in the meantime
    return results


@pytest.fixture
def bulk(tmp_path: Path, toy_bundle: Path) -> Bulk:
    return Bulk(tmp_path, toy_bundle)


def test_files_of_all_formats_are_translated_as_by_the_plain_command(bulk: Bulk) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    lines = bulk.write_lines("lines", 700, seed=7)
    expected = bulk.plain(lines)
    texts: list[str | None] = [*lines[:399], None]
    table = pa.table(
        {
            "id": pa.array(range(400), pa.int16()),
            "body": pa.array(texts).dictionary_encode(),
            "tags": pa.array([[str(index), None] for index in range(400)]),
        },
        metadata={"made by": "a test"},
    )
    (bulk.source / "deep").mkdir()
    pq.write_table(table, bulk.source / "deep" / "table.parquet", compression="zstd", row_group_size=90)
    pq.write_table(table.slice(0, 0), bulk.source / "empty.parquet")
    pq.write_table(table, bulk.source / "cut.parquet")
    content = (bulk.source / "cut.parquet").read_bytes()
    (bulk.source / "cut.parquet").write_bytes(content[: len(content) // 2])
    pq.write_table(table.rename_columns(["id", "text", "tags"]), bulk.source / "other.parquet")
    for number in range(40):  # more small files than workers
        (bulk.source / f"small-{number:02}.jsonl").write_text(
            json.dumps({"body": lines[number], "n": number}) + "\n", encoding="utf-8"
        )
    code, process = bulk.run("--column", "body", "--batch-size", "64")
    assert code == 1, process
    assert "cut.parquet cannot be read as Parquet" in process and "has no column 'body'" in process
    assert "translated 43 files" in process and "sentences/s" in process and "tokens/s" in process
    assert "\r" not in process  # no bar: standard error is no terminal
    assert bulk.text("lines.txt") == expected
    actual = pq.read_table(bulk.out / "deep" / "table.parquet")
    assert actual.column("translation").to_pylist() == [*expected[:399], None]
    assert actual.column("translation_error").to_pylist() == [None] * 400
    before = pq.read_table(bulk.source / "deep" / "table.parquet")
    assert actual.drop_columns(["translation", "translation_error"]).equals(before, check_metadata=True)
    assert pq.read_metadata(bulk.out / "deep" / "table.parquet").row_group(0).column(0).compression == "ZSTD"
    assert pq.read_table(bulk.out / "empty.parquet").num_rows == 0
    for number in range(40):
        row = json.loads(bulk.text(f"small-{number:02}.jsonl")[0])
        assert row == {"body": lines[number], "n": number, "translation": expected[number]}
    (bulk.source / "cut.parquet").unlink()
    (bulk.source / "other.parquet").unlink()
    code, process = bulk.run("--column", "body")
    assert (code, process) == (0, "skipped 43 finished files with 1,140 rows\n")


def test_a_worker_that_is_killed_loses_nothing_and_doubles_nothing(bulk: Bulk) -> None:
    lines = bulk.write_lines("lines", 6000, seed=8)
    with bulk.running("--batch-size", "32") as process:
        until(lambda: bulk.written("lines.txt"), process)
        victim = actors(process)[0]
        victim.kill()
        _, output = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 0, output
    assert bulk.text("lines.txt") == bulk.plain(lines)


def test_a_run_that_is_killed_leaves_no_process_and_the_next_one_goes_on(bulk: Bulk) -> None:
    first, second, third = (bulk.write_lines(name, 3000, seed) for name, seed in (("a", 1), ("b", 2), ("c", 3)))
    with bulk.running("--batch-size", "32") as process:
        until(lambda: bulk.written("b.txt"), process)
        launched = psutil.Process(process.pid).children(recursive=True)
        assert launched
        process.kill()
        process.wait(PATIENCE_S)
        until(lambda: not any(item.is_running() and item.status() != psutil.STATUS_ZOMBIE for item in launched))
    assert (bulk.out / "a.txt").exists() and not (bulk.out / "c.txt").exists()
    before = (bulk.out / "a.txt").stat().st_mtime_ns
    code, output = bulk.run("--batch-size", "32")
    assert code == 0 and "1 are finished" in output and "skipped 1 finished files with 3,000 rows" in output
    assert (bulk.out / "a.txt").stat().st_mtime_ns == before
    for name, lines in (("a.txt", first), ("b.txt", second), ("c.txt", third)):
        assert bulk.text(name) == bulk.plain(lines)
    assert not list(bulk.out.glob(".*.partial"))


def test_a_text_that_ends_every_worker_ends_the_run_instead_of_running_without_end(bulk: Bulk) -> None:
    bulk.write_lines("a", 300, seed=1)
    (bulk.source / "b.txt").write_text("red cat.\npoison\nold dog.\n", encoding="utf-8")
    with bulk.running("--batch-size", "64", workers=1, program=[sys.executable, "-c", POISONED]) as process:
        output = process.communicate(timeout=PATIENCE_S)[1]
    assert process.returncode == 1, output
    assert "error: The workers cannot go on: " in output and "Finished files are kept" in output
    assert [path.name for path in bulk.out.iterdir() if path.is_file()] in ([], ["a.txt"])
    (bulk.source / "b.txt").unlink()
    assert bulk.run()[0] == 0 and len(bulk.text("a.txt")) == 300
