"""Fine-tuning of imported models: they start unchanged, resume, and are exported with their own vocabulary."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from model.artifacts.bundle import load_bundle
from model.artifacts.checkpoint import load_checkpoint
from model.artifacts.export import export_bundle
from model.errors import ConfigError
from model.importing.importer import import_checkpoint
from model.training.loop import train
from model.training.settings import TrainingSettings
from model.translation.options import TranslationOptions
from model.translator import Translator
from tests.model.importing.checkpoints import make_m2m100, make_marian, quiet, sentences

pytestmark = pytest.mark.thorough

KINDS: dict[str, dict[str, Any]] = {
    "marian": {},
    "marian with two vocabularies": {"separate": True},
    "nllb": {"nllb": True},
}


def settings(**changes: Any) -> TrainingSettings:
    values: dict[str, Any] = {
        "name": "tuned",
        "languages": ["en", "de"],
        "pairs": ["en-de"],
        "train": ["text"],
        "dev": "dev",
        "max_tokens_per_sentence": 100,
        "batch_tokens": 400,
        "max_steps": 4,
        "evaluate_every": 2,
        "warmup_steps": 1,
        "learning_rate": 0.01,
        "precision": "float32",
        "threads": 1,
        "model": {"dropout": 0.1},
    }
    return TrainingSettings.from_dict({**values, **changes})


@pytest.fixture(
    scope="module",
    params=["marian", *(pytest.param(kind, marks=pytest.mark.slow) for kind in KINDS if kind != "marian")],
)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``bundle.pt``, imported, and text to train it on."""
    folder = tmp_path_factory.mktemp("imported")
    with quiet():
        make = make_marian if request.param.startswith("marian") else make_m2m100
        make(folder / "theirs", **KINDS[request.param])
        import_checkpoint(folder / "theirs", folder / "bundle.pt", "float32", report=lambda line: None)
    for name, number, seed in (("text", 40, 1), ("dev", 6, 2)):
        for language in ("en", "de"):
            lines = sentences(number, (language,), seed)
            (folder / f"{name}.{language}").write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return folder


def run(config: TrainingSettings, folder: Path, out: Path, **options: Any) -> Path:
    return train(config, folder, out, show_progress=False, report=lambda line: None, **options)


def loss_of(bundle: Path, folder: Path) -> float:
    """Loss of the held-out sentences, one by one through the scripted module."""
    loaded = load_bundle(bundle)
    total, count = 0.0, 0
    pairs = [(folder / f"dev.{language}").read_text(encoding="utf-8").splitlines() for language in ("en", "de")]
    for source, target in zip(*pairs, strict=True):
        ids = loaded.tokenizer.encode(source, "de", "en")
        right = [*loaded.tokenizer.forced_ids("de"), *loaded.tokenizer.encode_target(target)]
        with torch.inference_mode():
            logits = loaded.module.forward(
                torch.tensor([ids]), torch.tensor([[loaded.tokenizer.start_id, *right[:-1]]])
            )
        total += float(F.cross_entropy(logits[0], torch.tensor(right), reduction="sum"))
        count += len(right)
    return total / count


@pytest.mark.sampled(1)
def test_an_imported_model_can_be_fine_tuned(folder: Path, tmp_path: Path) -> None:
    bundle = folder / "bundle.pt"
    trained = run(settings(), folder, tmp_path / "whole", init_from=bundle)
    with (tmp_path / "whole" / "curve.csv").open(newline="") as source:
        rows = list(csv.DictReader(source))
    assert float(rows[0]["dev_loss"]) == pytest.approx(loss_of(bundle, folder), rel=1e-5)
    assert float(rows[-1]["dev_loss"]) < float(rows[0]["dev_loss"])

    run(settings(), folder, tmp_path / "parts", init_from=bundle, stop_after_steps=3)
    parts = load_checkpoint(run(settings(), folder, tmp_path / "parts"))
    checkpoint = load_checkpoint(trained)
    for name, value in checkpoint.weights.items():
        torch.testing.assert_close(parts.weights[name], value, atol=1e-6, rtol=0)

    # The trained model is exported and served as before: with its own vocabulary and decoding policy.
    export_bundle(checkpoint, "float32", tmp_path / "tuned.pt", report=lambda line: None)
    before, after = Translator.load(bundle, "cpu"), Translator.load(tmp_path / "tuned.pt", "cpu")
    assert after.manifest.pairs == (("en", "de"),)
    assert after.manifest.tokenizer == before.manifest.tokenizer
    assert after.manifest.decoding == before.manifest.decoding
    assert after.manifest.training["initialised_from"]["name"] == before.manifest.name
    # Its vocabulary lacks letters of this word, which would be protected.
    plain = TranslationOptions(protect="none")
    assert after.translate(["Hello."], plain, source="en", target="de")[0].num_source_tokens > 1

    # A fine-tuned model can be fine-tuned again.
    again = run(replace(settings(), max_steps=1), folder, tmp_path / "again", init_from=trained)
    assert load_checkpoint(again).files == checkpoint.files


def test_unsupported_training_of_an_imported_model_is_refused(folder: Path, tmp_path: Path) -> None:
    bundle = folder / "bundle.pt"
    with pytest.raises(ConfigError, match="subword_sampling and target_subword_sampling need a vocabulary"):
        run(settings(subword_sampling=0.5), folder, tmp_path / "a", init_from=bundle)
    for name in ("text", "dev"):
        for language in ("en", "xx"):
            (tmp_path / f"{name}.{language}").write_text("One.\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"pairs asks for en-xx, but the model to start from translates"):
        run(settings(languages=["en", "xx"], pairs=["en-xx"]), tmp_path, tmp_path / "b", init_from=bundle)
