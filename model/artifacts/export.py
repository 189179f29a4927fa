"""Checkpoint to bundle: scripted, converted to its precision, compared with the eager model, then written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from model.artifacts.archive import write_bundle
from model.artifacts.bundle import check_device
from model.artifacts.checkpoint import Checkpoint
from model.artifacts.compare import Comparison, check_bounds, compare
from model.artifacts.manifest import Manifest, Precision
from model.artifacts.script import script
from model.decoding.shortlist import SHORTLIST, Shortlist
from model.errors import DeviceError
from model.network.quantised import activation_levels
from model.network.transformer import Transformer
from model.process.progress import Progress, no_progress
from model.text.lexicon import LEXICON, Lexicon


def export_bundle(
    checkpoint: Checkpoint,
    precision: Precision,
    out: Path,
    *,
    device: str = "cpu",
    shortlist: Shortlist | None = None,
    lexicon: Lexicon | None = None,
    report: Callable[[str], None] = print,
    progress: Progress = no_progress,
) -> Manifest:
    """Write a bundle, after comparing it with the eager model.

    Args:
        checkpoint: The trained model; its facts name a held-out sample to compare on.
        precision: Of the bundle.
        out: The file to write; replaced whole or not at all.
        device: Where to compare: float16 is compared faster on a GPU.
        shortlist: A vocabulary shortlist for the bundle to carry.
        lexicon: A lexicon for it to carry.
        report: Takes a progress message.
        progress: Wraps an iterable with a label and a length in a progress bar.

    Raises:
        ArtifactError: The scripted model differs too much from the eager one, or the file cannot be written.
        DeviceError: The device is missing or cannot run this precision.
    """
    torch_device = check_device(device, precision)
    if precision == "int8" and torch_device.type == "cuda":
        raise DeviceError("An int8 bundle is compared on the CPU; export it with --device cpu.")
    transformer = checkpoint.build()
    module = script(transformer, precision)
    manifest = Manifest.of_checkpoint(checkpoint.facts, checkpoint.config, precision)
    results = _compare(checkpoint, transformer.to(torch_device), module.to(torch_device), manifest, progress)
    if results is None:
        report("The checkpoint carries no held-out sample (dev_sample): nothing was compared.")
    else:
        report(f"{precision} against eager float32: {results.to_dict()}")
        check_bounds(results, precision)
        levels = {"activation_levels": activation_levels()} if precision == "int8" else {}
        manifest = replace(manifest, precision_report={**results.to_dict(), **levels})
    files = dict(checkpoint.vocabulary_files)
    if shortlist is not None:
        config = checkpoint.config
        shortlist.check(config.source_vocab_size, config.target_vocab_size, checkpoint.tokenizer.end_id)
        manifest = replace(manifest, shortlist=shortlist.facts)
        files[SHORTLIST] = shortlist.to_bytes()
    if lexicon is not None:
        files[LEXICON] = lexicon.to_bytes()
    write_bundle(module.to("cpu"), manifest, files, out)
    report(f"{out}: {out.stat().st_size / 1e6:.1f} MB")
    return manifest


def _compare(
    checkpoint: Checkpoint, transformer: Transformer, module: Transformer, manifest: Manifest, progress: Progress
) -> Comparison | None:
    """Compare the scripted with the eager model on the checkpoint's held-out sample; None if it has none."""
    sample = [(first, second) for first, second in checkpoint.facts.get("dev_sample", [])]
    if not sample:
        return None
    languages = tuple(checkpoint.facts["settings"]["languages"])
    return compare(transformer, module, checkpoint.tokenizer, manifest, sample, languages, progress)
