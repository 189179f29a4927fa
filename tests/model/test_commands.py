"""``python -m model``, mostly in this process; tests of pipes use their own."""

from __future__ import annotations

import io
import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from model.__main__ import main
from model.artifacts.bundle import load_bundle
from model.artifacts.checkpoint import load_checkpoint, save_checkpoint
from model.network.quantised import int8_is_supported
from model.text.tokenizer_training import learn_tokenizer
from model.training.calibration import UNGRADED_SCALE
from model.training.corpus import read_lines
from model.training.graded import GradedTranslation, write_graded
from model.translation.confidence import FITTED
from tests.toy import write_corpus, write_toy

ROOT = Path(__file__).resolve().parents[2]


class Bytes(io.TextIOWrapper):
    """Standard input with given bytes."""

    def __init__(self, data: bytes) -> None:
        super().__init__(io.BytesIO(data), encoding="utf-8")


def test_every_command_has_help(capsys: pytest.CaptureFixture[str]) -> None:
    for command in (
        "prepare",
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
        "shortlist",
        "calibrate",
    ):
        with pytest.raises(SystemExit) as remaining:
            main([command, "--help"])
        assert remaining.value.code == 0
        assert "example" in capsys.readouterr().out


def test_lines_are_translated_in_order_and_blank_ones_kept(
    toy_bundle: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    monkeypatch.setattr(sys, "stdin", Bytes(b"red cat.\n\n  old dog.\r\ntree"))
    assert main(["translate", "--model", str(toy_bundle), "--device", "cpu", "--target", "de", "--quiet"]) == 0
    assert capfdbinary.readouterr().out.decode().splitlines()[:3] == ["rot Katze.", "", "  alt Hund."]


@pytest.mark.parametrize(
    ("arguments", "answer", "expected"),
    [
        (["--format", "html"], b"<p\n>red <b>cat</b>.\r\n", "<p\n>rot <b>Katze</b>.\r\n"),
        (
            ["--format", "xml"],
            b'<?xml version="1.0"?>\n<d>\n<p>old dog.</p></d>',
            '<?xml version="1.0"?>\n<d>\n<p>alt Hund.</p></d>',
        ),
        (["--format", "xml", "--input", "lines"], b"red <x/>cat.\n\nold dog.", "rot <x/>Katze.\n\nalt Hund.\n"),
        (
            ["--input", "document"],
            b"red cat.\n```\nold dog.\n```\n\nold dog.\n",
            "rot Katze.\n```\nold dog.\n```\n\nalt Hund.\n",
        ),
        (["--input", "document"], b"", ""),
    ],
)
def test_the_input_may_be_one_document(
    arguments: list[str],
    answer: bytes,
    expected: str,
    toy_bundle: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    monkeypatch.setattr(sys, "stdin", Bytes(answer))
    command = ["translate", "--model", str(toy_bundle), "--device", "cpu", "--target", "de", "--quiet", *arguments]
    assert main(command) == 0
    assert capfdbinary.readouterr().out.decode() == expected


def test_terms_and_protected_spans_are_arguments(
    toy_bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "terms.tsv").write_text("dog\tK\u00f6ter\n\n", encoding="utf-8")
    arguments = ["--model", str(toy_bundle), "--target", "de", "--glossary", str(tmp_path / "terms.tsv")]
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"red cat {x} AB-12 sees old dog.\n")))
    assert main(["translate", *arguments, "--protect", "auto", "--protect", "AB-[0-9]+"]) == 0
    (line,) = capfd.readouterr().out.splitlines()
    assert {"{x}", "AB-12"} <= set(line.split())
    assert line.endswith("K\u00f6ter.")


def test_a_wrong_line_of_a_glossary_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "terms.tsv").write_text("dog\tHund\ncat Katze\n", encoding="utf-8")
    with pytest.raises(SystemExit):
        main(["translate", "--target", "de", "--glossary", str(tmp_path / "terms.tsv")])
    assert "line 2" in capsys.readouterr().err


def test_confidences_stand_before_the_translations(
    toy_bundle: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    monkeypatch.setattr(sys, "stdin", Bytes(b"red cat.\n\n"))
    command = ["translate", "--model", str(toy_bundle), "--device", "cpu", "--target", "de", "--quiet", "--confidence"]
    assert main(command) == 0
    first, blank = capfdbinary.readouterr().out.decode().splitlines()[:2]
    score, text = first.split("\t")
    assert 0.0 < float(score) <= 1.0
    assert (text, blank) == ("rot Katze.", "1.0000\t")


def test_a_translation_can_be_begun_and_its_search_shown(
    toy_bundle: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    monkeypatch.setattr(sys, "stdin", Bytes(b"red cat.\n"))
    base = ["translate", "--model", str(toy_bundle), "--device", "cpu", "--target", "de", "--quiet"]
    assert main([*base, "--target-prefix", "rot", "--search", "--decoding", "greedy"]) == 0
    text, head, *lines = capfdbinary.readouterr().out.decode().splitlines()
    assert text == "rot Katze."
    assert head.split() == ["step", "id", "parent", "log_prob", "token"]
    rows = [line.split() for line in lines]
    assert [row[:3] for row in rows] == [[str(step), str(step + 1), str(step)] for step in range(len(rows))]
    assert "".join(row[4] for row in rows) == "▁Katze.</s>"
    assert [row[5] for row in rows] == ["kept"] * (len(rows) - 1) + ["ended"]


@pytest.mark.parametrize("option", [["--target-prefix", "rot"], ["--search"]], ids=lambda option: option[0])
def test_several_lines_are_refused_with_an_option_for_one_sentence(
    option: list[str], toy_bundle: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", Bytes(b"red cat.\nold dog.\n"))
    assert main(["translate", "--model", str(toy_bundle), "--device", "cpu", "--target", "de", *option]) == 1
    assert "error: The input has several lines" in capsys.readouterr().err


@pytest.mark.parametrize("format", ["text", "html", "xml"])
def test_input_that_is_not_utf8_names_its_line(
    format: str, toy_bundle: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", Bytes(b"cat.\nM\xfcnchen\n"))
    command = ["translate", "--model", str(toy_bundle), "--device", "cpu", "--target", "de", "--quiet"]
    assert main([*command, "--format", format]) == 1
    assert "error: Line 2 of the input is not UTF-8: it has the byte 0xfc" in capsys.readouterr().err


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


def test_a_bundle_is_exported_with_a_lexicon(
    toy_checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lexicon = tmp_path / "words.tsv"
    lexicon.write_text("en-de\tdog\tHund\n", encoding="utf-8")
    arguments = ["export", "--checkpoint", str(toy_checkpoint), "--precision", "float32", "--lexicon"]
    assert main([*arguments, str(lexicon), "--out", str(tmp_path / "a.verso")]) == 0
    stored = load_bundle(tmp_path / "a.verso").lexicon
    assert stored is not None
    assert stored.to_bytes() == lexicon.read_bytes()
    assert main([*arguments, str(tmp_path / "none.tsv"), "--out", str(tmp_path / "b.verso")]) == 1
    assert "none.tsv cannot be read" in capsys.readouterr().err


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


def test_examples_are_the_same_sentences_for_every_model(
    toy_checkpoint: Path, toy_bundle: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dev = toy_checkpoint.parents[1] / "dev"
    rows = []
    for model in (toy_checkpoint, toy_bundle):
        arguments = ["evaluate", "--model", str(model), "--device", "cpu", "--test", str(dev), "--pair", "en-de"]
        assert main([*arguments, "--limit", "20", "--examples", "3"]) == 0
        table = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| ")][1:]
        rows.append([line.split(" | ")[0] for line in table])
    assert len(rows[0]) == 3
    assert rows[0] == rows[1]


def test_training_pairs_can_be_excluded_from_a_test(
    toy_checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for language in ("en", "de"):
        lines = read_lines(toy_checkpoint.parents[1] / f"dev.{language}")[:4]
        (tmp_path / f"test.{language}").write_text("\n".join(lines) + "\n", encoding="utf-8")
        reference = [lines[0].upper(), "else"] if language == "en" else ["anders", lines[1].rstrip(".")]
        (tmp_path / f"known.{language}").write_text("\n".join(reference) + "\n", encoding="utf-8")
        (tmp_path / f"all.{language}").write_text("\n".join(lines) + "\n", encoding="utf-8")
    calls = ["evaluate", "--model", str(toy_checkpoint), "--device", "cpu", "--test", str(tmp_path / "test")]
    scores = tmp_path / "s.json"
    assert main([*calls, "--unseen", str(tmp_path / "known"), "--json", str(scores)]) == 0
    result = json.loads(scores.read_text())["test"]
    assert {pair: (of["num_sentences"], of["left_out"]) for pair, of in result.items()} == {
        "en-de": (2, 2),
        "de-en": (2, 2),
    }
    assert main([*calls, "--unseen", str(tmp_path / "all")]) == 1
    assert "is left; --unseen" in capsys.readouterr().err


def test_case_is_ignored_if_requested(toy_checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for language in ("en", "de"):
        text = (toy_checkpoint.parents[1] / f"dev.{language}").read_text(encoding="utf-8")
        (tmp_path / f"loud.{language}").write_text(text.upper() if language == "de" else text, encoding="utf-8")
    arguments = ["evaluate", "--model", str(toy_checkpoint), "--device", "cpu", "--test", str(tmp_path / "loud")]
    out = tmp_path / "s.json"
    assert main([*arguments, "--pair", "en-de", "--limit", "10", "--lowercase", "--json", str(out)]) == 0
    printed = capsys.readouterr().out
    assert "lower-cased: BLEU" in printed
    assert "case:lc" in printed
    scores = json.loads(out.read_text())["loud"]["en-de"]
    assert scores["bleu"] < 20 < 60 < scores["lowercase"]["bleu"]


def test_a_trained_model_can_be_fine_tuned(
    toy_checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = write_toy(tmp_path)
    lines = [line for line in config.read_text().splitlines() if not line.startswith(("model:", "vocab_size:"))]
    lines = [line for line in lines if not line.startswith(("max_steps", "cooldown"))]
    config.write_text("\n".join([*lines, "max_steps: 2", "cooldown_steps: 0", ""]))
    arguments = ["train", "--config", str(config), "--data", str(tmp_path), "--device", "cpu", "--quiet"]
    assert main([*arguments, "--run", str(tmp_path / "run"), "--init-from", str(toy_checkpoint)]) == 0
    output = capsys.readouterr()
    assert "starting from toy, SHA-256" in output.err
    assert load_checkpoint(Path(output.out.strip())).facts["settings"]["initialised_from"]["name"] == "toy"
    assert main([*arguments, "--run", str(tmp_path / "other"), "--init-from", str(tmp_path / "nowhere.pt")]) == 1
    assert "nowhere.pt cannot be read" in capsys.readouterr().err


def test_a_pair_the_model_does_not_have_is_refused(toy_bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["evaluate", "--model", str(toy_bundle), "--device", "cpu", "--test", "x", "--pair", "en-fr"]
    assert main(arguments) == 1
    assert "--pair is 'en-fr'; the model has" in capsys.readouterr().err


def test_attention_of_a_begun_translation_with_its_search(
    toy_bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base = ["attention", "red cat.", "--model", str(toy_bundle), "--device", "cpu", "--target", "de"]
    assert main([*base, "--out", str(tmp_path / "a.png"), "--target-prefix", "alt", "--search"]) == 0
    text, head, *lines = capsys.readouterr().out.splitlines()
    assert text.startswith("alt ") and head.startswith("step") and lines
    assert main([*base, "--out", str(tmp_path / "a.png"), "--target-text", "rot.", "--target-prefix", "alt"]) == 1
    assert "target_text is a whole translation" in capsys.readouterr().err


def test_attention_is_drawn_or_written_as_arrays(toy_bundle: Path, tmp_path: Path) -> None:
    base = ["attention", "red cat.", "--model", str(toy_bundle), "--device", "cpu", "--target", "de", "--out"]
    for more in ([], ["--head", "1"], ["--kind", "encoder", "--layer", "0"], ["--kind", "decoder"]):
        assert main([*base, str(tmp_path / "a.png"), *more]) == 0
        assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    assert main([*base, str(tmp_path / "a.npz")]) == 0
    with np.load(tmp_path / "a.npz") as arrays:
        np.testing.assert_allclose(arrays["cross"].sum(-1), 1.0, atol=1e-5)


@pytest.mark.parametrize(
    ("more", "output"),
    [
        (["--out", "a.gif"], "must end in .png or .npz"),
        (["--out", "a.png", "--layer", "3"], "has layers 0 to 0"),
        (["--out", "a.png", "--head", "9"], "heads 0 to 1"),
    ],
)
def test_wrong_attention_arguments_are_named(
    more: list[str], output: str, toy_bundle: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["attention", "cat.", "--model", str(toy_bundle), "--device", "cpu", "--target", "de", *more]) == 1
    assert output in capsys.readouterr().err


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


def test_the_mean_of_several_runs_is_published(
    toy_checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    toy = load_checkpoint(toy_checkpoint)
    other, both = tmp_path / "other.pt", tmp_path / "both.pt"
    save_checkpoint(replace(toy, weights={name: weight + 1 for name, weight in toy.weights.items()}), other)
    assert main(["publish", "--checkpoint", str(toy_checkpoint), str(other), "--out", str(both)]) == 0
    published = load_checkpoint(both)
    assert published.facts["mean_of"] == ["toy", "toy"]
    for name, weight in published.weights.items():
        torch.testing.assert_close(weight.float(), toy.weights[name] + 0.5, rtol=1e-3, atol=1e-3)
    foreign = learn_tokenizer(["the quick brown fox jumps over lazy dogs"] * 40, 290, ("en", "de"))
    save_checkpoint(replace(toy, tokenizer=foreign), other)
    assert main(["publish", "--checkpoint", str(toy_checkpoint), str(other), "--out", str(both)]) == 1
    assert "other.pt has another vocabulary" in capsys.readouterr().err


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


def test_a_learning_curve_is_drawn_from_a_run(toy_checkpoint: Path, tmp_path: Path) -> None:
    curve = toy_checkpoint.parent / "curve.csv"
    assert main(["plot", "curve", str(curve), "--out", str(tmp_path / "c.png")]) == 0
    assert (tmp_path / "c.png").read_bytes().startswith(b"\x89PNG")
    (tmp_path / "again").mkdir()
    shutil.copy(curve, tmp_path / "again")
    both = [str(curve), str(tmp_path / "again" / "curve.csv")]
    assert main(["plot", "curve", *both, "--out", str(tmp_path / "both.png")]) == 0
    assert (tmp_path / "both.png").read_bytes() != (tmp_path / "c.png").read_bytes()


@pytest.mark.parametrize(
    "arguments",
    [
        ["plot", "masks", "--out"],
        ["attention", "red cat.", "--target", "de", "--out"],
        ["evaluate", "--test", "t", "--json"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_a_missing_folder_is_named_before_any_work(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main([*arguments, str(tmp_path / "nowhere" / "x.png")])
    assert f"there is no folder '{tmp_path / 'nowhere'}'" in capsys.readouterr().err


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "p.png").mkdir()
    assert main(["plot", "masks", "--out", str(tmp_path / "p.png")]) == 1
    assert capsys.readouterr().err == f"error: {tmp_path / 'p.png'}: Is a directory\n"


@pytest.mark.parametrize(
    ("text", "output"),
    [
        (None, "cannot be read as a learning curve"),
        ("step,loss\n", "contains no evaluation yet"),
        ("step,loss\n1,low\n", "cannot be read as a learning curve"),
        ("step,loss\n1,2,3\n", "cannot be read as a learning curve"),
        ("loss\n1\n", "has no column 'step'"),
    ],
)
def test_a_file_that_is_not_a_curve_is_refused(
    text: str | None, output: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    curve = tmp_path / "curve.csv"
    if text is not None:
        curve.write_text(text)
    assert main(["plot", "curve", str(curve), "--out", str(tmp_path / "c.png")]) == 1
    assert output in capsys.readouterr().err
    assert not (tmp_path / "c.png").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ["attention", "red cat sees old dog.", "--target", "de", "--kind", "decoder", "--device", "cpu"],
        ["positions", "--layout", "tensor2tensor"],
        ["masks", "--length", "4"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_pictures_are_drawn(arguments: list[str], toy_bundle: Path, tmp_path: Path) -> None:
    model = ["--model", str(toy_bundle)] if arguments[0] == "attention" else []
    assert main(["plot", *arguments, *model, "--out", str(tmp_path / "p.png")]) == 0
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "output"),
    [
        (["positions", "--places", "0", "--out", "p.png"], "--places is 0; it must be at least 1"),
        (["positions", "--d-model", "7", "--out", "p.png"], "--d-model is 7; it must be even"),
        (["masks", "--length", "0", "--out", "p.png"], "--length is 0; it must be 1 to 100"),
        (["masks", "--out", "p.gif"], "'p.gif'; it must end in .png"),
    ],
)
def test_pictures_that_cannot_be_drawn_are_refused(
    arguments: list[str], output: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plot", *arguments]) == 1
    assert output in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "output"),
    [
        (["train", "--config", "nowhere.yaml"], "nowhere.yaml cannot be read"),
        (["train", "--config", "nowhere.yaml", "--stop-after", "0"], "--stop-after is 0; it must be at least 1"),
        (["export", "--checkpoint", "nowhere.pt", "--out", "x.pt"], "There is no checkpoint at nowhere.pt"),
        (["inspect", "nowhere.pt"], "There is no file nowhere.pt"),
        (["translate", "--model", "nowhere.pt"], "There is no file nowhere.pt"),
        (["tokenizer", "--learn", "nowhere.txt"], "No text at nowhere.txt"),
    ],
)
def test_a_missing_file_is_named_in_one_line(
    arguments: list[str], output: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 1
    errors = capsys.readouterr().err.strip().splitlines()
    assert len(errors) == 1
    assert output in errors[0]


def test_a_shortlist_is_learned_added_to_a_bundle_and_used(
    toy_checkpoint: Path, toy_bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = toy_checkpoint.parents[1]
    bundle, alone = tmp_path / "short.pt", tmp_path / "short.npz"
    learn = ["--config", str(data / "toy.yaml"), "--data", str(data), "--per-token", "5", "--frequent", "5"]
    assert main(["shortlist", "--model", str(toy_bundle), *learn, "--out", str(bundle)]) == 0
    output = capsys.readouterr()
    assert output.out.strip() == str(bundle)
    assert "of 300 on average" in output.err
    assert main(["shortlist", "--model", str(toy_checkpoint), *learn, "--out", str(alone)]) == 0
    result = load_bundle(bundle).shortlist
    assert result is not None
    assert result.to_bytes() == alone.read_bytes()
    capsys.readouterr()
    assert main(["inspect", str(bundle)]) == 0
    assert "shortlist    5 translations of each token" in capsys.readouterr().out
    assert main(["inspect", str(toy_bundle)]) == 0
    assert "shortlist    none" in capsys.readouterr().out
    test = ["evaluate", "--test", str(data / "dev"), "--limit", "10", "--pair", "en-de", "--device", "cpu"]
    assert main([*test, "--model", str(bundle), "--shortlist", "--json", str(tmp_path / "s.json")]) == 0
    assert "float32, shortlist," in capsys.readouterr().out
    assert json.loads((tmp_path / "s.json").read_text())["dev"]["en-de"]["shortlist"] is True
    for model, reason in ((toy_bundle, "has no vocabulary shortlist"), (toy_checkpoint, "is a checkpoint: export it")):
        assert main([*test, "--model", str(model), "--shortlist"]) == 1
        assert reason in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "output"),
    [
        (["--out", "x.txt"], "must end in .pt, .verso or .npz"),
        (["--out", "x.pt"], "is the checkpoint"),
        (["--out", "x.npz", "--per-token", "0"], "per_token is 0"),
    ],
)
def test_wrong_shortlist_arguments_are_named(
    more: list[str], output: str, toy_checkpoint: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = toy_checkpoint.parents[1]
    base = ["shortlist", "--model", str(toy_checkpoint), "--config", str(data / "toy.yaml"), "--data", str(data)]
    assert main([*base, *more]) == 1
    assert output in capsys.readouterr().err


@pytest.fixture
def half_wrong(tmp_path: Path) -> Path:
    """Development text of the toy in which every second reference belongs to another sentence."""
    write_corpus(tmp_path, "half", 30, seed=5)
    for language in ("en", "de"):
        path = tmp_path / f"half.{language}"
        lines = path.read_text(encoding="utf-8").splitlines()
        odd = lines[1::2] if language == "en" else ["ganz etwas anderes und sehr viel davon"] * 15
        path.write_text("".join(f"{a}\n{b}\n" for a, b in zip(lines[::2], odd, strict=True)), encoding="utf-8")
    return tmp_path / "half"


def test_a_calibration_is_stored_in_a_bundle_and_in_the_bundles_of_a_checkpoint(
    toy_checkpoint: Path, toy_bundle: Path, half_wrong: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bundle, checkpoint, exported = tmp_path / "calibrated.pt", tmp_path / "checkpoint.pt", tmp_path / "exported.pt"
    learn = ["--dev", str(half_wrong), "--device", "cpu", "--threads", "1"]
    measure = ["--test", str(half_wrong), "--limit", "20", "--plot", str(tmp_path / "r.png")]
    assert main(["calibrate", "--model", str(toy_bundle), *learn, *measure, "--out", str(bundle)]) == 0
    output = capsys.readouterr()
    assert "| half   | 40 " in output.out
    assert "words of sentences that were left out" in output.out
    assert output.out.strip().endswith(str(bundle))
    assert (tmp_path / "r.png").read_bytes().startswith(b"\x89PNG")
    manifest = load_bundle(bundle).manifest
    assert replace(manifest, confidence={}) == load_bundle(toy_bundle).manifest
    assert manifest.confidence["dev"] == {"half": 40}
    assert manifest.confidence["test"]["half"].keys() == {"sentences", "auc", "calibration_error"}
    assert manifest.calibration.weights.keys() == set(FITTED)
    assert (manifest.confidence["estimates"], manifest.confidence["graded"]) == ("right", 0)
    capsys.readouterr()
    assert main(["inspect", str(bundle)]) == 0
    assert "confidence   calibrated on half" in capsys.readouterr().out

    assert main(["calibrate", "--model", str(toy_checkpoint), *learn, "--out", str(checkpoint)]) == 0
    assert "which the score was fitted to" in capsys.readouterr().err
    for precision in ("float32", "int8") if int8_is_supported() else ("float32",):
        command = ["export", "--checkpoint", str(checkpoint), "--precision", precision, "--device", "cpu"]
        assert main([*command, "--out", str(exported)]) == 0
        assert load_bundle(exported).manifest.confidence == load_checkpoint(checkpoint).facts["confidence"]
    assert main(["publish", "--checkpoint", str(checkpoint), "--out", str(exported)]) == 0
    assert load_checkpoint(exported).facts["confidence"] == load_checkpoint(checkpoint).facts["confidence"]
    assert main(["publish", "--checkpoint", str(checkpoint), str(checkpoint), "--out", str(exported)]) == 0
    assert "confidence" not in load_checkpoint(exported).facts


def test_grades_of_a_reader_set_the_scale_of_a_calibration(
    toy_bundle: Path, half_wrong: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    right = GradedTranslation("fit", "toy", "en", "de", "red cat.", "rot Katze.", "rot Katze.", "yes")
    wrong = replace(right, translation="alt Hund.", right="no")
    fitted = [right, wrong, replace(right, translation="Haus.", right="")]
    rows = [*fitted, *(replace(row, use="test") for row in fitted)]
    graded, out = tmp_path / "graded.tsv", tmp_path / "out.pt"
    write_graded(rows, graded)
    command = ["calibrate", "--model", str(toy_bundle), "--dev", str(half_wrong), "--pair", "en-de", "--device", "cpu"]
    assert main([*command, "--graded", str(graded), "--out", str(out)]) == 0
    assert "| graded, en-de | 2 " in capsys.readouterr().out
    confidence = load_bundle(out).manifest.confidence
    assert confidence["graded"] == 2
    assert confidence["test"]["graded, en-de"]["auc"] == 1.0
    assert tuple(confidence["scale"]) != UNGRADED_SCALE


def test_a_calibration_needs_wrong_translations(
    toy_checkpoint: Path, toy_bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dev, out = str(toy_checkpoint.parents[1] / "dev"), str(tmp_path / "out.pt")
    command = ["calibrate", "--model", str(toy_bundle), "--dev", dev, "--limit", "5", "--device", "cpu", "--out", out]
    assert main(command) == 1
    assert "10 of 10 translations are right" in capsys.readouterr().err
    assert main([*command, "--plot", str(tmp_path / "r.gif")]) == 1
    assert "must end in .png" in capsys.readouterr().err
    assert not Path(out).exists()
