"""The command ``inspect``: the metadata of a bundle or checkpoint, and the sizes of its parts."""

from __future__ import annotations

import argparse
import json
import zipfile
from pathlib import Path
from typing import Any

EPILOG = """\
examples:
  verso inspect verso.pt
  verso inspect verso.pt --json | jq .manifest.scores
No code of the file is run.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command."""
    parser.add_argument("file", type=Path, help="a bundle or a checkpoint")
    parser.add_argument("--json", action="store_true", help="everything as one JSON object")


def run(arguments: argparse.Namespace) -> int:
    """Print it."""
    metadata = _inspected(arguments.file)
    if not arguments.json:
        print("\n".join(_summary(metadata)), end="\n\n")
        print(json.dumps(metadata["manifest"], ensure_ascii=False, indent=1, sort_keys=True))
    else:
        print(json.dumps(metadata, ensure_ascii=False, indent=1, sort_keys=True))
    return 0


def _inspected(path: Path) -> dict[str, Any]:
    from model.artifacts.bundle import is_checkpoint, read_manifest
    from model.artifacts.checkpoint import load_checkpoint
    from model.artifacts.data_form import is_data_form, open_bundle
    from model.artifacts.manifest import Manifest
    from model.network.config import ModelConfig

    if is_checkpoint(path):
        checkpoint = load_checkpoint(path)
        manifest = Manifest.of_checkpoint(checkpoint.facts, checkpoint.config, "float32")
        kind, form = "checkpoint", None
    else:
        with open_bundle(path) as archive:
            form = "data" if is_data_form(archive) else "TorchScript"
        manifest, kind = read_manifest(path), "bundle"
    return {
        "kind": kind,
        "form": form,
        "manifest": json.loads(manifest.to_json()),
        "directions": manifest.directions.describe(at_most=1000),
        "parameters": _parameters(ModelConfig.from_dict(manifest.architecture)),
        "bytes": _sizes(path),
    }


def _parameters(config: Any) -> dict[str, int]:
    """Parameters of each part; a tied parameter is counted once, in the part that uses it first."""
    import torch

    from model.network.transformer import Transformer

    with torch.device("meta"):
        transformer = Transformer(config, pad_id=0)
    counts: dict[str, int] = {}
    for name, parameter in transformer.named_parameters():
        part = name.split(".")[0].removesuffix("_norm")
        counts[part] = counts.get(part, 0) + parameter.numel()
    return {**counts, "total": sum(counts.values())}


def _sizes(path: Path) -> dict[str, int]:
    """Bytes of the file and of its parts."""
    sizes = {"file": path.stat().st_size, "weights": 0, "vocabulary": 0, "other": 0}
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            parts = member.filename.split("/")
            vocabulary = "extra" in parts and parts[-1] != "manifest.json"
            weights = parts[-1] == "weights.safetensors" or (len(parts) > 1 and parts[-2] in ("data", "constants"))
            sizes["vocabulary" if vocabulary else "weights" if weights else "other"] += member.file_size
    return sizes


def _shortlist(metadata: dict[str, Any]) -> str:
    if not metadata:
        return "none ('verso shortlist' makes one)"
    return (
        f"{metadata['per_token']} translations of each token and {metadata['always']} tokens always; "
        f"{metadata['candidates']:.0f} candidates for a sentence on average"
    )


def _confidence(metadata: dict[str, Any]) -> str:
    if not metadata:
        return "not calibrated ('verso calibrate' does it)"
    return f"calibrated on {', '.join(metadata.get('dev', {})) or 'unnamed text'}"


def _summary(metadata: dict[str, Any]) -> list[str]:
    manifest, parameters, sizes = metadata["manifest"], metadata["parameters"], metadata["bytes"]
    form = "" if metadata["form"] is None else f" ({metadata['form']})"
    lines = [
        f"{manifest['name']}: {metadata['kind']}{form}, {manifest['precision']}, {sizes['file'] / 1e6:.1f} MB "
        f"(weights {sizes['weights'] / 1e6:.1f}, vocabulary {sizes['vocabulary'] / 1e6:.1f})",
        f"translates   {metadata['directions']}",
        f"licence      {manifest['licence']}" + "".join(f"\n             {text}" for text in manifest["attribution"]),
        f"sentences    up to {manifest['max_source_tokens']} tokens; longer ones are split",
        f"shortlist    {_shortlist(manifest['shortlist'])}",
        f"confidence   {_confidence(manifest['confidence'])}",
        f"parameters   {parameters['total'] / 1e6:.2f} M",
    ]
    lines += [
        f"  {part.replace('_', ' '):<18} {count / 1e6:>8.2f} M" for part, count in parameters.items() if part != "total"
    ]
    return lines
