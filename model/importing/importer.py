"""Import of a downloaded checkpoint: make a bundle that can be served like any other."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from model.artifacts.archive import write_bundle
from model.artifacts.compare import LOGIT_BOUNDS
from model.artifacts.manifest import Manifest, Precision
from model.artifacts.script import script_in_place
from model.errors import ArtifactError
from model.importing.families import check_family, describe
from model.importing.family import Family, Overrides
from model.importing.folder import CheckpointFolder, Tensors
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
    """Make a bundle of a Hugging Face checkpoint (MarianMT, M2M100, NLLB-200), and return its manifest.

    At most two and a half times the float32 size of the weights is in memory at any moment.

    Args:
        path: The checkpoint's folder.
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
    folder = CheckpointFolder(path)
    _check_out(out)
    check_family(folder)
    tensors = Tensors(folder)
    layout = find_layout(tensors)
    family = describe(folder, layout, tensors.shapes, overrides)
    for note in family.notes:
        report(f"note: {note}")
    transformer, config = _build(family, tensors, layout, report, progress)
    module, precision_report = _script(transformer, config, precision)
    report(f"{precision} against float32, on random tokens: {precision_report}")
    manifest = Manifest(
        name=_encodable(name or path.resolve().name),
        pairs=family.pairs,
        languages=family.languages,
        architecture=config.to_dict(),
        precision=precision,
        max_source_tokens=config.max_positions,
        max_target_tokens=config.max_positions,
        licence=_encodable(licence or folder.licence() or "unstated"),
        attribution=tuple(_encodable(source) for source in attribution),
        tokenizer=family.tokenizer,
        decoding=family.policy.to_dict(),
        training={"imported_from": f"{folder.json('config.json')['model_type']} checkpoint"},
        precision_report=precision_report,
    )
    write_bundle(module, manifest, family.files, out)
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
    num_parameters = sum(parameter.numel() for parameter in transformer.parameters())
    report(f"{num_parameters / 1e6:.1f} M parameters, {config.positions} positions")
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


def _script(
    transformer: Transformer, config: ModelConfig, precision: Precision
) -> tuple[Transformer, dict[str, float]]:
    """Script the model in a precision, and measure how far its logits differ from those of float32.

    Raises:
        ArtifactError: The logits are not finite, or those of the scripted float32 model differ.
    """
    source, target = _probe(config)
    with torch.inference_mode():
        expected = transformer(source, target)
        module = script_in_place(transformer, precision)
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
