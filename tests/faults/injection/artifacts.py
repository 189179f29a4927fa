"""Bundles in both forms, and checkpoints: written over earlier ones."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from model.artifacts.archive import add_calibration, write_bundle
from model.artifacts.bundle import is_whole, read_manifest
from model.artifacts.checkpoint import Checkpoint, load_checkpoint, save_checkpoint, untied_weights
from model.artifacts.manifest import Manifest
from model.artifacts.script import script
from model.errors import ArtifactError
from model.network.config import ModelConfig
from model.network.transformer import Transformer
from model.text.tokenizer_training import learn_tokenizer
from tests.faults.injection.scenario import History, Scenario, Trial, check_names, refused_as

SENTENCES = ["cat sees dog.", "red house.", "old tree likes cat.", "Katze sieht Hund.", "rotes Haus.", "alter Baum."]
REFUSALS = (ArtifactError, OSError)
"""Both end a command with one line and exit code 1."""


@functools.cache
def small_checkpoint() -> Checkpoint:
    """A checkpoint with random weights and a name."""
    tokenizer = learn_tokenizer(SENTENCES * 20, 300, ("en", "de"), kind="char")
    size = tokenizer.vocab_size
    config = ModelConfig(size, size, d_model=8, num_heads=2, d_ff=8, encoder_layers=1, decoder_layers=1)
    facts = {"name": "old", "pairs": [["en", "de"]], "licence": "CC0", "settings": {"languages": ["en", "de"]}}
    weights = untied_weights(Transformer(config, tokenizer.pad_id))
    return Checkpoint(config, weights, tokenizer, facts, {})


class Bundles(Scenario):
    """A bundle in each form is replaced, one gets a calibration, and a third is written into a new folder."""

    name = "bundles"
    store = "bundles (`.pt`, `.verso`)"
    may_abort = True  # torch ends the process if its writer cannot write

    def prepare(self, scratch: Path) -> None:
        """Compile a model, and write the earlier bundles."""
        checkpoint = small_checkpoint()
        self._module = script(checkpoint.build(), "float32")
        self._files = dict(checkpoint.vocabulary_files)
        self._manifest = Manifest.of_checkpoint(checkpoint.facts, checkpoint.config, "float32")
        self._old: dict[str, bytes] = {}
        for name in ("a.pt", "a.verso"):
            self._write("old", scratch / name)
            self._old[name] = (scratch / name).read_bytes()

    def _write(self, name: str, out: Path) -> None:
        write_bundle(self._module, replace(self._manifest, name=name), self._files, out)

    def seed(self, folder: Path) -> None:
        """The earlier bundles."""
        for name, content in self._old.items():
            (folder / name).write_bytes(content)

    def run(self, folder: Path, trial: Trial) -> None:
        """Write bundles, as ``export``, ``convert`` and ``calibrate`` do."""
        for step, act in self._steps(folder).items():
            if step == "new.pt":
                trial.heal()
            trial.attempt(step, functools.partial(refused_as, REFUSALS, act))

    def _steps(self, folder: Path) -> dict[str, Callable[[], None]]:
        calibrated = folder / "a.verso"
        return {
            "a.pt": lambda: self._write("new", folder / "a.pt"),
            "a.verso": lambda: self._write("new", folder / "a.verso"),
            "calibration": lambda: add_calibration(calibrated, {"intercept": 0.5, "weights": {}}, calibrated),
            "new.pt": lambda: self._write("new", folder / "made" / "new.pt"),
        }

    def check(self, folder: Path, history: History) -> None:
        """Each bundle is the earlier or the later one, whole; the next writing succeeds and leaves nothing else."""
        for name in ("a.pt", "a.verso"):
            path = folder / name
            assert is_whole(path), f"{name} is not whole"
            manifest = read_manifest(path)
            may_be = {"new"} if name in history.accepted else {"old", "new"} if name in history.tried else {"old"}
            assert manifest.name in may_be, f"{name} is {manifest.name}"
        is_calibrated = bool(read_manifest(folder / "a.verso").confidence)
        assert is_calibrated or "calibration" not in history.accepted, "the calibration is lost"
        assert not is_calibrated or "calibration" in history.tried
        made = folder / "made" / "new.pt"
        assert is_whole(made) if made.exists() else "new.pt" not in history.accepted, "new.pt is lost or not whole"
        for act in self._steps(folder).values():
            act()
        check_names(folder, {*self._old, "made"})
        check_names(folder / "made", {"new.pt"})


class Checkpoints(Scenario):
    """A checkpoint is replaced, and another one is written."""

    name = "checkpoints"
    store = "checkpoints"

    def prepare(self, scratch: Path) -> None:
        """Write the earlier checkpoint."""
        self._save("old", scratch / "last.pt")
        self._old = (scratch / "last.pt").read_bytes()

    def _save(self, name: str, path: Path) -> None:
        checkpoint = small_checkpoint()
        save_checkpoint(replace(checkpoint, facts={**checkpoint.facts, "name": name}), path)

    def seed(self, folder: Path) -> None:
        """The earlier checkpoint."""
        (folder / "last.pt").write_bytes(self._old)

    def run(self, folder: Path, trial: Trial) -> None:
        """Write checkpoints."""

        def attempt(step: str, name: str) -> Any:
            act = functools.partial(self._save, name, folder / f"{step}.pt")
            return trial.attempt(step, lambda: refused_as((ArtifactError,), act))

        attempt("last", "new")
        attempt("best", "new")
        trial.heal()
        attempt("step", "new")

    def check(self, folder: Path, history: History) -> None:
        """Each checkpoint is the earlier or the later one, whole; the next writing leaves nothing else."""
        for step in ("last", "best", "step"):
            path = folder / f"{step}.pt"
            if path.exists():
                name = load_checkpoint(path).facts["name"]
                assert name == "new" or (step == "last" and "last" not in history.accepted), f"{step} is {name}"
                assert name == "old" or step in history.tried
            else:
                assert step not in history.accepted and step != "last", f"{step} is lost"
            self._save("new", path)
        check_names(folder, {"last.pt", "best.pt", "step.pt"})
