"""The command ``prepare``: what it writes and prints, and what it refuses."""

from __future__ import annotations

import csv
import gzip
import re
from pathlib import Path

import pytest

from model.__main__ import main
from model.artifacts.checkpoint import load_checkpoint
from model.training.corpus import read_parallel, unseen
from model.training.settings import TrainingSettings
from tests.grammar import write_text

EO_IT = ("eo", "it")


@pytest.fixture
def text(tmp_path: Path) -> tuple[Path, Path]:
    """Two files with a few faults."""
    source, target = write_text(tmp_path, 400)
    with source.open("a", encoding="utf-8") as first, target.open("a", encoding="utf-8") as second:
        first.write("Tom\n\nLa hundo.\n")
        second.write("Tom\nIl gatto.\nIl cane.\n")
    with source.open("ab") as first, target.open("ab") as second:
        first.write(b"La urbo.\n")
        second.write("La città.\n".encode("latin-1"))
    return source, target


def prepare(text: tuple[Path, Path], out: Path, *more: str) -> int:
    return main(
        ["prepare", "--source", str(text[0]), "--target", str(text[1]), "--out", str(out), "--device", "cpu", *more]
    )


@pytest.mark.thorough
def test_files_report_and_configuration_of_a_prepared_text(
    text: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "data"
    assert prepare(text, out, "--held-out", "25") == 0
    printed = capsys.readouterr().out

    sets = {base: read_parallel(out / base, EO_IT) for base in ("train", "dev", "test")}
    assert len(sets["dev"]) == len(sets["test"]) == 25
    assert unseen([*sets["dev"], *sets["test"]], sets["train"]) == [*sets["dev"], *sets["test"]]

    # The table adds up: lines, plus pairs of split lines, minus what is left out, is what was written.
    numbers = {
        label: int(number.replace(",", ""))
        for label, number in re.findall(r"^(.+?) {2,}([\d,]+)$", printed, re.MULTILINE)
    }
    assert numbers["lines"] == 404
    assert numbers["- a side is empty"] == numbers["- both sides have the same words"] == 1
    assert numbers["- a side is not UTF-8"] == 1
    assert "Not UTF-8: line 404." in printed
    signs = {"+": 1, "-": -1, "=": 0}
    rest = sum(signs.get(label[0], 1) * number for label, number in numbers.items())
    assert rest == sum(map(len, sets.values())) == sum(number for label, number in numbers.items() if label[0] == "=")
    with (out / "left-out.tsv").open(encoding="utf-8", newline="") as source:
        left_out = list(csv.DictReader(source, delimiter="\t", quoting=csv.QUOTE_NONE))
    assert len(left_out) == sum(number for label, number in numbers.items() if label[0] == "-")
    assert {"line": "402", "reason": "a side is empty", "eo": "", "it": "Il gatto."} in left_out

    settings = TrainingSettings.load(out / "train.yaml")
    assert (settings.name, settings.languages) == ("eo-it", EO_IT)
    assert re.search(r"Training takes about .* target tokens, at [\d,]+ a second, as just measured", printed)
    train = re.search(r"verso (train .*)", printed)
    assert train
    arguments = [word.replace("runs/", f"{tmp_path}/runs/") for word in train[1].split()]
    assert main([*arguments, "--device", "cpu", "--quiet", "--stop-after", "1"]) == 0
    assert load_checkpoint(tmp_path / "runs" / "eo-it" / "last.pt").facts["pairs"] == [("eo", "it"), ("it", "eo")]


@pytest.fixture
def speed(monkeypatch: pytest.MonkeyPatch) -> float:
    """A known number of target tokens a second, instead of a measurement."""
    monkeypatch.setattr("model.training.speed.measured_tokens_per_s", lambda *arguments: 1000.0)
    return 1000.0


def test_the_configuration_fits_the_time_at_the_measured_speed(
    text: tuple[Path, Path], tmp_path: Path, speed: float, capsys: pytest.CaptureFixture[str]
) -> None:
    assert prepare(text, tmp_path / "data", "--hours", "1") == 0
    printed = capsys.readouterr().out
    match = re.search(r"about (\d+) minutes for ([\d.]+) M target tokens, at 1,000 a second", printed)
    assert match
    assert int(match[1]) == pytest.approx(float(match[2]) * 1e6 / speed / 60, abs=1)
    assert int(match[1]) <= 61
    assert "more than --hours" not in printed
    assert prepare(text, tmp_path / "short", "--hours", "0.01") == 0
    steps = TrainingSettings.load(tmp_path / "short" / "train.yaml").max_steps
    assert f"{steps:,} updates are the fewest" in capsys.readouterr().out


def test_a_folder_is_replaced_only_if_asked_for_and_then_by_the_same_files(
    text: tuple[Path, Path], tmp_path: Path, speed: float, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "data"
    assert prepare(text, out) == 0
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    assert len(before) == 8
    assert prepare(text, out) == 1
    assert "train.yaml exists; choose another --out, or replace everything with --overwrite" in capsys.readouterr().err
    assert prepare(text, out, "--overwrite") == 0
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before


def test_columns_of_a_packed_table_are_prepared(text: tuple[Path, Path], tmp_path: Path, speed: float) -> None:
    sides = [path.read_bytes().splitlines()[:300] for path in text]
    table = b"".join(b"7\t%s\t%s\n" % (second, first) for first, second in zip(*sides, strict=True))
    (tmp_path / "t.tsv.gz").write_bytes(gzip.compress(table))
    arguments = ["prepare", "--table", str(tmp_path / "t.tsv.gz"), "--columns", "3", "2", "--languages", "EO", "it"]
    assert main([*arguments, "--out", str(tmp_path / "data"), "--device", "cpu", "--name", "mine"]) == 0
    assert TrainingSettings.load(tmp_path / "data" / "train.yaml").name == "mine"
    assert all(first.startswith("La ") for first, _ in read_parallel(tmp_path / "data" / "train", EO_IT))


@pytest.mark.parametrize(
    ("arguments", "output"),
    [
        (["--source", "a.eo"], "Give two files with --source and --target, or one with --table"),
        (["--source", "a.eo", "--target", "a.it", "--table", "t"], "or one with --table"),
        (["--table", "t.tsv"], "--table needs --languages"),
        (["--table", "t.tsv", "--languages", "eo", "it", "--columns", "2", "2"], "two different numbers from 1"),
        (["--source", "eo.txt", "--target", "a.it"], "'txt' is no language code .* --languages XX YY"),
        (["--source", "eo.gz", "--target", "a.it"], "'' is no language code"),
        (["--source", "a.it.gz", "--target", "b.it"], "Both languages are 'it'"),
        (["--source", "a.eo", "--target", "a.it", "--held-out", "0"], "--held-out is 0; it must be at least 1"),
        (["--source", "a.eo", "--target", "a.it", "--hours", "0"], "--hours is 0; it must be above 0"),
        (["--source", "a.eo", "--target", "a.it"], "No text at a.eo"),
    ],
)
def test_wrong_arguments_are_refused(
    arguments: list[str], output: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["prepare", *arguments, "--out", str(tmp_path / "data"), "--device", "cpu"]) == 1
    assert re.search(output, capsys.readouterr().err)
    assert not (tmp_path / "data").exists()
