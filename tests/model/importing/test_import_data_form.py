"""Imported checkpoints in data form: the translations of TorchScript, and vocabularies that must fit the model."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from model.artifacts.bundle import load_bundle
from model.artifacts.convert import convert_bundle
from model.errors import ArtifactError
from model.importing.importer import import_checkpoint
from model.translation.options import TranslationOptions
from model.translator import Translator
from tests.model.importing.checkpoints import make_m2m100, make_marian, sentences

FAMILIES: dict[str, Callable[[Path], Any]] = {
    "one pair": make_marian,
    "separate vocabularies": lambda folder: make_marian(folder, separate=True),
    "multilingual": lambda folder: make_marian(folder, multilingual=True),
    "m2m100": make_m2m100,
    "nllb": lambda folder: make_m2m100(folder, nllb=True),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("family", FAMILIES)
def test_both_forms_translate_alike(family: str, tmp_path: Path) -> None:
    FAMILIES[family](tmp_path)
    scripted, data = tmp_path / "bundle.pt", tmp_path / "bundle.verso"
    import_checkpoint(tmp_path, scripted, "float32", report=lambda line: None)
    import_checkpoint(tmp_path, data, "float32", report=lambda line: None)
    first, other = Translator.load(scripted), Translator.load(data)
    source, target = first.manifest.directions.find(None, None)[0]
    texts = sentences(5, seed=3)
    options = TranslationOptions(decoding="beam", beam_size=2, max_new_tokens=10, return_scores=True)
    assert first.translate(texts, options, source, target) == other.translate(texts, options, source, target)
    convert_bundle(scripted, tmp_path / "converted.verso")
    assert (tmp_path / "converted.verso").read_bytes() == data.read_bytes()


def test_a_vocabulary_with_a_token_that_the_model_does_not_have_is_refused(tmp_path: Path) -> None:
    make_marian(tmp_path)
    data, changed = tmp_path / "bundle.verso", tmp_path / "changed.verso"
    import_checkpoint(tmp_path, data, "float32", report=lambda line: None)
    size = load_bundle(data).manifest.architecture["source_vocab_size"]
    with zipfile.ZipFile(data) as old, zipfile.ZipFile(changed, "w") as new:
        for name in old.namelist():
            content = old.read(name)
            if name.endswith("/vocab.json"):
                content = json.dumps({**json.loads(content), "one more": size}).encode()
            new.writestr(name, content)
    with pytest.raises(ArtifactError, match=f"tokens up to {size} and {size}; its model has {size} and {size} tokens"):
        load_bundle(changed)
