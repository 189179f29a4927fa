"""The options of ``verso translate --ray``, and what it refuses before it starts Ray."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from app.commands.main import main
from model.bulk import pipeline
from model.errors import ConfigError
from tests.model.bulk.streams import a_job


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    path = tmp_path / "in" / "a.txt"
    path.parent.mkdir()
    path.write_text("red cat.\n", encoding="utf-8")
    return path


def refused(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """What the command says, which fails with one line."""
    assert main(["translate", *map(str, arguments)]) == 1
    output = capsys.readouterr()
    assert output.out == "" and output.err.startswith("error: ") and output.err.count("\n") == 1
    return output.err


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--ray", "--out", "OUT"], "name files, folders or patterns"),
        (["--ray", "FILE"], "needs --out"),
        (["--ray", "FILE", "--out", "OUT", "--input", "document"], "--input document is for standard input"),
        (["--ray", "FILE", "--out", "OUT", "--search"], "--search is for a single sentence"),
        (["--ray", "FILE", "--out", "OUT", "--target-prefix", "Das"], "--target-prefix is for a single sentence"),
        (["--ray", "FILE", "--out", "OUT", "--workers", "0"], "--workers is 0; it must be at least 1"),
        (["--ray", "FILE", "--out", "OUT", "--threads", "-1"], "--threads is -1; it must be at least 1"),
        (["--ray", "FILE", "--out", "OUT", "--batch-size", "0"], "--batch-size is 0; it must be 1 to 100000"),
        (["--ray", "FILE", "--out", "OUT", "--server", "http://localhost:1"], "choose one"),
        (["--out", "OUT"], "--out is for bulk translation: add --ray"),
        (["--overwrite"], "--overwrite is for bulk translation: add --ray"),
        (["--server", "http://localhost:1", "--workers", "2"], "--workers is for bulk translation: add --ray"),
    ],
)
def test_options_that_do_not_fit_are_refused(
    arguments: list[str], reason: str, texts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    named = {"FILE": str(texts), "OUT": str(tmp_path / "out")}
    assert reason in refused(capsys, "--target", "de", *(named.get(argument, argument) for argument in arguments))
    assert not (tmp_path / "out").exists()


def test_what_the_model_cannot_do_is_refused_before_ray_starts(
    texts: Path, tmp_path: Path, toy_bundle: Path, toy_checkpoint: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bulk = ("--ray", texts, "--out", tmp_path / "out", "--device", "cpu")
    toy = (*bulk, "--model", toy_bundle)
    assert "No loaded pair has" in refused(capsys, *toy, "--target", "fr")
    assert "forms of address" in refused(capsys, *toy, "--target", "de", "--formality", "formal")
    assert "has no vocabulary shortlist" in refused(capsys, *toy, "--target", "de", "--shortlist")
    assert "beam_size is 0" in refused(capsys, *toy, "--target", "de", "--beam-size", "0")
    assert "export it first" in refused(capsys, *bulk, "--model", toy_checkpoint, "--target", "de")


def test_files_that_all_fail_need_no_ray(
    texts: Path, tmp_path: Path, toy_bundle: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    (tmp_path / "b.jsonl").write_text('{"body": "red cat."}\n', encoding="utf-8")
    named = ["--ray", str(tmp_path / "b.jsonl"), "--out", str(tmp_path / "out"), "--model", str(toy_bundle)]
    assert main(["translate", *named, "--target", "de"]) == 1
    assert "it has 'body'. Name the field of the text with --column." in capsys.readouterr().err


def test_without_the_extra_the_command_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ConfigError, match=r"pip install 'verso-translate\[ray\]'"), pipeline.start_ray(a_job(), 1, 10):
        pass


@pytest.mark.parametrize(
    ("resources", "expected", "threads", "gpus", "result"),
    [
        ({"CPU": 4}, 2, 1, 0, 2),
        ({"CPU": 18}, None, 4, 0, 4),
        ({"CPU": 18, "GPU": 3}, None, 4, 1, 3),
        ({"CPU": 3}, 2, 1, 0, None),
        ({"CPU": 2}, None, 1, 0, None),
        ({"CPU": 64}, None, 1, 1, None),
    ],
)
def test_a_cluster_without_room_for_the_workers_is_refused(
    resources: dict[str, float], expected: int | None, threads: int, gpus: int, result: int | None
) -> None:
    if result is None:
        with pytest.raises(ConfigError, match="There is room for"):
            pipeline.pool_size(resources, expected, threads, gpus)
    else:
        assert pipeline.pool_size(resources, expected, threads, gpus) == result
