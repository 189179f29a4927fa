"""The folder of a training run: killed at any operation, it ends with the same weights."""

from __future__ import annotations

import csv
import functools
from pathlib import Path
from typing import Any

import torch
from PIL import Image

import model.plots
from model.artifacts.checkpoint import load_checkpoint
from model.errors import ArtifactError
from model.training.loop import AVERAGED, BEST, train
from model.training.progress import CURVE
from model.training.run_setup import ENCODED, LAST
from model.training.settings import TrainingSettings
from tests.faults.injection.scenario import History, Scenario, Trial, check_names, refused_as
from tests.toy import CONFIG, write_corpus

CHANGES = {
    "dev_sentences: 20": "dev_sentences: 2",
    "warmup_steps: 40": "warmup_steps: 1",
    "cooldown_steps: 150": "cooldown_steps: 2",
    "max_steps: 400": "max_steps: 3",
    "evaluate_every: 100": "evaluate_every: 1",
    "d_model: 32": "d_model: 8",
    "d_ff: 64": "d_ff: 8",
    "max_tokens_per_sentence: 24": "max_tokens_per_sentence: 12",
    "max_positions: 64": "max_positions: 16",
}

_PICTURE = Image.new("RGB", (8, 8))


def _write_picture(rows: object, path: Path) -> None:
    """In the place of :func:`model.plots.learning_curve`, whose drawing is two thirds of a run: it writes as that does.

    Args:
        rows: Not drawn.
        path: The file.
    """
    _PICTURE.save(path, format="png")  # what matplotlib calls for a figure


class TrainingRun(Scenario):
    """A run of three updates with an evaluation after each of them, stopped after the first, resumed and repeated."""

    name = "training"
    store = "the folder of a training run"
    merges_writes = True

    def prepare(self, scratch: Path) -> None:
        """Write the text, and train once without a fault."""
        torch.set_num_threads(1)
        vars(model.plots)["learning_curve"] = _write_picture
        text = functools.reduce(lambda text, change: text.replace(*change), CHANGES.items(), CONFIG)
        (scratch / "toy.yaml").write_text(text, encoding="utf-8")
        write_corpus(scratch, "train", 200, seed=1)
        write_corpus(scratch, "dev", 4, seed=2)
        self._data = scratch
        self._settings = TrainingSettings.load(scratch / "toy.yaml")
        self._train(scratch / "expected", 1)
        self._train(scratch / "expected")  # resumed, so that all that a run imports is imported before the first fork
        self._expected = load_checkpoint(scratch / "expected" / AVERAGED).weights

    def _train(self, folder: Path, stop_after_steps: int | None = None) -> None:
        train(
            self._settings,
            self._data,
            folder,
            show_progress=False,
            stop_after_steps=stop_after_steps,
            report=lambda line: None,
        )

    def seed(self, folder: Path) -> None:
        """The run has not begun."""

    def run(self, folder: Path, trial: Trial) -> None:
        """Train, resume, and finish once more."""
        run = folder / "run"

        def attempt(step: str, stop_after_steps: int | None = None) -> Any:
            act = functools.partial(self._train, run, stop_after_steps)
            return trial.attempt(step, lambda: refused_as((ArtifactError, OSError), act))

        attempt("begin", 1)
        attempt("end")
        trial.heal()
        attempt("again")

    def check(self, folder: Path, history: History) -> None:
        """The same command ends with the same weights, and leaves the files of a run."""
        run = folder / "run"
        if "begin" in history.accepted:
            assert load_checkpoint(run / LAST).facts["step"] >= 1, "updates are lost"
        if "end" in history.accepted:
            assert (run / AVERAGED).exists(), "the model is lost"
        if (run / AVERAGED).exists():
            self._check_weights(run)
        self._train(run)
        self._check_weights(run)
        with (run / CURVE).open(encoding="utf-8") as rows:
            assert [row["step"] for row in csv.DictReader(rows)] == ["1", "2", "3"]
        steps = {f"step-{step:07d}.pt" for step in (2, 3)}
        check_names(run, {LAST, BEST, AVERAGED, CURVE, "curve.png", "tokenizer.model", ENCODED, *steps})
        assert all(path.suffix == ".npz" for path in (run / ENCODED).iterdir())

    def _check_weights(self, run: Path) -> None:
        weights = load_checkpoint(run / AVERAGED).weights
        assert weights.keys() == self._expected.keys()
        assert all(torch.equal(weights[name], expected) for name, expected in self._expected.items())
