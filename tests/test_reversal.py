"""Word reversal: a task with predictable attention, from training to a served picture of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from model.__main__ import main
from model.artifacts.checkpoint import load_checkpoint
from model.artifacts.export import export_bundle
from model.training.loop import train
from model.training.progress import CURVE
from model.training.settings import TrainingSettings
from model.translator import Translator
from scripts.reversal import main as write_words
from scripts.reversal import reversed_words
from tests.server import Server, served

CONFIG = Path(__file__).resolve().parents[1] / "configs" / "reverse.yaml"
WORD, BACKWARDS = "reversethis", "sihtesrever"
LAST_LAYER = -1
"""The decoder layer whose attention selects a letter. (The study's decoder has one layer.)"""


def quiet(line: str) -> None:
    """Discards progress messages."""


def anti_diagonal_share(cross: Tensor, num_letters: int) -> float:
    """The share of cross-attention on the anti-diagonal, as expected of reading backwards.

    Letter j of the output is letter n - 1 - j of the source. The share is the weight that the n rows of letters give
    to that letter or its neighbours, averaged over the heads, divided by all their weight.

    Args:
        cross: Weights of one layer, (H, T, S): rows for the n letters and the end, columns for marker, letters, end.
        num_letters: n.
    """
    rows = cross.mean(dim=0)[:num_letters]  # (n, S)
    answer = torch.arange(num_letters).unsqueeze(1)
    source = torch.arange(rows.size(1)).unsqueeze(0) - 1  # the marker precedes the first letter
    near = ((source - (num_letters - 1 - answer)).abs() <= 1) & (source >= 0) & (source < num_letters)
    return float(rows[near].sum() / rows.sum())


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A smaller study: seven letters, words of 9 to 12 letters, half the width."""
    settings = TrainingSettings.load(CONFIG)
    folder = tmp_path_factory.mktemp("reversal")
    alphabet = "".join(sorted(set(WORD)))
    small = ["--words", "20000", "--held-out", "200", "--letters", "9", "12", "--alphabet", alphabet]
    assert write_words([str(folder), *small]) == 0
    smaller = replace(
        settings,
        model={**settings.model, "d_model": 64, "d_ff": 128},
        batch_tokens=1400,
        max_steps=420,
        learning_rate=0.006,
        warmup_steps=60,
        cooldown_steps=180,
        evaluate_every=210,
        dev_sentences=200,
        precision="float32",
        threads=1,
    )
    train(smaller, folder, folder / "run", show_progress=False, report=quiet)
    return folder / "run"


@pytest.fixture(scope="module")
def bundle(run: Path) -> Path:
    export_bundle(load_checkpoint(run / "averaged.pt"), "float32", run / "bundle.pt", report=quiet)
    return run / "bundle.pt"


@pytest.mark.slow
def test_held_out_words_are_reversed(run: Path) -> None:
    facts = load_checkpoint(run / "averaged.pt").facts
    assert facts["dev"]["exact_qfw-qrv"] >= 95.0
    header, *rows = (run / CURVE).read_text().splitlines()
    assert {"bleu_qfw-qrv", "exact_qfw-qrv", "dev_loss"} <= set(header.split(","))
    assert len(rows) == 2


@pytest.mark.slow
def test_a_word_is_reversed(bundle: Path) -> None:
    translator = Translator.load(bundle, num_threads=1)
    (translation,) = translator.translate([WORD], return_alignment=True)
    assert (translation.text, translation.source, translation.target) == (BACKWARDS, "qfw", "qrv")
    assert translation.alignment is not None
    assert [link.target for link in translation.alignment] == [(index, index + 1) for index in range(11)]
    assert all(WORD[link.source[0] : link.source[1]] for link in translation.alignment)


@pytest.mark.slow
def test_the_last_layer_attends_from_right_to_left(bundle: Path) -> None:
    attention = Translator.load(bundle, num_threads=1).attention(WORD)
    assert attention.source_tokens == ["<2qrv>", *WORD, "</s>"]
    assert attention.target_tokens == [*BACKWARDS, "</s>"]
    assert anti_diagonal_share(attention.cross[LAST_LAYER], len(WORD)) >= 0.5


def test_generated_words_are_reproducible_and_unique() -> None:
    pairs = reversed_words(300, (2, 3), "abcdefghij", seed=1)
    assert pairs == reversed_words(300, (2, 3), "abcdefghij", seed=1)
    assert pairs != reversed_words(300, (2, 3), "abcdefghij", seed=2)
    assert len(set(pairs)) == 300
    assert all(word[::-1] == answer and 2 <= len(word) <= 3 for word, answer in pairs)
    assert not set(pairs) & set(reversed_words(300, (2, 3), "abcdefghij", seed=2, without=pairs))


def test_more_words_than_possible_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        write_words([str(tmp_path), "--words", "46", "--letters", "1", "2", "--alphabet", "abcdefghi"])
    assert "46 words are too many: only 90 are possible; ask for half at most." in capsys.readouterr().err


def test_the_measure_separates_the_anti_diagonal_from_other_patterns() -> None:
    columns = torch.eye(13)[1:12]  # row j attends to letter j
    end = torch.zeros(1, 13)
    assert anti_diagonal_share(torch.cat([columns.flip(0), end]).unsqueeze(0), 11) == 1.0
    assert anti_diagonal_share(torch.cat([columns, end]).unsqueeze(0), 11) == pytest.approx(1 / 11)
    assert anti_diagonal_share(torch.full((4, 12, 13), 1 / 13), 11) == pytest.approx((9 * 3 + 2 * 2) / 11 / 13)


@pytest.fixture(scope="module")
def server(bundle: Path) -> Iterator[Server]:
    with served(bundle) as running:
        yield running


@pytest.mark.slow
def test_the_model_is_served_with_its_attention(server: Server) -> None:
    answer = server.client.post("/translate", json={"text": WORD, "source": "qfw", "target": "qrv"}).json()
    assert answer["translations"][0]["text"] == BACKWARDS
    body = server.client.post("/attention", json={"text": WORD, "target": "qrv", "kinds": ["cross"]}).json()
    assert body["translation"] == BACKWARDS
    cross = torch.tensor(body["cross"]["weights"])
    assert anti_diagonal_share(cross[LAST_LAYER], len(WORD)) >= 0.5
    picture = server.client.post(
        "/attention", json={"text": WORD, "target": "qrv", "kinds": ["cross"]}, headers={"accept": "image/png"}
    )
    assert picture.content.startswith(b"\x89PNG")


@pytest.mark.slow
def test_the_whole_study_is_learned_within_minutes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert write_words([str(tmp_path)]) == 0
    train_command = ["train", "--config", str(CONFIG), "--data", str(tmp_path), "--run", str(tmp_path / "run")]
    assert main([*train_command, "--quiet"]) == 0
    checkpoint = load_checkpoint(tmp_path / "run" / "averaged.pt")
    assert checkpoint.facts["dev"]["exact_qfw-qrv"] >= 99.0
    bundle = tmp_path / "reverse.pt"
    export = ["export", "--checkpoint", str(tmp_path / "run" / "averaged.pt"), "--precision", "float32"]
    assert main([*export, "--out", str(bundle)]) == 0
    translator = Translator.load(bundle)
    # Words of another seed than those of the model selection, through the complete text pipeline.
    pairs = reversed_words(1000, (10, 20), "abcdefghijklmnopqrstuvwxyz", seed=3)
    answers = translator.translate([word for word, _ in pairs])
    right = sum(answer.text == backwards for answer, (_, backwards) in zip(answers, pairs, strict=True))
    assert right >= 0.99 * len(pairs)
    attention = translator.attention(WORD)
    assert attention.translation == BACKWARDS
    assert anti_diagonal_share(attention.cross[LAST_LAYER], len(WORD)) >= 0.5
