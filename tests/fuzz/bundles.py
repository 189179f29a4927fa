"""Bundles in both forms and checkpoints: read and, as far as that runs nothing of the file, loaded and used."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from model.artifacts.bundle import is_checkpoint, load_bundle, read_manifest, read_tokenizer
from model.artifacts.checkpoint import Checkpoint, load_checkpoint, save_checkpoint, untied_weights
from model.artifacts.data_form import open_bundle
from model.errors import ModelError
from model.network.config import ModelConfig
from model.network.transformer import Transformer
from model.text.tokenizer import VersoTokenizer
from model.translation.options import TranslationOptions
from model.translator import Translator
from tests.fuzz.guard import ROOT
from tests.fuzz.mutations import mutated_archive, unpacked_size
from tests.fuzz.target import Target, scratch_folder

RELEASE = ROOT / "tests" / "releases" / "0.2.0"
"""Bundles of the first release."""

_OPTIONS = TranslationOptions(beam_size=2, num_hypotheses=2, max_new_tokens=6, return_scores=True)


def _in_file(suffix: str, run: Callable[[Path], object], data: bytes) -> None:
    path = scratch_folder() / f"input{suffix}"
    path.write_bytes(data)
    run(path)


def _use_data_form(path: Path) -> None:
    """What is loaded must be able to translate, or refuse."""
    with open_bundle(path):
        pass
    translator = Translator(load_bundle(path))
    source, target = translator.manifest.directions.example
    translator.translate(["red cat sees old dog."], _OPTIONS, source, target)


def _read_scripted(path: Path) -> None:
    """All that is read of a bundle in TorchScript before its digest is known; loading one runs it."""
    read_manifest(path)
    is_checkpoint(path)
    read_tokenizer(path)


def _released(*names: str) -> list[bytes]:
    return [(RELEASE / name).read_bytes() for name in names]


def _load_checkpoint(path: Path) -> None:
    checkpoint = load_checkpoint(path)
    checkpoint.build()


def _checkpoints() -> list[bytes]:
    """A checkpoint with random weights, and the architecture and vocabulary of a bundle."""
    bundle = load_bundle(RELEASE / "toy-float32.verso")
    assert isinstance(bundle.tokenizer, VersoTokenizer)
    config = ModelConfig.from_dict(bundle.manifest.architecture)
    transformer = Transformer(config, bundle.tokenizer.pad_id)
    facts = {"name": "toy", "pairs": [["en", "de"]], "settings": {}, "step": 1}
    path = scratch_folder() / "seed.pt"
    save_checkpoint(Checkpoint(config, untied_weights(transformer), bundle.tokenizer, facts, {}), path)
    return [path.read_bytes()]


TARGETS = [
    Target(
        "bundle-data",
        partial(_in_file, ".verso", _use_data_form),
        partial(_released, "toy-float32.verso", "toy-int8.verso"),
        (ModelError,),
        mutated_archive,
        unpacked_size,
    ),
    Target(
        "bundle-script",
        partial(_in_file, ".pt", _read_scripted),
        partial(_released, "toy-int8.pt"),
        (ModelError,),
        mutated_archive,
        unpacked_size,
    ),
    Target(
        "checkpoint",
        partial(_in_file, ".pt", _load_checkpoint),
        _checkpoints,
        (ModelError,),
        mutated_archive,
        unpacked_size,
    ),
]
