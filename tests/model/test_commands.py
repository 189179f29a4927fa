"""``python -m model``, mostly in this process, where a pipe matters in one of its own."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from model.__main__ import main
from model.training.checkpoint import load_checkpoint
from model.training.corpus import read_lines
from tests.toy import write_toy

ROOT = Path(__file__).resolve().parents[2]


class Bytes(io.TextIOWrapper):
    """Standard input with these bytes."""

    def __init__(self, data: bytes) -> None:
        super().__init__(io.BytesIO(data), encoding="utf-8")


def test_every_command_explains_itself(capsys: pytest.CaptureFixture[str]) -> None:
    for command in (
        "train",
        "evaluate",
        "translate",
        "attention",
        "export",
        "import",
        "inspect",
        "tokenizer",
        "plot",
        "publish",
    ):
        with pytest.raises(SystemExit) as left:
            main([command, "--help"])
        assert left.value.code == 0
        assert "example" in capsys.readouterr().out


def test_lines_are_translated_in_order_and_blank_ones_kept(
    toy_bundle: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    monkeypatch.setattr(sys, "stdin", Bytes(b"red cat.\n\n  old dog.\r\ntree"))
    assert main(["translate", "--model", str(toy_bundle), "--device", "cpu", "--target", "de", "--quiet"]) == 0
    assert capfdbinary.readouterr().out.decode().splitlines()[:3] == ["rot Katze.", "", "  alt Hund."]


def test_input_that_is_not_utf8_names_its_line(
    toy_bundle: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", Bytes(b"cat.\nM\xfcnchen\n"))
    assert main(["translate", "--model", str(toy_bundle), "--device", "cpu", "--target", "de", "--quiet"]) == 1
    assert "error: Line 2 of the input is not UTF-8: it holds byte 0xfc" in capsys.readouterr().err


def test_a_broken_pipe_is_no_error(toy_bundle: Path) -> None:
    command = [sys.executable, "-m", "model", "translate", "--model", str(toy_bundle), "--device", "cpu"]
    process = subprocess.Popen(
        [*command, "--target", "de", "--quiet"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    process.stdin.write(b"cat.\n" * 400)
    process.stdin.close()
    errors = process.stderr.read().decode()
    process.stderr.close()
    assert process.wait(60) == 0
    assert "Traceback" not in errors
    assert "BrokenPipe" not in errors


def test_scores_are_printed_with_signatures_and_written_as_json(
    toy_checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dev = toy_checkpoint.parents[1] / "dev"
    arguments = ["evaluate", "--model", str(toy_checkpoint), "--device", "cpu", "--test", str(dev), "--limit", "10"]
    assert main([*arguments, "--json", str(tmp_path / "s.json"), "--save", str(tmp_path / "out")]) == 0
    printed = capsys.readouterr().out
    assert "dev en-de: BLEU" in printed
    assert "tok:13a" in printed
    scores = json.loads((tmp_path / "s.json").read_text())["dev"]
    assert set(scores) == {"en-de", "de-en"}
    assert scores["en-de"]["bleu"] > 60
    assert scores["en-de"]["num_sentences"] == 10
    assert len(read_lines(tmp_path / "out" / "dev.en-de.de")) == 10


def test_a_pair_the_model_has_not_is_refused(toy_bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["evaluate", "--model", str(toy_bundle), "--device", "cpu", "--test", "x", "--pair", "en-fr"]
    assert main(arguments) == 1
    assert "--pair is 'en-fr'; the model has" in capsys.readouterr().err


def test_attention_is_drawn_or_written_as_arrays(toy_bundle: Path, tmp_path: Path) -> None:
    base = ["attention", "red cat.", "--model", str(toy_bundle), "--device", "cpu", "--target", "de", "--out"]
    for more in ([], ["--head", "1"], ["--kind", "encoder", "--layer", "0"], ["--kind", "decoder"]):
        assert main([*base, str(tmp_path / "a.png"), *more]) == 0
        assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    assert main([*base, str(tmp_path / "a.npz")]) == 0
    with np.load(tmp_path / "a.npz") as arrays:
        np.testing.assert_allclose(arrays["cross"].sum(-1), 1.0, atol=1e-5)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--out", "a.gif"], "must end in .png or .npz"),
        (["--out", "a.png", "--layer", "3"], "has layers 0 to 0"),
        (["--out", "a.png", "--head", "9"], "heads 0 to 1"),
    ],
)
def test_wrong_attention_arguments_are_named(
    more: list[str], said: str, toy_bundle: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["attention", "cat.", "--model", str(toy_bundle), "--device", "cpu", "--target", "de", *more]) == 1
    assert said in capsys.readouterr().err


def test_a_run_published_exported_and_inspected(
    toy_checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scores = tmp_path / "scores.json"
    scores.write_text('{"dev": {"en-de": {"bleu": 99.0}}}')
    small, bundle = tmp_path / "small.pt", tmp_path / "bundle.pt"
    arguments = ["--checkpoint", str(toy_checkpoint), "--scores", str(scores), "--out", str(small)]
    assert main(["publish", *arguments]) == 0
    published = load_checkpoint(small)
    assert published.progress == {}
    assert {value.dtype for value in published.weights.values()} == {torch.float16}
    assert main(["inspect", str(small)]) == 0
    assert '"bleu": 99.0' in capsys.readouterr().out
    assert main(["export", "--checkpoint", str(small), "--precision", "float32", "--out", str(bundle)]) == 0
    capsys.readouterr()
    assert main(["inspect", str(bundle), "--json"]) == 0
    inspected = json.loads(capsys.readouterr().out)
    assert inspected["manifest"]["scores"]["dev"]["en-de"]["bleu"] == 99.0
    parameters = inspected["parameters"]
    assert parameters.pop("total") == sum(parameters.values()) == sum(w.numel() for w in published.weights.values())
    assert inspected["bytes"]["file"] == bundle.stat().st_size
    assert inspected["bytes"]["weights"] > 4 * sum(parameters.values())
    assert main(["inspect", str(bundle)]) == 0
    shown = capsys.readouterr().out
    assert "translates   de-en, en-de" in shown
    assert "licence      CC0" in shown
    scores.write_text("{")
    assert main(["publish", *arguments]) == 1
    assert "cannot be read" in capsys.readouterr().err


def test_a_tokenizer_is_learned_and_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_toy(tmp_path)
    out = tmp_path / "t.model"
    learn = ["--learn", str(tmp_path / "train.en"), str(tmp_path / "train.de"), "--vocab-size", "300"]
    assert main(["tokenizer", *learn, "--out", str(out)]) == 0
    assert "300 tokens" in capsys.readouterr().out
    assert main(["tokenizer", "--show", "red cat", "--tokenizer", str(out)]) == 0
    shown = capsys.readouterr().out
    assert "<2de>" in shown
    assert "</s>" in shown


def test_a_curve_is_drawn_again(toy_checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    curve = toy_checkpoint.parent / "curve.csv"
    assert main(["plot", str(curve), "--out", str(tmp_path / "c.png")]) == 0
    assert (tmp_path / "c.png").read_bytes().startswith(b"\x89PNG")
    assert main(["plot", str(tmp_path / "nowhere.csv"), "--out", "c.png"]) == 1
    assert "cannot be read as a learning curve" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["train", "--config", "nowhere.yaml"], "nowhere.yaml cannot be read"),
        (["export", "--checkpoint", "nowhere.pt", "--out", "x.pt"], "There is no checkpoint at nowhere.pt"),
        (["inspect", "nowhere.pt"], "There is no file nowhere.pt"),
        (["translate", "--model", "nowhere.pt"], "There is no file nowhere.pt"),
        (["tokenizer", "--learn", "nowhere.txt"], "No text at nowhere.txt"),
    ],
)
def test_what_is_missing_is_named_in_one_line(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 1
    errors = capsys.readouterr().err.strip().splitlines()
    assert len(errors) == 1
    assert said in errors[0]
