"""Checkpoints of Hugging Face and Marian, each an archive of the files of its folder: imported and loaded."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import sentencepiece

from model.artifacts.bundle import load_bundle
from model.artifacts.manifest import Precision
from model.errors import ModelError
from model.importing.family import Overrides
from model.importing.importer import import_checkpoint
from tests.fuzz.mutations import mutated_archive, unzipped
from tests.fuzz.target import Target, scratch_folder

_SIZES = {
    "d_model": 8,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 8,
    "decoder_ffn_dim": 8,
    "max_position_embeddings": 32,
}


def _import(data: bytes, precision: Precision = "float32", overrides: Overrides = Overrides()) -> None:  # noqa: B008
    """What is imported can be loaded."""
    folder = scratch_folder() / "checkpoint"
    folder.mkdir(exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    for name, content in unzipped(data):
        if name and Path(name).name == name and "\0" not in name and len(name) < 100:
            (folder / name).write_bytes(content)
    out = scratch_folder() / "imported.verso"
    import_checkpoint(folder, out, precision, overrides=overrides, report=lambda line: None)
    load_bundle(out)


def _archived(folder: Path) -> bytes:
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as archive:
        for path in sorted(folder.iterdir()):
            archive.writestr(zipfile.ZipInfo(path.name), path.read_bytes())
    return written.getvalue()


def _without_normalisation(path: Path) -> None:
    """Take the table of normalisation from a vocabulary: it is most of the file, and no text of a seed needs it."""
    from sentencepiece import sentencepiece_model_pb2

    messages: Any = sentencepiece_model_pb2  # made at run time
    proto = messages.ModelProto.FromString(path.read_bytes())
    proto.normalizer_spec.precompiled_charsmap = b""
    proto.normalizer_spec.name = "identity"
    path.write_bytes(proto.SerializeToString())
    sentencepiece.SentencePieceProcessor().LoadFromSerializedProto(path.read_bytes())


def _seeds(pickled: bool) -> list[bytes]:
    # Imported here: transformers takes seconds, and is needed for the seeds only.
    import torch
    from safetensors.torch import load_file

    from tests.model.importing.checkpoints import make_m2m100, make_marian

    results = []
    makers: dict[str, Callable[..., Any]] = {
        "marian": make_marian,
        "m2m100": make_m2m100,
        "nllb": partial(make_m2m100, nllb=True),
    }
    for name, make in makers.items():
        folder = scratch_folder() / name
        make(folder, **_SIZES)
        for path in [*folder.glob("*.spm"), *folder.glob("*.bpe.model")]:
            _without_normalisation(path)
        (folder / "README.md").write_text("---\nlicense: cc0-1.0\n---\n")
        if pickled:
            weights = folder / "model.safetensors"
            torch.save(load_file(weights), folder / "pytorch_model.bin")
            weights.unlink()
        results.append(_archived(folder))
    return results


def _marian_seeds() -> list[bytes]:
    from tests.model.importing.marian_nmt.files import Shape, make_opus, make_student

    shape = Shape(width=8, inner=8, heads=2, encoder=1, decoder=1)
    makers: dict[str, Callable[[Path], Any]] = {
        "student": lambda folder: make_student(folder, shape),
        "student-npz": lambda folder: make_student(folder, shape, int8=False),
        "opus-npz": lambda folder: make_opus(folder, replace(shape, activation="swish"), multilingual=True),
    }
    results = []
    for name, make in makers.items():
        folder = scratch_folder() / name
        make(folder)
        for path in folder.glob("*.spm"):
            _without_normalisation(path)
        results.append(_archived(folder))
    return results


TARGETS = [
    Target("import-safetensors", _import, partial(_seeds, False), (ModelError,), mutated_archive),
    Target("import-pickle", _import, partial(_seeds, True), (ModelError,), mutated_archive),
    Target(
        "import-marian",
        partial(_import, precision="int8", overrides=Overrides((("en", "de"),))),
        _marian_seeds,
        (ModelError,),
        mutated_archive,
    ),
]
