"""Import of a downloaded checkpoint: make a bundle that can be served like any other."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from model.artifacts.archive import write_bundle
from model.artifacts.compare import LOGIT_BOUNDS
from model.artifacts.data_form import SUFFIX, assemble
from model.artifacts.manifest import Manifest, Precision
from model.artifacts.script import compile_model, convert_in_place
from model.errors import ArtifactError
from model.importing.families import check_family, describe
from model.importing.family import Family, Overrides
from model.importing.folder import CheckpointFolder, Tensors
from model.importing.marian_nmt.checkpoint import find_model, read_checkpoint
from model.importing.weights import Layout, check_sizes, fill, find_layout, stored_positions_differ
from model.network.config import ModelConfig
from model.network.embeddings import position_table
from model.network.transformer import Transformer
from model.process.progress import Progress, no_progress

_PROBE_ROWS = 4
_PROBE_TOKENS = 12


def import_checkpoint(
    path: Path,
    out: Path,
    precision: Precision,
    *,
    overrides: Overrides = Overrides(),  # noqa: B008  (frozen)
    name: str | None = None,
    licence: str | None = None,
    attribution: tuple[str, ...] = (),
    report: Callable[[str], None] = print,
    progress: Progress = no_progress,
) -> Manifest:
    """Make a bundle of a checkpoint, and return its manifest.

    A checkpoint is a folder in Hugging Face's layout (MarianMT, M2M100, NLLB-200) or in Marian's own (Firefox
    Translations, OPUS-MT). At most two and a half times the float32 size of the weights is in memory at any moment.

    Args:
        path: The checkpoint's folder; or the file of a model of Marian, if its folder has several.
        out: The bundle to write; replaced atomically.
        precision: Precision of the bundle.
        overrides: The directions or languages to serve.
        name: The model's name; the folder's name by default.
        licence: Licence of the weights; by default the licence in the folder's README.md.
        attribution: Sources that the licence requires to be named.
        report: Called with each line of progress messages.
        progress: Wraps an iterable with a label and a length in a progress bar.

    Raises:
        ArtifactError: A file of the checkpoint is unusable, or the bundle cannot be written.
        DeviceError: The precision is int8 and the processor has no int8 kernels.
    """
    _check_out(out)
    is_data = out.suffix == SUFFIX  # which needs no TorchScript, which takes a second
    model = find_model(path)
    if model is None or (path.is_dir() and (path / "config.json").is_file()):
        imported = _import_hugging_face(CheckpointFolder(path), precision, overrides, report, progress, is_data=is_data)
    else:
        imported = _import_marian(model, precision, overrides, report, is_data=is_data)
    family, max_positions = imported.family, imported.config.max_positions
    licence = licence or CheckpointFolder(path.parent if path.is_file() else path).licence()
    manifest = Manifest(
        name=_encodable(name or path.resolve().name),
        pairs=family.pairs,
        languages=family.languages,
        architecture=imported.config.to_dict(),
        precision=precision,
        max_source_tokens=imported.max_source_tokens,
        max_target_tokens=max_positions,
        licence=_encodable(licence or "unstated"),
        attribution=tuple(_encodable(source) for source in attribution),
        tokenizer=family.tokenizer,
        decoding=family.policy.to_dict(),
        training={"imported_from": imported.origin},
        precision_report=imported.precision_report,
    )
    write_bundle(imported.module, manifest, family.files, out)
    report(f"{out}: {out.stat().st_size / 1e6:.1f} MB")
    return manifest


def _check_out(out: Path) -> None:
    """Check that the bundle can be written, before gigabytes are read."""
    if out.is_dir():
        raise ArtifactError(f"{out} is a folder; --out names the bundle's file.")
    nearest = next(parent for parent in out.absolute().parents if parent.exists())
    if not nearest.is_dir() or not os.access(nearest, os.W_OK):
        raise ArtifactError(f"{out} cannot be written: {nearest} is not a writable folder.")


def _encodable(text: str) -> str:
    """Replace characters that UTF-8 cannot encode, such as parts of a file name in another encoding."""
    return text.encode("utf-8", "replace").decode()


@dataclass(frozen=True)
class _Imported:
    """A checkpoint as a model that can be written.

    Args:
        module: The model in the requested precision; scripted, unless it is written in data form.
        config: Its architecture.
        family: Its description.
        max_source_tokens: Tokens of the longest sentence that it reads.
        origin: What it was imported from, for the manifest.
        precision_report: How far its logits are from those of float32.
    """

    module: Transformer
    config: ModelConfig
    family: Family
    max_source_tokens: int
    origin: str
    precision_report: dict[str, float]


def _import_hugging_face(
    folder: CheckpointFolder,
    precision: Precision,
    overrides: Overrides,
    report: Callable[[str], None],
    progress: Progress,
    *,
    is_data: bool,
) -> _Imported:
    """Import a folder in Hugging Face's layout."""
    check_family(folder)
    tensors = Tensors(folder)
    layout = find_layout(tensors)
    family = describe(folder, layout, tensors.shapes, overrides)
    _report_notes(family, report)
    transformer, config = _build(family, tensors, layout, report, progress)
    module, precision_report = _convert(transformer, config, precision, is_data=is_data)
    report(f"{precision} against float32, on random tokens: {precision_report}")
    origin = f"{folder.json('config.json')['model_type']} checkpoint"
    return _Imported(module, config, family, config.max_positions, origin, precision_report)


def _import_marian(
    model: Path, precision: Precision, overrides: Overrides, report: Callable[[str], None], *, is_data: bool
) -> _Imported:
    """Import a model of Marian."""
    checkpoint = read_checkpoint(model, overrides)
    family, config, weights = checkpoint.family, checkpoint.description.config, checkpoint.weights
    _report_notes(family, report)
    source, target = _probe(config)
    with torch.inference_mode():
        transformer = assemble(config, "float32", family.pad_id, weights.take)
        weights.check_all_used()
        _report_size(transformer, config, report)
        expected = transformer(source, target)
        if precision != "float32":
            transformer = assemble(config, precision, family.pad_id, weights.take)
    module = transformer if is_data else compile_model(transformer)
    module, precision_report = _compare(module, source, target, expected, precision)
    kept = ", whose int8 weights were kept" if weights.are_quantised and precision == "int8" else ""
    report(f"{precision} against float32, on random tokens: {precision_report}")
    origin = f"{model.name}, a model of Marian{kept}"
    return _Imported(module, config, family, checkpoint.max_source_tokens, origin, precision_report)


def _report_notes(family: Family, report: Callable[[str], None]) -> None:
    for note in family.notes:
        report(f"note: {note}")


def _report_size(transformer: Transformer, config: ModelConfig, report: Callable[[str], None]) -> None:
    num_parameters = sum(parameter.numel() for parameter in transformer.parameters())
    report(f"{num_parameters / 1e6:.1f} M parameters, {config.positions} positions")


def _build(
    family: Family,
    tensors: Tensors,
    layout: Layout,
    report: Callable[[str], None],
    progress: Progress,
) -> tuple[Transformer, ModelConfig]:
    """Build the model with the checkpoint's weights; also gives its architecture, adapted to the stored positions."""
    config = family.config
    check_sizes(tensors, layout, config)
    table = position_table(config.positions, config.max_positions, config.d_model, config.position_offset)
    if stored_positions_differ(tensors, layout, table, family.position_skip):
        config = replace(config, positions="learned", position_offset=0)
    transformer = Transformer(config, family.pad_id)
    fill(transformer, tensors, layout, table=table, position_skip=family.position_skip, progress=progress)
    _report_size(transformer, config, report)
    return transformer.eval(), config


def _probe(config: ModelConfig) -> tuple[Tensor, Tensor]:
    """Random tokens, the same for every precision."""
    generator = torch.Generator().manual_seed(1)
    length = min(_PROBE_TOKENS, config.max_positions)
    source, target = (
        torch.randint(vocab_size, (_PROBE_ROWS, length), generator=generator)
        for vocab_size in (config.source_vocab_size, config.target_vocab_size)
    )
    return source, target


def _convert(
    transformer: Transformer, config: ModelConfig, precision: Precision, *, is_data: bool
) -> tuple[Transformer, dict[str, float]]:
    """The model in a precision, and how far its logits differ from those of float32.

    Raises:
        ArtifactError: The logits are not finite, or those of the scripted float32 model differ.
    """
    source, target = _probe(config)
    with torch.inference_mode():
        expected = transformer(source, target)
        module = convert_in_place(transformer, precision)
        module = module if is_data else compile_model(module)
    return _compare(module, source, target, expected, precision)


def _compare(
    module: Transformer, source: Tensor, target: Tensor, expected: Tensor, precision: Precision
) -> tuple[Transformer, dict[str, float]]:
    """Measure how far the logits of a converted model are from expected ones; returns the model and the differences.

    Raises:
        ArtifactError: The logits are not finite, or those of the scripted float32 model differ.
    """
    with torch.inference_mode():
        logits = module.forward(source, target).float()
    difference = logits - expected
    scale = float(expected.std())
    report = {
        "max_logit_error": round(float(difference.abs().max()), 6),
        "rms_logit_error": round(float(difference.square().mean().sqrt()), 6),
        "logit_deviation": round(scale, 4),
    }
    if not torch.isfinite(logits).all():
        raise ArtifactError(f"The model's logits are not finite in {precision}; choose another precision, or float32.")
    if precision == "float32" and report["max_logit_error"] > LOGIT_BOUNDS["float32"] * max(1.0, scale):
        raise ArtifactError(f"The scripted model differs from the checkpoint: {report}; nothing was written.")
    return module, report
